"""Scopes, which say what a key may do, such as `publish:orders*` and `consume:orders/billing`."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

from attrs import frozen

ADMIN = "admin"
"""The scope that covers everything."""
VERBS = ("publish", "consume", "operate", "read")

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}\*?|\*", re.ASCII)
_FORMS = "publish:TOPIC, consume:TOPIC/GROUP, operate:TOPIC, read:TOPIC or admin, with a * at the end of a name"


@frozen
class _Names:
    """One name, or all names with a prefix."""

    text: str
    """The name or prefix, without the star."""
    many: bool

    @classmethod
    def parse(cls, text: str) -> "_Names":
        return cls(text.removesuffix("*"), text.endswith("*"))

    def have(self, name: str) -> bool:
        return name.startswith(self.text) if self.many else name == self.text

    @property
    def are_all(self) -> bool:
        return self.many and not self.text


_ALL = _Names("", many=True)


@frozen
class _Reach:
    """The verb, topics and groups that a scope covers."""

    verb: str
    topics: _Names
    groups: _Names = _ALL


class Scopes:
    def __init__(self, texts: Iterable[str]) -> None:
        """Texts that are not valid scopes, as a later version may have written them, cover nothing."""
        texts = [text for text in texts if wrong_scope(text) is None]
        self.texts = tuple(texts)
        self.admin = ADMIN in texts
        self._reaches: dict[str, list[_Reach]] = {verb: [] for verb in VERBS}
        for text in texts:
            if text != ADMIN:
                verb, _, names = text.partition(":")
                topic, _, group = names.partition("/")
                reach = _Reach(verb, _Names.parse(topic), _Names.parse(group) if group else _ALL)
                self._reaches[verb].append(reach)

    def reach(self, verb: str, topic: str, group: str | None = None) -> bool:
        """Whether they cover this topic; if a group is named, this group of it, else any."""
        if self.admin:
            return True
        for reach in self._reaches[verb]:
            if reach.topics.have(topic) and (group is None or reach.groups.have(group)):
                return True
        return False

    def reach_all(self, verb: str) -> bool:
        """Whether they cover every topic, and every group."""
        return self.admin or any(reach.topics.are_all and reach.groups.are_all for reach in self._reaches[verb])

    def have(self, verb: str) -> bool:
        """Whether they cover anything with this verb."""
        return self.admin or bool(self._reaches[verb])


def wrong_scope(text: str) -> str | None:
    """What is wrong with a scope, and what to write instead; None if it is valid."""
    if text == ADMIN:
        return None
    verb, colon, names = text.partition(":")
    if verb not in VERBS or not colon:
        near = get_close_matches(verb, [*VERBS, ADMIN], 1)
        hint = f" (did you mean {near[0]}?)" if near and near[0] != verb else ""
        return f"{text!r} is no scope{hint}: write {_FORMS}"
    topic, slash, group = names.partition("/")
    if verb == "consume" and not slash:
        return f"{text!r} names no group: write consume:{topic or 'TOPIC'}/GROUP, or consume:{topic or 'TOPIC'}/*"
    if verb != "consume" and slash:
        return f"{text!r} names a group, and only consume is of a group: write {verb}:{topic}"
    for name in (topic, group) if slash else (topic,):
        if _NAME.fullmatch(name) is None:
            return f"{text!r}: a name is 1 to 249 letters, digits, dots, underscores and hyphens, and may end with a *"
    return None

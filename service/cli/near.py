"""Finds the existing name nearest to one that does not exist, for a hint about a typo."""

import re
from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches

from ...client import NotFound, Tarry, TarryError

_TOPIC = re.compile(r"there is no topic '([^']+)'")
_GROUP = re.compile(r"topic '([^']+)' has no group '([^']+)'")
_SCHEDULE = re.compile(r"there is no schedule '([^']+)'")


def hint(name: str, known: Iterable[str]) -> str:
    """A hint with the nearest name; empty if none is near."""
    near = get_close_matches(name, list(known), 1)
    return f' (did you mean "{near[0]}"?)' if near else ""


def add_hint(error: NotFound, tarry: Tarry) -> None:
    """Adds the nearest name to a server's error about a topic, a group or a schedule that does not exist.

    It is one of the names that the caller's own key may list, so that nobody learns names by asking for others.
    """
    text = str(error)
    with suppress(TarryError):
        if found := _TOPIC.search(text):
            known = [str(one["topic"]) for one in tarry.topics()]
        elif found := _GROUP.search(text):
            known = [str(one["group"]) for one in tarry.topic(found[1])["groups"]]
        elif found := _SCHEDULE.search(text):
            known = [one.name for one in tarry.schedules()]
        else:
            return
        rest = text[found.end() :].replace("PUT /v1/topics/", "tarry topics put ")
        error.args = (text[: found.end()] + hint(found[found.re.groups], known) + rest,)

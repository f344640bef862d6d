"""A form: its fields, what was typed, and what is wrong with it, told at the field (pure).

What a field had when the page was made comes back with it, so that only what somebody has changed is asked for: what
others have set meanwhile stays.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

from .api import Refused

_BARE = re.compile(r"(?!0+$)[0-9]+([.,][0-9]*)?")
"""A number that would be milliseconds, which nobody means; 0 is 0 in any unit."""
_SHARE = re.compile(r"([0-9]{1,9}(\.[0-9]{1,9})?)?")

Read = Callable[[str], Any]
"""What is asked for by a text; raises ValueError, which says what to write."""


def plain(text: str) -> Any:
    """As it is."""
    return text


def whole(text: str) -> int | str | None:
    """A whole number; the API says of what is none what it wants. Empty takes back what was set."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else text or None


def share(text: str) -> float | str:
    """A number from 0 to 1, likewise; empty is none."""
    return float(text or 0) if _SHARE.fullmatch(text) else text


def span(text: str) -> str | None:
    """A duration, with its unit. Empty takes it back."""
    if _BARE.fullmatch(text):
        raise ValueError(f"{text} has no unit: write {text}s for seconds, {text}d for days")
    return text or None


def rests(text: str) -> list[str | None] | None:
    """Durations with commas; `none` has none."""
    if not text:
        return None
    return [] if text == "none" else [span(one.strip()) or "" for one in text.split(",")]


@frozen
class Field:
    """A line to type in, or a choice."""

    name: str
    label: str
    was: str = ""
    """When the page was made."""
    read: Read = plain
    hint: str = ""
    choices: Sequence[str] = ()
    value: str = field(default="", kw_only=True)
    """What is in it now."""
    wrong: str = field(default="", kw_only=True)


@frozen
class Form:
    """Fields and a button."""

    name: str
    to: str
    """Where it is sent."""
    button: str
    fields: Sequence[Field]
    hidden: Mapping[str, str] = field(factory=dict[str, str])
    """What is sent along."""
    wrong: str = ""
    """What is wrong with none of the fields alone."""

    @property
    def first_wrong(self) -> str:
        """The name of the field to look at; empty where all is well."""
        return next((one.name for one in self.fields if one.wrong), "")

    def fresh(self) -> "Form":
        """As the page shows it first."""
        return evolve(self, fields=[evolve(one, value=one.was) for one in self.fields])

    def typed(self, sent: Callable[[str], str]) -> "Form":
        """As it was sent."""
        return evolve(
            self, fields=[evolve(one, value=sent(one.name), was=sent(f"was.{one.name}")) for one in self.fields]
        )

    def asked(self) -> tuple[dict[str, Any], "Form"]:
        """What has changed, as the API takes it; and the form with what cannot be read."""
        asked: dict[str, Any] = {}
        fields: list[Field] = []
        for one in self.fields:
            if one.value != one.was:
                try:
                    asked[one.name] = one.read(one.value)
                except ValueError as error:
                    one = evolve(one, wrong=str(error))
            fields.append(one)
        return asked, evolve(self, fields=fields)

    def refused(self, error: Refused) -> "Form":
        """With what the API says of each field, and of none."""
        told: dict[str, str] = {}
        for fault in error.problem.get("errors") or ():
            name, _, place = str(fault.get("pointer", "")).removeprefix("/").partition("/")
            prefix = f"rung {int(place) + 1}: " if place.isdecimal() else ""
            told.setdefault(name, f"{prefix}{fault['detail']}")
        fields = [evolve(one, wrong=told.pop(one.name, one.wrong)) for one in self.fields]
        rest = "" if any(one.wrong for one in fields) and not told else error.detail
        return evolve(self, fields=fields, wrong=rest)

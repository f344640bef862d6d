"""Forms: their fields, what the visitor typed, and errors shown at the fields (pure).

A form also sends back the values that its fields had when the page was made, so that only fields the visitor changed
are set: changes that others made meanwhile stay.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

from .api import Refused

_BARE = re.compile(r"(?!0+$)[0-9]+([.,][0-9]*)?")
"""A number without a unit, which would be milliseconds and is hardly meant so; 0 needs no unit."""
_SHARE = re.compile(r"([0-9]{1,9}(\.[0-9]{1,9})?)?")

Read = Callable[[str], Any]
"""Turns a field's text into the API's value; raises ValueError, which says what to write."""


def plain(text: str) -> Any:
    return text


def whole(text: str) -> int | str | None:
    """A whole number; other texts are passed on, so that the API reports them. Empty resets the setting."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else text or None


def share(text: str) -> float | str:
    """A number from 0 to 1, likewise; empty is 0."""
    return float(text or 0) if _SHARE.fullmatch(text) else text


def span(text: str) -> str | None:
    """A duration, with its unit. Empty resets the setting."""
    if _BARE.fullmatch(text):
        raise ValueError(f"{text} has no unit: write {text}s for seconds, {text}d for days")
    return text or None


def rests(text: str) -> list[str | None] | None:
    """Durations separated by commas; `none` is an empty list. Empty resets the setting."""
    if not text:
        return None
    return [] if text == "none" else [span(one.strip()) or "" for one in text.split(",")]


@frozen
class Field:
    """A field of a form: a text input, or a choice."""

    name: str
    label: str
    was: str = ""
    """Its value when the page was made."""
    read: Read = plain
    hint: str = ""
    choices: Sequence[str] = ()
    value: str = field(default="", kw_only=True)
    """Its value now."""
    wrong: str = field(default="", kw_only=True)


@frozen
class Form:
    name: str
    to: str
    """The address to which it is sent."""
    button: str
    fields: Sequence[Field]
    hidden: Mapping[str, str] = field(factory=dict[str, str])
    """Hidden fields that are sent along."""
    wrong: str = ""
    """An error that belongs to no single field."""

    @property
    def first_wrong(self) -> str:
        return next((one.name for one in self.fields if one.wrong), "")

    def fresh(self) -> "Form":
        """The form as the page first shows it."""
        return evolve(self, fields=[evolve(one, value=one.was) for one in self.fields])

    def typed(self, sent: Callable[[str], str]) -> "Form":
        """The form with the values that were sent."""
        return evolve(
            self, fields=[evolve(one, value=sent(one.name), was=sent(f"was.{one.name}")) for one in self.fields]
        )

    def asked(self) -> tuple[dict[str, Any], "Form"]:
        """The changed values, for the API; and the form, with errors at fields that cannot be read."""
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
        """The form with the API's errors, at their fields where they name one."""
        told: dict[str, str] = {}
        for fault in error.problem.get("errors") or ():
            name, _, place = str(fault.get("pointer", "")).removeprefix("/").partition("/")
            prefix = f"rung {int(place) + 1}: " if place.isdecimal() else ""
            told.setdefault(name, f"{prefix}{fault['detail']}")
        fields = [evolve(one, wrong=told.pop(one.name, one.wrong)) for one in self.fields]
        rest = "" if any(one.wrong for one in fields) and not told else error.detail
        return evolve(self, fields=fields, wrong=rest)

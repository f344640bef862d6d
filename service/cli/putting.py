"""Settings of topics and groups: reads limits, durations, ladders (`1m,1h`), `default`; tables of values and defaults.

The server decides which values are valid: its errors about fields are reported for the flags.
"""

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal, TypeAlias, cast

from cyclopts import Parameter, Token

from ...client import TarryError
from ...store.whole_number import whole_number
from ..durations import format_duration, parse_duration
from .options import with_unit

DEFAULT: Literal["default"] = "default"
"""Resets a setting."""
NONE = "none"
"""A ladder without rungs."""
COLUMNS = ("setting", "value", "whose", "default")

Row: TypeAlias = tuple[str, str, str, str]


def or_limit(type_: object, tokens: Sequence[Token]) -> int | Literal["default"]:
    """Reads a flag's whole number, or `default`. Raises ValueError, which says what to write."""
    return DEFAULT if tokens[0].value == DEFAULT else whole_number(type_, tokens)


def or_duration(_type: object, tokens: Sequence[Token]) -> str:
    """Reads a flag's duration, or `default`. Raises ValueError, which says what to write."""
    text = tokens[0].value.strip()
    return text if text == DEFAULT else _checked(text)


def or_ladder(_type: object, tokens: Sequence[Token]) -> str:
    """Reads a flag's rests, separated by commas, or `none` or `default`. Raises ValueError, which says what to
    write."""
    text = tokens[0].value.strip()
    if text not in (DEFAULT, NONE):
        for number, rung in enumerate(text.split(","), 1):
            try:
                _checked(rung.strip())
            except ValueError as error:
                raise ValueError(f"rung {number}: {error}") from None
    return text


def _checked(text: str) -> str:
    parse_duration(with_unit(text))
    return text


def part(_type: object, tokens: Sequence[Token]) -> float:
    """Reads a flag's number from 0 to 1. Raises ValueError, which says what to write."""
    text = tokens[0].value.strip()
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text) is None or float(text) > 1:
        raise ValueError(f'"{text[:40]}" is not a number from 0 to 1, such as 0.2')
    return float(text)


def limit(about: str) -> Parameter:
    """A flag that takes a limit."""
    return Parameter(converter=or_limit, help=f"{about}; default: no limit.")


Limit: TypeAlias = int | Literal["default"] | None
Ladder: TypeAlias = Annotated[
    str | None,
    Parameter(
        converter=or_ladder,
        allow_leading_hyphen=True,
        help="Rests after the 1st, 2nd, ... failure: 1m,5m,1h; none: no retries; or default.",
    ),
]
Jitter: TypeAlias = Annotated[
    float | None,
    Parameter(converter=part, allow_leading_hyphen=True, help="0 to 1: a rest is up to so much of itself longer."),
]


def rungs(ladder: str | None) -> Sequence[str] | Literal["default"] | None:
    if ladder is None:
        return None
    if ladder == DEFAULT:
        return DEFAULT
    return [] if ladder == NONE else [rung.strip() for rung in ladder.split(",")]


@contextmanager
def told_of_flags() -> Generator[None, None, None]:
    """Makes the server's errors about fields name the flags that the values came from."""
    try:
        yield
    except TarryError as error:
        faults = _faults(error)
        for fault in faults:
            fault["pointer"] = _flag(fault["pointer"])
        if len(faults) == 1:
            error.args = (f"{faults[0]['pointer']}: {faults[0].get('detail')}",)
        raise


def _faults(error: TarryError) -> list[dict[str, Any]]:
    """The error's faults of fields, if they have the form of a Tarry server's."""
    told: Any = error.errors
    said = cast("Sequence[Any]", told) if isinstance(told, list) else ()
    faults = [cast("dict[str, Any]", one) for one in said if isinstance(one, dict)]
    return [one for one in faults if isinstance(one.get("pointer"), str)]


def _flag(pointer: str) -> str:
    name, _, rung = pointer.removeprefix("/").partition("/")
    flag = f"--{name.replace('_', '-')}"
    return f"{flag}, rung {int(rung) + 1}" if rung.isdecimal() else flag


def topic_rows(told: Mapping[str, Any]) -> list[Row]:
    """The settings of a topic, and the source of each value. An older server tells no defaults."""
    defaults = cast("Mapping[str, Any]", told.get("defaults", {}))
    made = (("kind", "cluster"), ("queues", 1), ("ordered", False), ("sequencer", "store"))
    rows = [(name, _word(told[name]), "topic", _word(default)) for name, default in made]
    for name, show in (("retention", format_duration), ("ladder", _ladder), ("jitter", _number)):
        default = show(defaults[name]) if name in defaults else ""
        rows.append(
            (name, default, "server", default) if told[name] is None else (name, show(told[name]), "topic", default)
        )
    return rows + [_limit(told, name, "topic") for name in ("max_pending", "max_rate", "release_rate")]


def group_rows(told: Mapping[str, Any]) -> list[Row]:
    """The settings of a group, likewise. Values that it does not set are its topic's, or the server's."""
    defaults = cast("Mapping[str, Any]", told.get("defaults", {}))
    whose = told.get("ladder_of", "")
    rows: list[Row] = []
    for name, show in (("ladder", _ladder), ("jitter", _number)):
        default = f"{show(defaults[name])} ({defaults['ladder_of']})" if name in defaults else ""
        rows.append((name, show(told[name]), whose, default))
    rows.append(("on-exhausted", told["on_exhausted"], "group", "dead"))
    return [*rows, _limit(told, "concurrency", "group")]


def _limit(told: Mapping[str, Any], name: str, own: str) -> Row:
    value, label = told[name], name.replace("_", "-")
    return (label, "no limit", "server", "no limit") if value is None else (label, str(value), own, "no limit")


def _ladder(rests: Sequence[int]) -> str:
    return ",".join(map(format_duration, rests)) or NONE


def _number(value: float) -> str:
    return f"{value:g}"


def _word(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)

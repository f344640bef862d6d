"""Finds time zones by their IANA names, such as Europe/Berlin."""

from datetime import UTC, tzinfo
from difflib import get_close_matches
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

_SHOWN = 100
_NO_ZONES = {"localtime", "Factory"}
"""Names that a system may list among its zones, but that mean something else on each."""


def zone_named(name: str) -> tzinfo:
    """The zone of this name. Raises ValueError, with the nearest name, if there is none."""
    if name == "UTC":
        return UTC  # its arithmetic is faster
    if name in _NO_ZONES:
        raise ValueError(f'{name!r} is no zone of its own: write an IANA name, such as "Europe/Berlin"')
    if name not in _names():
        raise ValueError(f"there is no time zone {name[:_SHOWN]!r}{_meant(name)}")
    return ZoneInfo(name)


def _meant(name: str) -> str:
    # People leave out the continent, and write small letters.
    by_word = {one.casefold(): one for one in sorted(_names())}
    by_word |= {one.rpartition("/")[2].casefold(): one for one in sorted(_names()) if "/" in one}
    by_word |= {one.casefold(): one for one in _names()}
    wanted = name[:_SHOWN].casefold().replace(" ", "_")
    near = get_close_matches(wanted, by_word, 1)
    return f": did you mean {by_word[near[0]]!r}?" if near else ': write its IANA name, such as "Europe/Berlin"'


@cache
def _names() -> frozenset[str]:
    return frozenset(available_timezones() - _NO_ZONES)

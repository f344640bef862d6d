"""Durations and times: parses and formats the texts that users write; inside they are milliseconds.

Everything finer than a millisecond is rounded up, so that a message is never early. Refusals are ValueError, whose text
says what to write instead.
"""

import re
from datetime import datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from math import ceil

_UNITS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_NUMBER = "[0-9]{1,15}(?:[.,][0-9]{1,9})?"
_SHORT = re.compile("".join(rf"(?:(?P<{unit}>{_NUMBER}){unit}(?![a-z]))?" for unit in _UNITS))
_ISO = re.compile(
    rf"P(?=[0-9T])(?:(?P<w>{_NUMBER})W)?(?:(?P<d>{_NUMBER})D)?"
    rf"(?:T(?=[0-9])(?:(?P<h>{_NUMBER})H)?(?:(?P<m>{_NUMBER})M)?(?:(?P<s>{_NUMBER})S)?)?"
)
_WHOLE = re.compile("[0-9]{1,18}")
_W, _D, _H, _M, _S = (f"(?:{_NUMBER}{letter})" for letter in "WDHMS")
_CLOCK = f"(?:T(?:{_H}{_M}?{_S}?|{_M}{_S}?|{_S}))"
DURATION_PATTERN = "|".join(
    (
        _WHOLE.pattern,
        "".join(f"(?:{_NUMBER}{unit})?" for unit in _UNITS),
        f"P(?:{_W}{_D}?{_CLOCK}?|{_D}{_CLOCK}?|{_CLOCK})",
    )
)
"""For JSON Schema: matches every duration, and also durations that are too long and an empty text. It has no anchors,
named groups or lookaheads, which not every reader of a schema supports."""
_CALENDAR = re.compile(r"-?P[0-9.,YMWD]*[YM]|-?[0-9.,]+ ?(?:y|yr|years?|mo|mon|months?)\b.*", re.IGNORECASE | re.DOTALL)
_FORM = 'write milliseconds (600000), units from w, d, h, m, s and ms ("10m", "1h30m"), or ISO 8601 ("PT10M")'

_LONGEST = 200
"""The most characters of a duration's text; the digits of each part are bounded by `_NUMBER`."""

MAX_DURATION = 10**15
"""Milliseconds, some 31,000 years: a longer duration is a mistake and not worth arithmetic."""

_TIME = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ](?P<clock>[0-9]{2}:[0-9]{2}):(?P<second>[0-9]{2})"
    r"(?:\.(?P<fraction>[0-9]{1,30}))?(?P<zone>[Zz]|[+-][0-9]{2}:[0-9]{2})?"
)
_HOUR, _SIXTY = "(?:[01][0-9]|2[0-3])", "[0-5][0-9]"
TIME_PATTERN = (
    "[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
    rf"[Tt ]{_HOUR}:{_SIXTY}:(?:{_SIXTY}|60)(?:\.[0-9]{{1,30}})?(?:[Zz]|[+-]{_HOUR}:{_SIXTY})"
)
"""For JSON Schema, likewise: matches every time that is accepted, and a few dates that do not exist, such as 30
February."""
_EPOCH = datetime(1970, 1, 1)
_SECOND = timedelta(seconds=1)
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""0001-01-01T00:00:00.000Z and 9999-12-31T23:59:59.999Z."""
_LEAP = 60


def parse_duration(value: int | str) -> int:
    """Milliseconds from an integer (milliseconds too), "10m", "1h30m", "250ms", "PT10M" or "P1DT2H"."""
    if isinstance(value, bool):
        raise ValueError(f"true and false are no durations: {_FORM}")
    if isinstance(value, int):
        return _within(value)
    return _parse_text(value)


@lru_cache(1000)  # the same few delays come again and again; refusals are not cached
def _parse_text(value: str) -> int:
    text = value[:100]
    if len(value) > _LONGEST:
        raise ValueError(f"{text!r} is not a duration: {_FORM}")
    if _WHOLE.fullmatch(value):
        return _within(int(value))
    parts = _ISO.fullmatch(value) or (_SHORT.fullmatch(value) if value else None)
    if parts is None:
        if _CALENDAR.fullmatch(value):
            raise ValueError(f'{text!r}: years and months have no fixed length; write days, such as "30d" or "P30D"')
        if value.startswith("-"):
            raise ValueError(f"{text!r} is negative: a duration is 0 or more")
        raise ValueError(f"{text!r} is not a duration: {_FORM}")
    named = parts.groupdict()
    return _within(sum(Fraction(named[unit].replace(",", ".")) * _UNITS[unit] for unit in named if named[unit]))


def _within(duration: Fraction | int) -> int:
    if duration < 0:
        raise ValueError("it is negative: a duration is 0 or more")
    if duration > MAX_DURATION:
        raise ValueError("it is longer than thirty thousand years")
    return ceil(duration)


def format_duration(ms: int) -> str:
    """A short text that `parse_duration` reads as this duration: 5400000 is "1h30m"."""
    text = ""
    for unit, size in _UNITS.items():
        if unit == "w" and ms % size:
            continue  # "10d" reads better than "1w3d"
        count, ms = divmod(ms, size)
        if count:
            text += f"{count}{unit}"
    return text or "0s"


def parse_time(text: str) -> int:
    """Unix milliseconds from RFC 3339; the zone is required. A time before 1970 is negative."""
    shown = repr(text[:100])
    parts = _TIME.fullmatch(text)
    if parts is None:
        plus = "; in an address + is written %2B" if re.search(r"T.* \d\d:\d\d$", text[:100]) else ""
        raise ValueError(f'{shown} is not a time as in RFC 3339: write "2026-11-21T10:00:00Z"{plus}')
    if parts["zone"] is None:
        raise ValueError(f"{shown} has no zone: add Z or an offset such as +02:00")
    second = int(parts["second"])
    try:
        # A leap second is the first moment after it: Unix time has no other name for it, and this is never early.
        local = datetime.fromisoformat(f"{parts['date']}T{parts['clock']}:{min(second, _LEAP - 1):02}")
        utc = local - _offset(parts["zone"])
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{shown} is not a time: {error}") from None
    if second >= _LEAP:
        if second > _LEAP or (utc.hour, utc.minute) != (23, 59):
            raise ValueError(f"{shown} is not a time: second must be in 0..59")
        return (utc - _EPOCH) // _SECOND * 1000 + 1000
    fraction = parts["fraction"] or ""
    finer = any(digit != "0" for digit in fraction[3:])
    return (utc - _EPOCH) // _SECOND * 1000 + int(fraction[:3].ljust(3, "0")) + finer


def _offset(zone: str) -> timedelta:
    if zone in ("Z", "z"):
        return timedelta(0)
    hours, minutes = int(zone[1:3]), int(zone[4:6])
    if hours > 23 or minutes > 59:
        raise ValueError("the offset must be within 23:59")
    offset = timedelta(hours=hours, minutes=minutes)
    return -offset if zone[0] == "-" else offset


@lru_cache(1024)  # messages published, claimed or settled together have the same times
def format_time(ms: int) -> str:
    """RFC 3339 in UTC with milliseconds: 2026-11-21T10:00:00.000Z. A time out of range becomes the first or last moment
    that can be written."""
    second, rest = divmod(min(max(ms, _FIRST_MS), _LAST_MS), 1000)
    return f"{_second(second)}.{rest:03}Z"


@lru_cache(4096)  # most times of a claim lie in a few seconds; formatting each anew took a fifth of the claim
def _second(second: int) -> str:
    return (_EPOCH + timedelta(seconds=second)).isoformat(timespec="seconds")

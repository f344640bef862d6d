"""Converts durations and instants between users and the wire.

A duration has its unit: `"10m"`, ISO 8601 or a timedelta. A bare number is refused, since time-outs are in seconds and
the wire has milliseconds; 0 is 0 in any unit. An instant is a datetime with a zone, or RFC 3339. Both round up to the
millisecond: a message may be late, but never early.
"""

import re
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Literal, cast

Duration = str | timedelta | Literal[0]
Seconds = float | str | timedelta
"""A time-out of the client itself: a number is seconds, as everywhere in Python."""

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_SHORT = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d|w))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_ISO = re.compile(r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_NUMBER = re.compile(r"\s*[+-]?[\d_]+(?:\.\d*)?\s*")
_MICROSECOND = timedelta(microseconds=1)


def is_bare(text: str) -> bool:
    """Whether the text is a number without a unit, and not 0, which needs none."""
    return _NUMBER.fullmatch(text) is not None and text.strip() != "0"


def duration_out(duration: Duration, field: str = "") -> int | str:
    """A duration for the wire; a string goes as it is, for the server to read. Errors name the `field`."""
    given = cast("object", duration)  # users are not all typed
    if isinstance(given, timedelta):
        return -(-(given // _MICROSECOND) // 1000)
    prefix = f"{field}: " if field else ""
    if isinstance(given, str):
        if is_bare(given):
            raise ValueError(prefix + _unitless(given.strip()))
        return given
    if isinstance(given, bool) or not isinstance(given, int | float):
        kind = type(given).__name__
        raise TypeError(f'{prefix}an object of type {kind} is no duration: write "1800s" or timedelta(seconds=1800)')
    if given != 0:
        raise TypeError(prefix + _unitless(str(given)))
    return 0


def _unitless(number: str) -> str:
    return (
        f'{number} has no unit: write "{number}s" or timedelta(seconds={number}) for seconds, '
        f'"{number}ms" for milliseconds'
    )


def milliseconds(duration: Duration, field: str = "") -> int:
    """A duration in milliseconds, for waits and leases, which the client times itself."""
    out = duration_out(duration, field)
    if isinstance(out, int):
        return out
    text = out.strip()
    if text == "0":
        return 0
    if _SHORT.fullmatch(text):
        return ceil(sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text)))
    match = _ISO.fullmatch(text)
    if match and any(match.groups()):
        return ceil(sum(float(n) * _UNITS[u] for n, u in zip(match.groups(), "wdhms", strict=True) if n))
    prefix = f"{field}: " if field else ""
    raise ValueError(f'{prefix}"{duration}" is not a duration: write "10m", "1800s", "PT10M" or a timedelta')


def seconds(timeout: Seconds, field: str) -> float:
    """A time-out in seconds: a number is taken as seconds, and any duration is converted."""
    if isinstance(timeout, str | timedelta):
        return milliseconds(timeout, field) / 1000
    return timeout


def instant_out(instant: datetime | str, field: str = "deliver_at") -> str:
    """An instant as RFC 3339 in UTC. A datetime without a zone is refused: nobody knows which moment it names."""
    if isinstance(instant, str):
        return instant
    given = cast("object", instant)
    wanted = "datetime.now(UTC), or .astimezone() for local time"
    if not isinstance(given, datetime):
        kind = type(given).__name__
        text = f"an object of type {kind} does not say which moment: write a datetime with a zone, {wanted}"
        raise TypeError(f"{field}: {text}")
    if given.tzinfo is None:
        raise ValueError(f"{field} wants a datetime with a zone: {wanted}")
    utc = given.astimezone(UTC)
    utc += timedelta(microseconds=-utc.microsecond % 1000)
    return utc.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"  # strftime leaves out zeros of a year


def instant_in(text: str) -> datetime:
    """Reads a time from the server."""
    return datetime.fromisoformat(text)

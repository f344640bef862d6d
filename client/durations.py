"""Durations and instants on their way in and out.

A duration is milliseconds, a timedelta, `"10m"` or ISO 8601; an instant is a datetime with a zone, or RFC 3339. Both
round up to the millisecond: a message may be late, and never early.
"""

import re
from datetime import UTC, datetime, timedelta
from math import ceil

Duration = int | str | timedelta

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_SHORT = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d|w))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_ISO = re.compile(r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_MICROSECOND = timedelta(microseconds=1)


def duration_out(duration: Duration) -> int | str:
    """As it goes over the wire; the server reads strings itself."""
    if isinstance(duration, timedelta):
        return -(-(duration // _MICROSECOND) // 1000)
    return duration


def milliseconds(duration: Duration) -> int:
    """How long it is, for what the client itself has to time: waits and leases."""
    if isinstance(duration, timedelta):
        return -(-(duration // _MICROSECOND) // 1000)
    if isinstance(duration, int):
        return duration
    text = duration.strip()
    if text.isdecimal():
        return int(text)
    if _SHORT.fullmatch(text):
        return ceil(sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text)))
    match = _ISO.fullmatch(text)
    if match and any(match.groups()):
        return ceil(sum(float(n) * _UNITS[u] for n, u in zip(match.groups(), "wdhms", strict=True) if n))
    raise ValueError(f'"{duration}" is not a duration: write milliseconds, "10m" or "PT10M"')


def instant_out(instant: datetime | str) -> str:
    """RFC 3339 in UTC. A datetime without a zone is refused: nobody knows which moment it names."""
    if isinstance(instant, str):
        return instant
    if instant.tzinfo is None:
        raise ValueError("deliver_at wants a datetime with a zone: datetime.now(UTC), or .astimezone() for local time")
    utc = instant.astimezone(UTC)
    utc += timedelta(microseconds=-utc.microsecond % 1000)
    return utc.strftime("%Y-%m-%dT%H:%M:%S.") + f"{utc.microsecond // 1000:03}Z"


def instant_in(text: str) -> datetime:
    """A time of the server's."""
    return datetime.fromisoformat(text)

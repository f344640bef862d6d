"""Formats numbers, durations and times for people (pure)."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

_LOCAL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?")
"""The form in which a browser sends a field for a time: without a zone."""

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def number(value: object) -> str:
    """A number with separators: 1234567 is 1,234,567."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def short(value: float) -> str:
    """A number in short: 1234567 is 1.2 M."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if value >= size:
            scaled = value / (size if unit != " k" else 1000)
            return f"{scaled:.1f}{unit}" if scaled < 100 else f"{scaled:.0f}{unit}"
    return number(value if isinstance(value, int) or value % 1 else int(value))


def duration(ms: float | None) -> str:
    """A duration in its two largest units: 90000 is 1 min 30 s."""
    if ms is None:
        return ""
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 60_000 and ms % 1000:
        return f"{ms / 1000:.3f} s"
    said: list[str] = []
    left = int(ms)
    for size, unit in _UNITS:
        many, left = divmod(left, size)
        if many:
            said.append(f"{many} {unit}")
    return " ".join(said[:2])


def ladder(rests: Sequence[int]) -> str:
    """A ladder, such as "10 s, 1 min"."""
    return ", ".join(map(duration, rests)) or "none: the first failure is the last"


def milliseconds(time: str) -> int:
    """Unix milliseconds of a time as the API writes it."""
    return round(datetime.fromisoformat(time).timestamp() * 1000)


def moment(time: str | None) -> str:
    """A time in UTC to read: 2026-11-23T20:41:07.123Z is 2026-11-23 20:41:07.123."""
    return "" if not time else time.replace("T", " ").removesuffix("Z")


def local(time: str) -> str:
    """The value of a field for a time: 2026-11-23T21:41:07.5+01:00 is 2026-11-23T20:41:07; empty if it is no time."""
    try:
        read = datetime.fromisoformat(utc(time))
        return read.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S") if read.tzinfo else ""
    except (ValueError, OverflowError):
        return ""


def utc(time: str) -> str:
    """Completes a field's time as UTC: 2026-11-23T20:41 is 2026-11-23T20:41:00Z; any other text stays as it is."""
    match = _LOCAL.fullmatch(time)
    if match is None:
        return time
    return f"{time}Z" if match[1] else f"{time}:00Z"


def clock(ms: float) -> str:
    """The time of the day of a time in Unix milliseconds, UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%H:%M")


def day(ms: float) -> str:
    """The day of the month of a time in Unix milliseconds, UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%d %b")


def bodied(count: int, one: str, many: str) -> str:
    """A count with its noun: 1 message, 2 messages."""
    return f"{number(count)} {one if count == 1 else many}"


def ranges(numbers: Sequence[int], between: str = ", ") -> str:
    """Numbers as ranges: [0, 1, 2, 5] is 0-2, 5."""
    said: list[str] = []
    first = last = -2
    for number in [*sorted(numbers), -2]:
        if number == last + 1:
            last = number
            continue
        if last >= 0:
            said.append(str(first) if first == last else f"{first}-{last}")
        first = last = number
    return between.join(said)

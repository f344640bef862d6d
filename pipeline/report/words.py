"""Numbers as people read them: counts, durations, shares, times."""

from datetime import datetime

from ..times import moment
from .window import DAY, HOUR, MINUTE, SECOND

NOTHING = "\u2013"
"""A dash, where a number is not known."""

_UNITS = ((DAY, "d", HOUR, "h"), (HOUR, "h", MINUTE, "min"), (MINUTE, "min", SECOND, "s"))


def count(number: int | None) -> str:
    return NOTHING if number is None else f"{number:,}"


def short_count(number: float) -> str:
    """For an axis: 1.2 k, 3 M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g} {letter}"
    return f"{number:g}"


def duration(ms: float | None) -> str:
    """A duration with two significant figures or units: 3 ms, 1.2 s, 4 min 5 s, 2 h 10 min, 3 d 4 h."""
    if ms is None:
        return NOTHING
    if ms < 0:
        return f"-{duration(-ms)}"
    if ms < SECOND:
        return f"{round(ms)} ms"
    if ms < 59.95 * SECOND:
        return f"{ms / SECOND:.1f}".removesuffix(".0") + " s" if ms < 9.95 * SECOND else f"{round(ms / SECOND)} s"
    for size, name, part_size, part_name in _UNITS:
        parts = round(ms / part_size)
        per = size // part_size
        if parts >= per:
            whole, rest = divmod(parts, per)
            return f"{whole} {name} {rest} {part_name}" if rest else f"{whole} {name}"
    return f"{round(ms / SECOND)} s"


def share(part: float | None, *, signed: bool = False) -> str:
    if part is None:
        return NOTHING
    percent = part * 100
    digits = 0 if abs(percent) >= 9.95 or percent == round(percent) else 1
    sign = "+" if signed else ""
    return f"{percent:{sign}.{digits}f} %"


def rate(number: float) -> str:
    """A number a second, with two significant figures."""
    return f"{number:,.0f}" if number >= 10 or not number else f"{number:.2g}"


def times(factor: float) -> str:
    """A multiple of a mean: 1.0 is the mean itself."""
    return f"{factor:.1f} times"


def time(value: datetime | None) -> str:
    return NOTHING if value is None else f"{value:%Y-%m-%d %H:%M}"


def clock(value: datetime, length: int) -> str:
    """A time within a window of this length, without the parts that the window makes plain."""
    if length <= HOUR:
        return f"{value:%H:%M:%S}"
    if length <= 2 * DAY:
        return f"{value:%H:%M}"
    return f"{value:%d %b %H:%M}" if length <= 31 * DAY else f"{value:%d %b}"


def stretch(since: int, until: int) -> str:
    """2013-11-27 10:00 to 2013-11-28 05:00 UTC."""
    return f"{time(moment(since))} to {time(moment(until))} UTC"


def named(topic: str, group: str) -> str:
    return f"{topic} / {group}"


def clipped(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"

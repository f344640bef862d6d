"""Cron expressions in a time zone: checks them, and computes their next times, with cronsim.

On the two days of a year on which clocks change, expressions with fixed hours follow Debian's cron, as cronsim does: a
time that the clock skips fires at the end of the gap, and a time that occurs twice fires once, the first time.
Expressions with a star at the minute or the hour, or with seconds, go by the time that passes.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache

from attrs import define, field
from cronsim import CronSim, CronSimError

from .zones import zone_named

_LONGEST = 200
_SHOWN = 40
_NAMES = ("minute", "hour", "day-of-month", "month", "day-of-week")
_FORMS = {
    "second": "0 to 59",
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31, L for the last day, or LW for the last weekday",
    "month": "1 to 12, or JAN to DEC",
    "day-of-week": "0 to 7 (0 and 7 are Sunday), SUN to SAT, FRI#2 for the second Friday, or 5L for the last",
}
_WIDEST = {"second": 60, "minute": 60, "hour": 24, "day-of-month": 31, "month": 12, "day-of-week": 7}
"""How many values a field has."""
_SHORT = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_HOUR = 3_600_000
_KNOWN = 1000
"""Results that are cached: many schedules share an expression, and fire at the same time."""
_STEPS = 1000
"""The most times that a search may return from before its start, which happens where a clock is set back by half an
hour."""


@define
class Cron:
    """A cron expression in a zone. Times are Unix milliseconds. Raises ValueError, which names the wrong field."""

    expression: str
    timezone: str = "UTC"
    _zone: tzinfo = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._zone = zone_named(self.timezone)
        check(self.expression)

    def after(self, ms: int) -> int | None:
        """The first time later than this; None if there is none within fifty years."""
        return _after(self.expression, self._zone, ms)


@lru_cache(_KNOWN)
def _after(expression: str, zone: tzinfo, ms: int) -> int | None:
    begin = ms
    while True:
        times = _from(expression, zone, begin)
        for _ in range(_STEPS):
            at = next(times, None)
            if at is None or at > ms:
                return at
        begin += _HOUR  # the search from here does not get past `ms`


def _from(expression: str, zone: tzinfo, ms: int) -> Iterator[int]:
    try:
        for at in CronSim(expression, (_EPOCH + ms * _MILLISECOND).astimezone(zone)):
            yield (at - _EPOCH) // _MILLISECOND
    except OverflowError:  # at the end of the calendar
        return


def check(expression: str) -> None:
    """Raises ValueError, with the wrong field and what to write, unless the expression is valid and has at least one
    time."""
    if expression.strip().casefold() in _SHORT:
        raise ValueError(f"write {_SHORT[expression.strip().casefold()]!r} in place of {expression.strip()!r}")
    if len(expression) > _LONGEST:
        raise ValueError(f"it has {len(expression)} characters, and may have {_LONGEST}")
    parts = expression.split()
    if len(parts) not in (5, 6):
        raise ValueError(
            f"it has {len(parts)} field{'s' * (len(parts) != 1)}, and wants 5 ({', '.join(_NAMES)}), or 6 with seconds"
            " first"
        )
    for place, (name, part) in enumerate(_named(parts)):
        alone = ["*"] * len(parts)
        alone[place] = part
        if not _is_read(" ".join(alone)):
            more = "; a range goes from low to high" * ("-" in part) + "; a step is 1 or more" * ("/" in part)
            raise ValueError(f"the {name} field {part[:_SHOWN]!r} is not in order: write {_FORMS[name]}{more}")
    if not _is_read(expression) or next(CronSim(expression, _EPOCH), None) is None:
        day, month = parts[-3], parts[-2]
        raise ValueError(
            f"the day-of-month field {day[:_SHOWN]!r} never comes in the months of the month field {month[:_SHOWN]!r}"
            + ("" if parts[-1] == "*" else f" on the days of the day-of-week field {parts[-1][:_SHOWN]!r}")
        )


def check_steps(expression: str) -> None:
    """Raises ValueError for a step that is longer than its field, such as */90 in the minutes, which fires each hour.

    Such an expression is valid, but whoever writes it means another interval.
    """
    for name, part in _named(expression.split()):
        steps = [int(one.rpartition("/")[2]) for one in part.split(",") if "/" in one]
        if (wide := next((step for step in steps if step > _WIDEST[name]), None)) is not None:
            raise ValueError(
                f"the {name} field {part[:_SHOWN]!r} has the step {wide}, and comes once in {_WIDEST[name]} "
                "all the same: write an interval as every"
            )


def _named(parts: Sequence[str]) -> Iterator[tuple[str, str]]:
    return zip(_NAMES if len(parts) == 5 else ("second", *_NAMES), parts, strict=True)


def _is_read(expression: str) -> bool:
    try:
        CronSim(expression, _EPOCH)
    except CronSimError:
        return False
    return True

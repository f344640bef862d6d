"""The stretch of time that a report is about, cut into equal steps. Milliseconds since 1970, UTC."""

from attrs import frozen
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own documentation has it

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000

MOST_STEPS = 100
"""More columns than that, nobody can read."""

LOOK_BACK = 28 * DAY
"""What came into the stream earlier than this before the window is settled, or taken by the hard limit of retention."""

LOOK_AHEAD = DAY
"""So long after the window, claims that began in it are looked for. Claims that stay open longer are few."""

_STEPS = tuple(
    n * unit
    for unit, numbers in ((SECOND, (1, 10)), (MINUTE, (1, 5, 15)), (HOUR, (1, 2, 3, 6, 12)), (DAY, (1, 2, 7, 28)))
    for n in numbers
)


@frozen
class Window:
    """From `since` (of it) to `until` (not of it)."""

    since: int
    until: int
    is_now: bool = False
    """It ends at the present, so that what the store knows of the present holds at its end."""

    @property
    def length(self) -> int:
        return self.until - self.since

    @property
    def step(self) -> int:
        """Of lines over time."""
        return step_of(self.length)

    @property
    def hours(self) -> int:
        """Of the heat map: an hour, or more when the window is long."""
        return max(HOUR, self.step)

    def has(self, time: Column) -> Column:
        """Whether a time is in the window."""
        return (time >= _literal(self.since)) & (time < _literal(self.until))

    def before(self, time: Column) -> Column:
        """Whether a time is in the stretch of the same length before it."""
        return (time >= _literal(self.since - self.length)) & (time < _literal(self.since))

    def begin_of(self, time: Column, step: int) -> Column:
        """The beginning of the step that a time is in."""
        ms = F.unix_millis(time) - F.lit(self.since)
        return F.timestamp_millis(F.lit(self.since) + ms - F.pmod(ms, F.lit(step)))


def step_of(length: int) -> int:
    """The finest of the usual steps that cuts `length` into no more than `MOST_STEPS`."""
    return next((step for step in _STEPS if length <= step * MOST_STEPS), length // MOST_STEPS + 1)


def window_around(first: int, last: int, *, is_now: bool = False) -> Window:
    """A window on round times that holds both. `last` is of it."""
    step = step_of(last - first + 1)
    return Window(first - first % step, last - last % step + step, is_now)


def _literal(ms: int) -> Column:
    return F.timestamp_millis(F.lit(ms))

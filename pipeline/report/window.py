"""The stretch of time that a report is about, cut into equal steps. Milliseconds since 1970, UTC."""

from attrs import frozen
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own documentation has it

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000

MOST_STEPS = 100
"""More columns than that, nobody can read."""

_MOST_CELLS = 36
"""Of a heat map, where cells shorter than an hour would make more of them."""

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
    def cell(self) -> int:
        """Of the heat map: an hour, more when the window is long, less when it is short."""
        return min(step_of(self.length, _MOST_CELLS), max(HOUR, self.step))

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


def step_of(length: int, most: int = MOST_STEPS) -> int:
    """The finest of the usual steps that cuts `length` into no more than `most`."""
    return next((step for step in _STEPS if length <= step * most), length // most + 1)


def window_to_now(since: int | None, first: int | None, now: int) -> Window:
    """From `since` until now, however long nothing has happened; else from a round time before `first` on.

    Where nothing is known, the last hour. By a clock that is behind, what is known may be of the future: a window has
    a millisecond at least.
    """
    if since is None:
        begin = now - HOUR if first is None else min(first, now - 1)
        since = begin - begin % step_of(now - begin)
    return Window(min(since, now - 1), now, is_now=True)


def _literal(ms: int) -> Column:
    return F.timestamp_millis(F.lit(ms))

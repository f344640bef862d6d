"""The stretch of time that a report is about, cut into equal steps. Milliseconds since 1970, UTC."""

from attrs import frozen
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own documentation has it

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000

MOST_STEPS = 100
"""Nobody can read more columns than that."""

_MOST_CELLS = 36
"""Most cells in a row of a heat map whose cells are shorter than an hour."""

LOOK_BACK = 28 * DAY
"""Messages that came into the stream longer than this before the window are settled, or removed by the hard limit."""

LOOK_AHEAD = DAY
"""Claims that began in the window are looked for until so long after it. Claims that stay open longer are few."""

_STEPS = tuple(
    n * unit
    for unit, numbers in ((SECOND, (1, 10)), (MINUTE, (1, 5, 15)), (HOUR, (1, 2, 3, 6, 12)), (DAY, (1, 2, 7, 28)))
    for n in numbers
)


@frozen
class Window:
    """The time from `since` (inclusive) to `until` (exclusive)."""

    since: int
    until: int
    is_now: bool = False
    """Whether it ends at the present, so that what the store knows of the present holds at its end."""

    @property
    def length(self) -> int:
        return self.until - self.since

    @property
    def step(self) -> int:
        """The length of a step of lines over time."""
        return step_of(self.length)

    @property
    def cell(self) -> int:
        """The length of a cell of the heat map: an hour, more when the window is long, less when it is short."""
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
    """The window from `since` until now, however long nothing has happened; without `since` from a round time before
    `first` on.

    If nothing is known, it is the last hour. By a clock that is behind, known rows may be of the future: a window has
    a millisecond at least.
    """
    if since is None:
        begin = now - HOUR if first is None else min(first, now - 1)
        since = begin - begin % step_of(now - begin)
    return Window(min(since, now - 1), now, is_now=True)


def _literal(ms: int) -> Column:
    return F.timestamp_millis(F.lit(ms))

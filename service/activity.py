"""Counts in memory, for pictures, what a server did in each second of the last minutes, and how late messages were.

It has no clock of its own: the caller passes one. An idle server costs nothing.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable
from typing import Literal

from attrs import define, field

SECONDS = 300
"""How many seconds are kept."""
BOUNDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 60_000)
"""Upper bounds of the lateness buckets, in milliseconds; messages later than the last have a bucket of their own."""
BAND = 10
"""Seconds whose lateness is counted together."""
BANDS = SECONDS // BAND

Kind = Literal["published", "delivered", "acked", "retried", "dead"]
KINDS: tuple[Kind, ...] = ("published", "delivered", "acked", "retried", "dead")


@define
class _Count:
    """The counts of one second, or of one band."""

    at: int
    counts: list[int]


@define(eq=False)
class Activity:
    """Counts per second and lateness per band; `seconds` is any clock that does not go back."""

    _seconds: Callable[[], float]
    _counts: deque[_Count] = field(factory=lambda: deque[_Count](maxlen=SECONDS + 1), init=False)
    _late: deque[_Count] = field(factory=lambda: deque[_Count](maxlen=BANDS + 1), init=False)

    def count(self, kind: Kind, messages: int) -> None:
        if messages:
            _last(self._counts, self._now, len(KINDS))[KINDS.index(kind)] += messages

    def late(self, seconds: Iterable[float]) -> None:
        """Adds messages that were handed out just now, each with its lateness in seconds."""
        counts = _last(self._late, self._now // BAND, len(BOUNDS) + 1)
        for one in seconds:
            counts[bisect_left(BOUNDS, 1000 * one)] += 1

    def rates(self) -> dict[Kind, list[int]]:
        """The counts of each whole second that is kept, the oldest first."""
        columns = _columns(self._counts, self._now - SECONDS, SECONDS, len(KINDS))
        return dict(zip(KINDS, map(list, zip(*columns, strict=True)), strict=True))

    def lateness(self) -> list[list[int]]:
        """The counts of each lateness bucket in each band, the oldest first; the last band is still under way."""
        return _columns(self._late, self._now // BAND - BANDS + 1, BANDS, len(BOUNDS) + 1)

    @property
    def _now(self) -> int:
        return int(self._seconds())


def _last(counts: deque[_Count], at: int, width: int) -> list[int]:
    if not counts or counts[-1].at != at:
        counts.append(_Count(at, [0] * width))
    return counts[-1].counts


def _columns(counts: Iterable[_Count], since: int, many: int, width: int) -> list[list[int]]:
    found = {one.at: one.counts for one in counts}
    return [found.get(at, [0] * width) for at in range(since, since + many)]

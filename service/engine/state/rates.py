"""Rates: how many messages a second each topic took in and gave out over the last minute, counted in memory.

A topic costs a few integers, and one that rests for a minute costs nothing. The caller gives the clock.
"""

from collections import deque
from collections.abc import Callable

from attrs import define, frozen

_STEP = 5.0
"""Seconds that are counted together."""
_STEPS = 12


@frozen
class Rate:
    """Messages a second."""

    published: float = 0.0
    delivered: float = 0.0

    @property
    def both(self) -> float:
        """In and out together, by which topics are ranked."""
        return self.published + self.delivered


@frozen
class Activity:
    rate: Rate
    backlog: int
    """Messages that its groups have yet to claim, all groups together."""


@define
class _Count:
    step: int
    published: int = 0
    delivered: int = 0


class Rates:
    """The rates of topics, by id. `seconds` is any clock that does not go back."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._began = seconds()
        self._counts: dict[int, deque[_Count]] = {}

    def count(self, topic_id: int, *, published: int = 0, delivered: int = 0) -> None:
        counts = self._present(topic_id)
        step = self._step()
        if not counts or counts[-1].step != step:
            counts.append(_Count(step))
        counts[-1].published += published
        counts[-1].delivered += delivered

    def of(self, topic_id: int) -> Rate:
        """The rate over the last minute, or since the service began if that is shorter."""
        if topic_id not in self._counts:
            return Rate()
        counts = self._present(topic_id)
        if not counts:
            del self._counts[topic_id]
            return Rate()
        span = min(self._seconds() - self._began, _STEP * (_STEPS - 1) + self._seconds() % _STEP)
        span = max(span, 1.0)
        return Rate(sum(c.published for c in counts) / span, sum(c.delivered for c in counts) / span)

    def all(self) -> dict[int, Rate]:
        """The rate of every topic that did not rest for the last minute."""
        rates = {topic_id: self.of(topic_id) for topic_id in list(self._counts)}
        return {topic_id: rate for topic_id, rate in rates.items() if rate.both}

    def _present(self, topic_id: int) -> deque[_Count]:
        """The topic's counts of the last minute."""
        counts = self._counts.setdefault(topic_id, deque())
        while counts and counts[0].step <= self._step() - _STEPS:
            counts.popleft()
        return counts

    def _step(self) -> int:
        return int(self._seconds() // _STEP)

"""Release rates: how many messages of a topic that have waited for their time may go into the stream now.

A bucket of tokens for each topic that has a rate, by the host's own clock. Each node has the share of the rate that it
has of the wheel. What one node does not release the others do not release for it: the rate is a bound, not a goal.
"""

import sys
from collections.abc import Mapping

from attrs import define, field

from ...clock import Clock
from ..cluster.ownership import Ownership

_BURST = 500
"""Milliseconds' worth that may go at once after a rest; one message at the least."""


@define(eq=False)
class Releases:
    """`rates` holds the rate of each topic that has one, as it is at any time."""

    _rates: Mapping[int, int]
    _ownership: Ownership
    _clock: Clock
    _paid_until: dict[int, float] = field(factory=dict[int, float], init=False)

    def __bool__(self) -> bool:
        return bool(self._rates)

    def bounds(self, topic: int) -> bool:
        return topic in self._rates

    def room(self, topic: int) -> int:
        """How many messages of the topic may go now."""
        rate = self._rates.get(topic)
        if rate is None:
            return sys.maxsize
        cost, now = self._cost(rate), self._clock.monotonic()
        return int((now - max(self._paid_until.get(topic, 0.0), now - max(_BURST, cost))) / cost)

    def spend(self, topic: int, many: int) -> None:
        """Counts so many messages as gone; a negative number gives them back."""
        rates = self._rates
        if topic in rates:
            cost, now = self._cost(rates[topic]), self._clock.monotonic()
            before = max(self._paid_until.get(topic, 0.0), now - max(_BURST, cost))
            self._paid_until[topic] = before + many * cost
        if len(self._paid_until) > len(rates):
            self._paid_until = {id_: until for id_, until in self._paid_until.items() if id_ in rates}

    def _cost(self, rate: int) -> float:
        """Milliseconds for which one message uses up this node's share."""
        return 1000 / (rate * self._ownership.part)

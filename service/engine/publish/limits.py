"""Limits of topics: how many of their messages may wait for their time, and how many are accepted a second.

They keep neighbours quiet, and are not exact. How many messages wait is read from the kept counters, once a second at
most while somebody publishes, and those taken here since are added; those that other nodes take meanwhile are not
known. Each node has its share of the rate. A topic without limits does not come here.
"""

from math import ceil

import trio
from attrs import define, field

from ....store import catalogue
from ....store.records import Topic
from ....store.store import Store
from ...clock import Clock
from ...errors import TooMany
from ..cluster.nodes import Nodes

_BELIEVED = 1_000
"""Milliseconds for which a reading is believed."""
_BURST = 1_000
"""Milliseconds' worth of messages that may come at once after a rest."""
_LATER = 5
"""Seconds after which to try again where too many messages wait: nobody knows when they will be fewer."""
_REMEMBERED = 10_000
"""Topics that are remembered; when there are more, those with nothing being written are dropped and read anew."""


@define(eq=False)
class _Known:
    turn: trio.Lock = field(factory=trio.Lock)
    """Held while the number is being read."""
    read_at: int | None = None
    waiting: int = 0
    """Messages that wait: those that were read, and those taken since."""
    flying: int = 0
    """Messages among them that are being written."""
    paid_until: float = 0.0
    """Milliseconds of the host's clock until which the rate is used up."""


@define(eq=False)
class Limits:
    """Call `look` and then `take` before a publish; after it call `landed`, whether it was written or not."""

    _store: Store
    _clock: Clock
    _nodes: Nodes
    _known: dict[int, _Known] = field(factory=dict[int, _Known], init=False)

    async def look(self, topic: Topic) -> None:
        """Reads how many messages wait, if that is limited and was not read just now. Raises `StoreError`."""
        if topic.max_pending is None:
            return
        known = self._of(topic)
        async with known.turn:
            now = self._clock.monotonic()
            if known.read_at is not None and now - known.read_at < _BELIEVED:
                return
            flying, waiting = known.flying, known.waiting
            states = await self._store.read(catalogue.topic_states, [topic])
            # What was being written as the read began may be in it, or not; what was taken since is not.
            known.waiting = states[topic.id].pending + flying + known.waiting - waiting
            known.read_at = now

    def is_full(self, topic: Topic, waiting: int) -> bool:
        """Whether so many more messages would be more than may wait."""
        return topic.max_pending is not None and self._of(topic).waiting + waiting > topic.max_pending

    def take(self, topic: Topic, messages: int, waiting: int) -> None:
        """Takes so many messages, `waiting` of which are for later. Raises `TooMany`, and then none is taken."""
        known = self._of(topic)
        if waiting and self.is_full(topic, waiting):
            raise TooMany(
                f"topic {topic.name!r} is full: {topic.max_pending} of its messages may wait for their time", _LATER
            )
        now = self._clock.monotonic()
        cost = self._cost(topic, messages)
        owed = known.paid_until - now
        if owed > 0 and owed + cost > _BURST:  # after a rest any batch may go; the next rest is longer
            seconds = max(1, ceil(min(owed, owed + cost - _BURST) / 1000))
            raise TooMany(f"topic {topic.name!r} takes {topic.max_rate} messages a second", seconds)
        known.paid_until = max(known.paid_until, now) + cost
        known.waiting += waiting
        known.flying += waiting

    def landed(self, topic: Topic, messages: int, waiting: int, *, written: bool) -> None:
        """The messages that were taken are written; if not, they are given back."""
        known = self._of(topic)
        known.flying -= waiting
        if not written:
            known.waiting -= waiting
            known.paid_until -= self._cost(topic, messages)

    def _cost(self, topic: Topic, messages: int) -> float:
        """Milliseconds for which so many messages use up this node's share of the rate."""
        return 0.0 if topic.max_rate is None else 1000 * messages * self._nodes.place[1] / topic.max_rate

    def _of(self, topic: Topic) -> _Known:
        if (known := self._known.get(topic.id)) is None:
            if len(self._known) >= _REMEMBERED:
                self._known = {id_: one for id_, one in self._known.items() if one.flying}
            known = self._known[topic.id] = _Known()
        return known

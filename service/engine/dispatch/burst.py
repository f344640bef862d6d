"""The burst: more is due than one batch holds, so it waits in lanes by topic and is promoted in turns.

Without release rates it begins only when more is due than a batch, or in a second known to be crowded, for the topics
must be looked up, which costs a read of what promotion will read next. From then on all that falls due comes here,
until nothing is left, so that nothing overtakes earlier messages of its queue.

Two batches are on their way at a time, and never of the same topic. So messages of other topics than the burst's go at
once, in a transaction of their own; they wait at most for a batch in which their topic has a share. And the large
batches go in the gaps between the small: see `pacing`.

While any topic has a release rate, all that falls due comes here; what is beyond its topic's rate stays.
"""

import math
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from contextlib import nullcontext

import trio
from attrs import define, field

from ....store.store import LIGHT
from ....wheel.columns import Columns
from ...clock import Clock
from ..state.due_lanes import Batch
from ..state.pending import Pending
from .lookahead import Lookahead
from .pacing import PAUSE, BurstPacing
from .promotion import Promotion

BATCH = 500
"""Messages promoted in one transaction. The commit of a thousand takes so long that others wait for it: measured, other
topics' messages beside a burst came a third later, and the burst was through no sooner."""
_WAYS = 2
"""Batches at a time, each with a connection."""
_DOUBTED = 0.1
"""Seconds between two looks whether the time is still in doubt."""
_PACE = 0.05
"""Seconds between two looks whether a rate lets more go."""


@define(eq=False)
class Burst:
    """Promotes what is in the lanes. Entries that are `aside` keep what they took of their topic's rate."""

    _pending: Pending
    _promotion: Promotion
    _lookahead: Lookahead
    _clock: Clock
    _aside: Container[int]
    _pacing: BurstPacing = field(init=False)
    largest: int = field(default=0, init=False)
    """The topic that more than half of the entries were of, when last looked; 0 if there was none."""
    _changed: trio.Event = field(factory=trio.Event, init=False)
    _stopping: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._pacing = BurstPacing(self._pending)

    async def put(self, timers: Columns) -> None:
        """Takes entries that are due, in order of time. Raises `StoreError`, and then has taken nothing."""
        topics = await self._lookahead.topics_of(timers, self.largest)
        lanes = _parted(timers, topics, self.largest) if topics else {self.largest: timers}
        ((largest, many),) = Counter({topic: len(some) for topic, some in lanes.items()}).most_common(1)
        self.largest = largest if 2 * many > len(timers) else 0
        self._pending.lanes.put(lanes)
        self._changed.set()

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(_WAYS):
                nursery.start_soon(self._go)

    def stop(self) -> None:
        """Makes `run` return as soon as nothing is under way; what waits stays here."""
        self._stopping = True
        self._changed.set()

    async def _go(self) -> None:
        releases, aside = self._pending.releases, self._aside
        while (batch := await self._next()) is not None:
            for topic, some in batch.of.items():
                releases.spend(topic, len(some))
            gone = await self._promote(batch)
            # What was cancelled meanwhile gives its room to others; what is aside, like what went, does not.
            for topic, some in batch.of.items():
                releases.spend(topic, sum(entry in gone or entry in aside for entry in some) - len(some))
            self._pending.lanes.over(batch)
            self._changed.set()

    async def _promote(self, batch: Batch) -> set[int]:
        """Promotes a batch; returns the entries that went into the stream."""
        gone: set[int] = set()
        entries: Sequence[int] = batch.entries
        large = batch.more or len(entries) > LIGHT
        with nullcontext() if large else self._pacing.other_topic():
            many = len(entries)
            while entries:
                began = trio.current_time()
                some, left = await self._promotion.promote(entries[:many])
                gone.update(one.entry for one in some)
                if large:
                    self._pacing.went(many - len(left), trio.current_time() - began)
                if entries := [*left, *entries[many:]]:
                    many = await self._pacing.turn(len(entries)) if large else len(entries)
        return gone

    async def _next(self) -> Batch | None:
        while not self._stopping:
            if self._clock.in_doubt and self._pending.lanes:
                await trio.sleep(_DOUBTED)
            elif (batch := self._take()) is not None:
                return batch
            else:
                await self._wait()
        return None

    def _take(self) -> Batch | None:
        if not self._pending.lanes.free:
            return None
        if many := self._pacing.room(BATCH):
            return self._pending.lanes.take(many, self._pending.releases.room)
        return self._pending.lanes.take_few(LIGHT, self._pending.releases.room)

    async def _wait(self) -> None:
        if self._changed.is_set():
            self._changed = trio.Event()
        rests = self._pacing.rests and self._pending.lanes.free
        with trio.move_on_after(PAUSE if rests else _PACE if self._pending.held_back else math.inf):
            await self._changed.wait()


def _parted(timers: Columns, topics: Mapping[int, int], largest: int) -> Mapping[int, Columns]:
    """Entries by topic; those of which `topics` says nothing are of `largest`."""
    others: dict[int, list[tuple[int, int]]] = {}
    told = [topics.get(entry, largest) != largest for entry in timers.ids]
    for due, entry in timers.chosen(told):
        others.setdefault(topics[entry], []).append((due, entry))
    lanes = {topic: Columns.of(some) for topic, some in others.items()}
    if len(rest := timers.chosen([not one for one in told])):
        lanes[largest] = rest
    return lanes

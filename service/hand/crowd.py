"""The crowd: more is due than one batch holds. It waits here, in lanes by topic, and comes into the stream in turns.

Only when the hand is behind: the topics are looked up, which costs a read of what promotion will read next. From then
on all that falls due comes here, until nothing is left, so that nothing overtakes what is of its queue.

Two batches are on their way at a time, and never of the same topic. So what is due of a topic beside the crowd's goes
at once, in a transaction of its own; it waits at most for a batch in which it has its share. And the large ones go in
the `gaps` between the small.

Where a topic has a release rate, all that is due comes here, and what is beyond the rate stays.
"""

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Iterator, Mapping, Sequence, Set
from contextlib import nullcontext

import trio
from attrs import define, field

from ...store.records import Promoted
from ...store.store import LIGHT
from ...wheel.columns import Columns
from .gaps import PAUSE, Gaps
from .lanes import Batch, Lanes
from .releases import Releases

_WAYS = 2
"""Batches at a time, each with a connection."""
_DOUBTED = 0.1
"""Seconds between two looks whether the time is still in doubt."""

_PACE = 0.05
"""Seconds between two looks whether more of what a rate holds back may go."""

Timer = tuple[int, int]
TopicsOf = Callable[[Columns, int], Awaitable[Mapping[int, int]]]
"""By entry the topic of each of these; it need not tell of those that are of the topic named."""


async def unknown(_timers: Columns, _crowd: int) -> Mapping[int, int]:
    """Who knows no topics: all are in one lane, in order of their time."""
    return {}


@define(eq=False)
class Crowd:
    """`fire` promotes the first of some entries, however long that takes, and tells which are left. While the time is
    `doubted` nothing is promoted."""

    _fire: Callable[[Sequence[int]], Awaitable[tuple[Sequence[Promoted], Sequence[int]]]]
    _topics_of: TopicsOf
    _doubted: Callable[[], bool]
    _batch: int
    _releases: Releases
    _gaps: Gaps
    _aside: Container[int] = frozenset[int]()
    _lanes: Lanes = field(factory=Lanes, init=False)
    largest: int = field(default=0, init=False)
    """The topic of which most were when last looked, if that was more than half of them; else 0."""
    _changed: trio.Event = field(factory=trio.Event, init=False)
    _stopping: bool = field(default=False, init=False)

    def __bool__(self) -> bool:
        """Whether something is here, or on its way."""
        return bool(self._lanes)

    def __len__(self) -> int:
        return len(self._lanes)

    @property
    def oldest(self) -> int | None:
        """When that was due which has waited here longest, and is not held back by a rate."""
        return self._lanes.oldest(but=self._releases.bounds)

    @property
    def held_back(self) -> list[int]:
        """The topics with a rate of which something waits here."""
        return [topic for topic in self._lanes.topics if self._releases.bounds(topic)] if self._releases else []

    def held_back_of(self, topic: int) -> int:
        """How many of a topic are due and wait for its rate; 0 where it has none."""
        return self._lanes.waiting(topic) if self._releases.bounds(topic) else 0

    def among(self, timers: Sequence[Timer]) -> set[int]:
        """The entries of these that are here."""
        return self._lanes.among(timers)

    def forget(self, shards: Set[int], until: int) -> Iterator[None]:
        """Forgets what is of these shards and was due before `until`, a piece at each step."""
        return self._lanes.forget(shards, until)

    async def put(self, timers: Columns) -> None:
        """Takes what is due, in order of time. Raises `StoreError`, and then has taken nothing."""
        topics = await self._topics_of(timers, self.largest)
        lanes = _parted(timers, topics, self.largest) if topics else {self.largest: timers}
        ((largest, many),) = Counter({topic: len(some) for topic, some in lanes.items()}).most_common(1)
        self.largest = largest if 2 * many > len(timers) else 0
        self._lanes.put(lanes)
        self._changed.set()

    async def run(self) -> None:
        """Promotes what is here, until it is stopped."""
        async with trio.open_nursery() as nursery:
            for _ in range(_WAYS):
                nursery.start_soon(self._go)

    def stop(self) -> None:
        """`run` returns when nothing is under way, and what waits stays here."""
        self._stopping = True
        self._changed.set()

    async def _go(self) -> None:
        while (batch := await self._next()) is not None:
            for topic, some in batch.of.items():
                self._releases.spend(topic, len(some))
            gone = await self._promote(batch)
            # For what was cancelled meanwhile others may go; not for what is aside.
            for topic, some in batch.of.items():
                self._releases.spend(topic, sum(entry in gone or entry in self._aside for entry in some) - len(some))
            self._lanes.over(batch)
            self._changed.set()

    async def _promote(self, batch: Batch) -> set[int]:
        """Which of them went into the stream."""
        gone: set[int] = set()
        entries: Sequence[int] = batch.entries
        large = batch.more or len(entries) > LIGHT
        with nullcontext() if large else self._gaps.neighbour():
            many = len(entries)
            while entries:
                began = trio.current_time()
                some, left = await self._fire(entries[:many])
                gone.update(one.entry for one in some)
                if large:
                    self._gaps.went(many - len(left), trio.current_time() - began)
                if entries := [*left, *entries[many:]]:
                    many = await self._gaps.turn(len(entries)) if large else len(entries)
        return gone

    async def _next(self) -> Batch | None:
        while not self._stopping:
            if self._doubted() and self._lanes:
                await trio.sleep(_DOUBTED)
            elif (batch := self._take()) is not None:
                return batch
            else:
                await self._wait()
        return None

    def _take(self) -> Batch | None:
        if not self._lanes.free:
            return None
        if many := self._gaps.room(self._batch):
            return self._lanes.take(many, self._releases.room)
        return self._lanes.take_few(LIGHT, self._releases.room)

    async def _wait(self) -> None:
        """Until something has changed, or more may go."""
        if self._changed.is_set():
            self._changed = trio.Event()
        rests = self._gaps.rests and self._lanes.free
        with trio.move_on_after(PAUSE if rests else _PACE if self.held_back else math.inf):
            await self._changed.wait()


def _parted(timers: Columns, topics: Mapping[int, int], largest: int) -> Mapping[int, Columns]:
    """Entries by topic; by the one named what no topic is told of."""
    others: dict[int, list[Timer]] = {}
    told = [topics.get(entry, largest) != largest for entry in timers.ids]
    for due, entry in timers.chosen(told):
        others.setdefault(topics[entry], []).append((due, entry))
    lanes = {topic: Columns.of(some) for topic, some in others.items()}
    if len(rest := timers.chosen([not one for one in told])):
        lanes[largest] = rest
    return lanes

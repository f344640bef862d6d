"""What is due and cannot go at once, because somebody holds its queue: it waits here, and the hand goes on.

The queue may be busy or it may be stuck. So what is held back first stands in line for its queue, with a transaction
that keeps no other queue waiting, and few at a time do so. When that was in vain, all queues that are stuck are looked
at together every quarter of a second, without standing in line. There are locks that no look shows, such as one on the
gap where messages would go: with such a queue the others would wait, so it is looked at apart.

Or the queue may be slow. All queues of a transaction that took long are suspects, and what is for them comes here. Half
of them at most are in one transaction, until those that were only in a slow one's company have been in a quick one.

Within a queue the order stays: while something for it is here, the hand brings what comes after it here too.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from itertools import islice

import structlog
import trio
from attrs import define, field

from ...store.errors import Locked, StoreError
from ...store.records import Promoted
from ..outages import tell_failure

_BATCH = 1000
_LINES = 2
"""Queues that are stood in line for at a time, and transactions of suspects, each with a connection."""
_LOOK = 0.25
_PATIENCE, _EACH = 0.2, 0.001
"""Seconds after which a transaction counts as slow, and for each entry in it."""
_SUSPECTS = 1000
"""That are kept in mind."""
_PAUSE = 0.5
"""Seconds before another try when the store is away."""

log = structlog.get_logger()

_Place = dict[int, None]
"""Queues, in order. Each is in one place; in none while somebody brings it further."""


@define(eq=False)
class Held:
    """Entries by queue. `promote` stands in line and raises `Locked` when that was in vain; `promote_free` does not,
    and tells by queue what it has held back; it raises `Locked` for what it cannot see. While the time is `doubted`
    nothing is promoted."""

    _promote: Callable[[Sequence[int]], Awaitable[Sequence[Promoted]]]
    _promote_free: Callable[[Sequence[int]], Awaitable[tuple[Sequence[Promoted], Mapping[int, Sequence[int]]]]]
    _streamed: Callable[[Sequence[Promoted]], None]
    _topic_of: Callable[[int], object] = field(alias="topic_of")
    _doubted: Callable[[], bool] = field(alias="doubted")
    _queues: dict[int, dict[int, None]] = field(factory=dict[int, dict[int, None]], init=False)
    """Entries of each queue, in order; a queue is here until the last of them is through."""
    _entries: set[int] = field(factory=set[int], init=False)
    _again: set[int] = field(factory=set[int], init=False)
    """They came once more while they were under way. That transaction may have passed them over, for whoever brought
    them had them locked: they are tried again."""
    _line: _Place = field(factory=_Place, init=False)
    """They are next to be stood in line for."""
    _stuck: _Place = field(factory=_Place, init=False)
    """A look has shown that they are locked."""
    _slow: _Place = field(factory=_Place, init=False)
    """They are suspects, and wait for nothing else."""
    _suspects: _Place = field(factory=_Place, init=False)
    """Whether something for them is here or not."""
    _apart: _Place = field(factory=_Place, init=False)
    """They have been waited for in vain, and nobody knows whether a look shows that they are locked."""
    _locked_since: dict[int, tuple[float, object]] = field(factory=dict[int, tuple[float, object]], init=False)
    """Queues of which the log says that they are locked: trio's time, and the topic."""
    _locked_of_topic: Counter[object] = field(factory=Counter[object], init=False)
    _changed: trio.Event = field(factory=trio.Event, init=False)

    def __contains__(self, entry: object) -> bool:
        return entry in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def queues(self) -> Set[int]:
        """The queues for which all is to come here."""
        return self._queues.keys() | self._suspects.keys()

    def note(self, queues: Iterable[int], entries: int, took: float) -> None:
        """So many seconds took a transaction that brought so many entries to these queues."""
        for queue_id in queues:
            self._suspects.pop(queue_id, None)
            if took > _PATIENCE + entries * _EACH:
                self._suspects[queue_id] = None
        for queue_id in list(islice(self._suspects, max(0, len(self._suspects) - _SUSPECTS))):
            del self._suspects[queue_id]

    def put(self, held: Mapping[int, Sequence[int]]) -> None:
        """Takes entries by their queue."""
        for queue_id, entries in held.items():
            if queue_id not in self._queues:
                self._queues[queue_id] = {}
                self._put([queue_id], self._home(queue_id))
            here = self._queues[queue_id]
            if self._is_under_way(queue_id):
                self._again.update(entry for entry in entries if entry in here)
            here.update(dict.fromkeys(entries))
            self._entries.update(entries)

    async def emptied(self) -> None:
        """Waits until there is nothing here."""
        while self._queues:
            await trio.sleep(0.01)

    async def run(self) -> None:
        """Brings it further, for ever."""
        async with trio.open_nursery() as nursery:
            for _ in range(_LINES):
                nursery.start_soon(self._stand_in_line)
                nursery.start_soon(self._part)
            nursery.start_soon(self._look)
            nursery.start_soon(self._look_apart)

    async def _stand_in_line(self) -> None:
        while True:
            await self._until(lambda: self._line)
            queue_id = self._first_of(self._line)
            entries = self._take(queue_id, self._line)
            try:
                promoted = await self._promote(entries)
            except Locked:
                if queue_id not in self._locked_since:
                    self._locked_since[queue_id] = trio.current_time(), self._topic_of(queue_id)
                    self._locked_of_topic[self._topic_of(queue_id)] += 1
                    log.warning("queue_locked", queue_id=queue_id, waiting=len(self._queues[queue_id]))
                self._put([queue_id], self._apart)
            except StoreError as error:
                await self._failed(error, entries)
                self._put([queue_id], self._line)
            else:
                self._through(queue_id, entries, promoted)

    async def _look(self) -> None:
        while True:
            await self._until(lambda: self._stuck)
            await trio.sleep(_LOOK)
            if not self._doubted():
                await self._try_together(list(self._stuck)[:_BATCH], self._stuck, held=self._stuck)

    async def _part(self) -> None:
        while True:
            await self._until(lambda: self._slow)
            half = (len(self._slow) + 1) // 2
            await self._try_together(list(self._slow)[: min(half, _BATCH)], self._slow, held=self._line)

    async def _try_together(self, queues: list[int], place: _Place, *, held: _Place) -> None:
        """Those that are held back go to `held`."""
        each = max(1, _BATCH // len(queues))
        asked = {queue_id: self._take(queue_id, place, each) for queue_id in queues}
        entries = [entry for some in asked.values() for entry in some]
        began = trio.current_time()
        try:
            promoted, locked = await self._promote_free(entries)
        except Locked:  # of one of them it is not the row
            self._put(queues, self._apart)
        except StoreError as error:
            await self._failed(error, entries)
            self._put(queues, place)
        else:
            self.note(queues, len(promoted), trio.current_time() - began)
            moved = {one.queue_id for one in promoted}
            self._put([queue_id for queue_id in queues if queue_id in locked and queue_id not in moved], held)
            self._put([queue_id for queue_id in queues if queue_id in locked and queue_id in moved], self._line)
            self._streamed([one for one in promoted if one.queue_id in locked])
            for queue_id in [queue_id for queue_id in queues if queue_id not in locked]:
                self._through(queue_id, asked[queue_id], [one for one in promoted if one.queue_id == queue_id])

    async def _look_apart(self) -> None:
        while True:
            await self._until(lambda: self._apart)
            queue_id = self._first_of(self._apart)
            await self._try_together([queue_id], self._apart, held=self._stuck)
            if queue_id in self._apart:
                await trio.sleep(_LOOK)

    async def _until(self, there: Callable[[], object]) -> None:
        while not there() or self._doubted():
            if self._changed.is_set():
                self._changed = trio.Event()
            with trio.move_on_after(_LOOK if there() else float("inf")):
                await self._changed.wait()

    def _put(self, queues: Iterable[int], place: _Place) -> None:
        place.update(dict.fromkeys(queues))
        self._changed.set()

    def _is_under_way(self, queue_id: int) -> bool:
        return not any(queue_id in place for place in (self._line, self._stuck, self._slow, self._apart))

    def _home(self, queue_id: int) -> _Place:
        """Where a queue begins."""
        return self._slow if queue_id in self._suspects else self._line

    def _take(self, queue_id: int, place: _Place, many: int = _BATCH) -> list[int]:
        """The queue from its place, and the first of its entries."""
        del place[queue_id]
        return list(islice(self._queues[queue_id], many))

    def _first_of(self, place: _Place) -> int:
        """The next queue; one of a topic of which another is locked comes after all others."""
        return next((q for q in place if not self._locked_of_topic[self._topic_of(q)]), next(iter(place)))

    def _through(self, queue_id: int, entries: Sequence[int], promoted: Sequence[Promoted]) -> None:
        """These are in the stream, or there was nothing to promote any more."""
        rest = self._queues[queue_id]
        over = [entry for entry in entries if entry not in self._again]
        self._again.difference_update(entries)
        for entry in over:
            rest.pop(entry, None)
        self._entries.difference_update(over)
        if queue_id in self._locked_since:
            since, topic = self._locked_since.pop(queue_id)
            self._locked_of_topic -= Counter([topic])  # none of it is left when it comes to 0
            log.info("queue_free", queue_id=queue_id, seconds=round(trio.current_time() - since, 1), waiting=len(rest))
        if rest:
            self._put([queue_id], self._home(queue_id))
        else:
            del self._queues[queue_id]
        self._streamed(promoted)

    async def _failed(self, error: StoreError, entries: Sequence[int]) -> None:
        tell_failure("promotion_failed", error, entries=len(entries), again_in=_PAUSE)
        await trio.sleep(_PAUSE)

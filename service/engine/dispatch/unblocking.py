"""Unblocking: moves on entries that are `held` because their queue is locked or slow.

A queue first stands in line, with a transaction that keeps no other queue waiting, and few do so at a time. When that
was in vain, all stuck queues are looked at together every quarter of a second, without standing in line. Some locks no
look shows, such as one on the gap where messages would go: with such a queue the others would wait, so it is looked at
apart. Of the suspects half at most are in one transaction, until those that were only in a slow queue's company have
been in a quick transaction.
"""

from collections import Counter
from collections.abc import Sequence

import structlog
import trio
from attrs import define, field

from ....store.errors import Locked, StoreError
from ....store.records import Promoted
from ...clock import Clock
from ...outages import tell_failure
from ..signals import Signals
from .held import BATCH, Held, QueueIds
from .promotion import Promotion

_LINES = 2
"""Queues that are stood in line for at a time, and as many transactions of suspects, each with a connection."""
_LOOK = 0.25
_PAUSE = 0.5
"""Seconds before another try when the store is away."""

log = structlog.get_logger()


@define(eq=False)
class Unblocking:
    """Moves held entries on. While the time is in doubt nothing is promoted."""

    _held: Held
    _promotion: Promotion
    _signals: Signals
    _clock: Clock
    _locked_since: dict[int, tuple[float, int]] = field(factory=dict[int, tuple[float, int]], init=False)
    """Queues of which the log says that they are locked: since when, in trio's time, and the topic."""
    _locked_of_topic: Counter[int] = field(factory=Counter[int], init=False)

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(_LINES):
                nursery.start_soon(self._stand_in_line)
                nursery.start_soon(self._part)
            nursery.start_soon(self._look)
            nursery.start_soon(self._look_apart)

    async def _stand_in_line(self) -> None:
        while True:
            await self._until(self._held.line)
            queue_id = self._first_of(self._held.line)
            entries = self._held.take(queue_id, self._held.line)
            try:
                promoted = await self._promotion.promote_waiting(entries)
            except Locked:
                if queue_id not in self._locked_since:
                    self._locked_since[queue_id] = trio.current_time(), self._promotion.topic_of(queue_id)
                    self._locked_of_topic[self._promotion.topic_of(queue_id)] += 1
                    log.warning("queue_locked", queue_id=queue_id, waiting=len(self._held.by_queue[queue_id]))
                self._held.wait([queue_id], self._held.apart)
            except StoreError as error:
                await self._failed(error, entries)
                self._held.wait([queue_id], self._held.line)
            else:
                self._through(queue_id, entries, promoted)

    async def _look(self) -> None:
        while True:
            await self._until(self._held.stuck)
            await trio.sleep(_LOOK)
            if not self._clock.in_doubt:
                await self._try_together(list(self._held.stuck)[:BATCH], self._held.stuck, held=self._held.stuck)

    async def _part(self) -> None:
        while True:
            await self._until(self._held.slow)
            half = (len(self._held.slow) + 1) // 2
            await self._try_together(list(self._held.slow)[: min(half, BATCH)], self._held.slow, held=self._held.line)

    async def _try_together(self, queues: list[int], place: QueueIds, *, held: QueueIds) -> None:
        """Tries these queues in one transaction; those that are held back go to `held`."""
        each = max(1, BATCH // len(queues))
        asked = {queue_id: self._held.take(queue_id, place, each) for queue_id in queues}
        entries = [entry for some in asked.values() for entry in some]
        began = trio.current_time()
        try:
            promoted, locked = await self._promotion.promote_free(entries)
        except Locked:  # one of them has a lock that no look shows
            self._held.wait(queues, self._held.apart)
        except StoreError as error:
            await self._failed(error, entries)
            self._held.wait(queues, place)
        else:
            self._held.note(queues, len(promoted), trio.current_time() - began)
            moved = {one.queue_id for one in promoted}
            self._held.wait([queue_id for queue_id in queues if queue_id in locked and queue_id not in moved], held)
            again = [queue_id for queue_id in queues if queue_id in locked and queue_id in moved]
            self._held.wait(again, self._held.line)
            self._signals.streamed([one for one in promoted if one.queue_id in locked])
            for queue_id in [queue_id for queue_id in queues if queue_id not in locked]:
                self._through(queue_id, asked[queue_id], [one for one in promoted if one.queue_id == queue_id])

    async def _look_apart(self) -> None:
        while True:
            await self._until(self._held.apart)
            queue_id = self._first_of(self._held.apart)
            await self._try_together([queue_id], self._held.apart, held=self._held.stuck)
            if queue_id in self._held.apart:
                await trio.sleep(_LOOK)

    async def _until(self, place: QueueIds) -> None:
        while not place or self._clock.in_doubt:
            if self._held.changed.is_set():
                self._held.changed = trio.Event()
            with trio.move_on_after(_LOOK if place else float("inf")):
                await self._held.changed.wait()

    def _first_of(self, place: QueueIds) -> int:
        """The next queue; those of a topic with another locked queue come after all others."""
        return next((q for q in place if not self._locked_of_topic[self._promotion.topic_of(q)]), next(iter(place)))

    def _through(self, queue_id: int, entries: Sequence[int], promoted: Sequence[Promoted]) -> None:
        """These entries are in the stream, or there was nothing to promote any more."""
        left = self._held.through(queue_id, entries)
        if queue_id in self._locked_since:
            since, topic = self._locked_since.pop(queue_id)
            self._locked_of_topic -= Counter([topic])  # a topic is dropped at 0
            log.info("queue_free", queue_id=queue_id, seconds=round(trio.current_time() - since, 1), waiting=left)
        self._signals.streamed(promoted)

    async def _failed(self, error: StoreError, entries: Sequence[int]) -> None:
        tell_failure("promotion_failed", error, entries=len(entries), again_in=_PAUSE)
        await trio.sleep(_PAUSE)

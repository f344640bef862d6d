"""What is due and cannot go, because somebody holds its queue: it waits here, and the hand goes on.

The queue may be busy or it may be stuck. So what is held back first stands in line for its queue, with a transaction
that keeps no other queue waiting, and few at a time do so. When that was in vain, all queues that are stuck are looked
at together every quarter of a second, without standing in line. Within a queue the order stays: while something for it
is here, the hand brings what comes after it here too.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set

import structlog
import trio

from ..store.errors import Locked, StoreError
from ..store.records import Promoted

_BATCH = 1000
_LINES = 2
"""Queues that are stood in line for at a time, each with a connection."""
_LOOK = 0.25
_PAUSE = 0.5
"""Seconds before another try when the store is away."""

log = structlog.get_logger()


class Held:
    """Entries by queue. `promote` stands in line and raises `Locked` when that was in vain; `promote_free` does not,
    and tells by queue what it has held back."""

    def __init__(
        self,
        promote: Callable[[Sequence[int]], Awaitable[Sequence[Promoted]]],
        promote_free: Callable[[Sequence[int]], Awaitable[tuple[Sequence[Promoted], Mapping[int, Sequence[int]]]]],
        streamed: Callable[[Sequence[Promoted]], None],
    ) -> None:
        self._promote = promote
        self._promote_free = promote_free
        self._streamed = streamed
        self._queues: dict[int, dict[int, None]] = {}
        """Entries of each queue, in order; a queue is here until the last of them is through."""
        self._entries: set[int] = set()
        self._line: deque[int] = deque()
        """Queues that are next to be stood in line for."""
        self._stuck: dict[int, None] = {}
        self._changed = trio.Event()

    def __contains__(self, entry: object) -> bool:
        return entry in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def queues(self) -> Set[int]:
        """The queues for which something is here."""
        return self._queues.keys()

    def put(self, held: Mapping[int, Sequence[int]]) -> None:
        """Takes entries by their queue."""
        for queue_id, entries in held.items():
            if queue_id not in self._queues:
                self._queues[queue_id] = {}
                self._line.append(queue_id)
            self._queues[queue_id].update(dict.fromkeys(entries))
            self._entries.update(entries)
        self._changed.set()

    async def run(self) -> None:
        """Brings it further, for ever."""
        async with trio.open_nursery() as nursery:
            for _ in range(_LINES):
                nursery.start_soon(self._stand_in_line)
            nursery.start_soon(self._look)

    async def _stand_in_line(self) -> None:
        while True:
            await self._until(lambda: self._line)
            queue_id = self._line.popleft()
            entries = self._some(queue_id, _BATCH)
            try:
                promoted = await self._promote(entries)
            except Locked:
                log.warning("queue_locked", queue_id=queue_id, waiting=len(self._queues[queue_id]))
                self._stuck[queue_id] = None
                self._changed.set()
            except StoreError as error:
                log.warning("promotion_failed", error=str(error), entries=len(entries), again_in=_PAUSE)
                await trio.sleep(_PAUSE)
                self._line.append(queue_id)
            else:
                self._through(queue_id, entries, promoted)

    async def _look(self) -> None:
        while True:
            await self._until(lambda: self._stuck)
            await trio.sleep(_LOOK)
            queues = list(self._stuck)[:_BATCH]
            each = max(1, _BATCH // len(queues))
            asked = {queue_id: self._some(queue_id, each) for queue_id in queues}
            try:
                promoted, held = await self._promote_free([entry for some in asked.values() for entry in some])
            except StoreError as error:
                log.warning("promotion_failed", error=str(error), entries=sum(map(len, asked.values())))
                continue
            for queue_id, entries in asked.items():
                del self._stuck[queue_id]
                if queue_id in held:
                    self._stuck[queue_id] = None  # behind those that were not looked at
                else:
                    self._through(queue_id, entries, [one for one in promoted if one.queue_id == queue_id])

    async def _until(self, there: Callable[[], object]) -> None:
        while not there():
            if self._changed.is_set():
                self._changed = trio.Event()
            await self._changed.wait()

    def _some(self, queue_id: int, many: int) -> list[int]:
        """The first of a queue."""
        return [entry for entry, _ in zip(self._queues[queue_id], range(many), strict=False)]

    def _through(self, queue_id: int, entries: Sequence[int], promoted: Sequence[Promoted]) -> None:
        """These are in the stream, or there was nothing to promote any more."""
        rest = self._queues[queue_id]
        for entry in entries:
            rest.pop(entry, None)
        self._entries.difference_update(entries)
        if rest:
            self._line.append(queue_id)
        else:
            del self._queues[queue_id]
        self._changed.set()
        self._streamed(promoted)

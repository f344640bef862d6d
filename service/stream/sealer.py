"""The sealer: moves the ends of queues on whose offsets Redis draws, after each commit that this node knows of.

Once a second it also looks for what others have committed, and for what a change of sequencer has left behind.
"""

from collections.abc import Callable, Set

import structlog
import trio
from attrs import frozen

from ...store.errors import StoreError
from ...store.store import Store
from ...store.stream import sealing
from ..clock import Clock
from ..outages import Trouble
from ..topics.directory import Directory

_HOLE_PAUSE = 0.05
"""Seconds until a queue with a hole is looked at again."""

_REMIND = 60_000
"""Milliseconds between two words about a queue that stands still."""

log = structlog.get_logger()


@frozen
class Standstill:
    """A queue whose readers come to a hole that is too wide to be closed."""

    topic: str
    queue: int
    """Its number."""
    gap: tuple[int, int]
    told_at: int

    def __str__(self) -> str:
        first, last = self.gap
        return (
            f"queue {self.queue} of {self.topic} stands still: its offsets {first} to {last} are without a message, and"
            f" one is there at {last + 1}. Nobody drew so many: delete that row of `message` if it is not yours, or"
            f" start a server with widest_hole = {last - first + 1}, which closes the hole"
        )


class Sealer:
    """Seals queues that were touched."""

    def __init__(self, store: Store, clock: Clock, directory: Directory, *, widest: int) -> None:
        self._store = store
        self._clock = clock
        self._directory = directory
        self._widest = widest
        self.standing: dict[int, Standstill] = {}
        """By queue."""
        self._queues: set[int] = set()
        self._holes: set[int] = set()
        self._some = trio.Event()
        self._trouble = Trouble(trio.current_time, failed="sealing_failed", well="sealing_goes_on")
        self._needed = False
        """Whether any queue here is, or was, sequenced elsewhere."""

    def committed(self, queue_id: int) -> None:
        """Messages of ours are in this queue; from now on it is looked for others', too."""
        self._needed = True
        self._touch(queue_id)

    def _touch(self, queue_id: int) -> None:
        self._queues.add(queue_id)
        self._some.set()

    async def run(self, grown: Callable[[int], None]) -> None:
        """Seals for ever; `grown` hears of each queue that has a new end."""
        while True:
            with trio.move_on_after(_HOLE_PAUSE if self._holes else float("inf")):
                await self._some.wait()
            self._some = trio.Event()
            queues, self._queues, self._holes = self._queues | self._holes, set(), set()
            with self._trouble.survived():
                await self._seal_all(queues, grown)

    async def _seal_all(self, queues: Set[int], grown: Callable[[int], None]) -> None:
        """Each of them, whatever becomes of the others. Raises the first `StoreError` in the end."""
        failed: StoreError | None = None
        for queue_id in sorted(queues):
            try:
                await self._seal(queue_id, grown)
            except StoreError as error:
                failed = failed or error
                self._holes.add(queue_id)
        if failed is not None:
            raise failed

    async def look(self) -> None:
        """Touches the queues that others have made grow, and those that stand still."""
        for queue_id in self.standing:
            self._touch(queue_id)
        if self._needed:
            await self.look_everywhere()

    async def look_everywhere(self) -> None:
        """The same when nobody here knows of a reason: another node may."""
        for queue_id in await self._store.read(sealing.overrun):
            self._touch(queue_id)

    async def _seal(self, queue_id: int, grown: Callable[[int], None]) -> None:
        while True:
            sealed = await self._store.seal(queue_id, self._clock.now(), widest=self._widest)
            if sealed.moved:
                grown(queue_id)
            if sealed.moved or sealed.gap or not sealed.more:  # else somebody holds its row
                self._note(queue_id, sealed.gap)
            if not sealed.more:
                return
            if not sealed.moved:
                self._holes.add(queue_id)
                return

    def _note(self, queue_id: int, gap: tuple[int, int] | None) -> None:
        before, topic, now = (
            self.standing.pop(queue_id, None),
            self._directory.topic_of_queue(queue_id),
            self._clock.now(),
        )
        if gap is None or topic is None:
            if before is not None:
                log.info("queue_moves_on", topic=before.topic, queue=before.queue)
            return
        if before is not None and before.gap == gap and now < before.told_at + _REMIND:
            self.standing[queue_id] = before
            return
        number = next(queue.number for queue in topic.queues if queue.id == queue_id)
        stands = self.standing[queue_id] = Standstill(topic.name, number, gap, now)
        log.error(
            "queue_stands_still", topic=topic.name, queue=number, queue_id=queue_id, hole=list(gap), what=str(stands)
        )

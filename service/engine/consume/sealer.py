"""The sealer: advances the ends of queues whose offsets Redis draws, after each commit that this node knows of.

Once a second it also looks for commits of other nodes, and for what a change of sequencer has left behind.
"""

from collections.abc import Set

import structlog
import trio
from attrs import frozen

from ....store.errors import StoreError
from ....store.store import Store
from ....store.stream import sealing
from ...clock import Clock
from ...outages import Trouble
from ..signals import Signals
from ..state.directory import Directory

_HOLE_PAUSE = 0.05
"""Seconds until a queue with a hole is looked at again."""

_REMIND = 60_000
"""Milliseconds between two log lines about a queue that stands still."""

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
    def __init__(self, store: Store, clock: Clock, directory: Directory, signals: Signals, *, widest: int) -> None:
        self._store = store
        self._clock = clock
        self._directory = directory
        self._signals = signals
        self._unsealed = signals.unsealed
        self._widest = widest
        self.standing: dict[int, Standstill] = {}
        """By queue id."""
        self._holes: set[int] = set()
        self._trouble = Trouble(trio.current_time, failed="sealing_failed", well="sealing_goes_on")

    async def run(self) -> None:
        while True:
            with trio.move_on_after(_HOLE_PAUSE if self._holes else float("inf")):
                await self._unsealed.some.wait()
            queues, self._holes = self._unsealed.take() | self._holes, set()
            with self._trouble.survived():
                await self._seal_all(queues)

    async def _seal_all(self, queues: Set[int]) -> None:
        """Seals each queue, even if another fails. Raises the first `StoreError` in the end."""
        failed: StoreError | None = None
        for queue_id in sorted(queues):
            try:
                await self._seal(queue_id)
            except StoreError as error:
                failed = failed or error
                self._holes.add(queue_id)
        if failed is not None:
            raise failed

    async def look(self) -> None:
        """Touches queues that have grown through other nodes, and those that stand still."""
        for queue_id in self.standing:
            self._unsealed.touch(queue_id)
        if self._unsealed.needed:
            await self.look_everywhere()

    async def look_everywhere(self) -> None:
        """Looks for queues that have grown even if this node knows of no reason to: another node may."""
        for queue_id in await self._store.read(sealing.overrun):
            self._unsealed.touch(queue_id)

    async def _seal(self, queue_id: int) -> None:
        while True:
            sealed = await self._store.seal(queue_id, self._clock.now(), widest=self._widest)
            if sealed.moved:
                self._signals.queue_grown(queue_id)
            if sealed.moved or sealed.gap or not sealed.more:  # else another transaction holds its row
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

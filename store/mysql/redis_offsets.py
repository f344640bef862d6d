"""Draws the offsets of queues whose sequencer is Redis, and heals its counters from the database.

A draw from Redis takes no lock, so commits of one queue overlap, in any order. `queue.next_offset` is then not the
sequence but the end of the part of the queue without holes, and `store.stream.sealing` moves it on behind the commits.
So a reader never passes a hole, with either sequencer.

Redis is trusted only as far as the database agrees. An offset below `next_offset` was drawn before, and a missing
counter was forgotten. Both are healed at once: under the lock of the queue's row the next offset is read from the
stream itself. In the same way offsets are drawn while Redis is away. If two transactions draw the same offset all the
same, the second meets a duplicate key of `message`, and draws anew (`store.Store`).
"""

from collections.abc import Mapping
from contextlib import suppress

import structlog

from ..errors import TopicGone
from ..ports import Transaction
from ..stream.sealing import last_end
from .redis_sequencer import RedisSequencer, SequencerAway

log = structlog.get_logger()


class RedisOffsets:
    """Knows which queues are sequenced by Redis, and draws their offsets."""

    def __init__(self, sequencer: RedisSequencer | None = None) -> None:
        self.sequencer = sequencer
        self.queues: set[int] = set()
        self._away = False

    async def draw(self, tx: Transaction, counts: Mapping[int, int]) -> dict[int, int]:
        """Draws this many offsets of each queue; returns the first of each."""
        drawn = await self._ask(counts)
        ends: dict[int, int] = dict(await tx.fetch("queue.ends", tuple[int, int], sorted(counts)))
        return {
            queue_id: drawn[queue_id]
            if drawn.get(queue_id, -1) >= ends[queue_id]
            else await self._heal(tx, queue_id, counts[queue_id])
            for queue_id in sorted(counts)
            if queue_id in ends  # and not removed meanwhile
        }

    async def raise_to(self, floors: Mapping[int, int]) -> None:
        """Raises Redis' counters to these next free offsets. If Redis is away, they are healed when it is asked
        again."""
        if self.sequencer is not None and floors:
            with suppress(SequencerAway):
                await self.sequencer.raise_to(floors)

    async def aclose(self) -> None:
        """Closes the connections to Redis."""
        if self.sequencer is not None:
            await self.sequencer.aclose()

    async def _ask(self, counts: Mapping[int, int]) -> dict[int, int]:
        if self.sequencer is None:
            return {}
        try:
            drawn = await self.sequencer.draw(counts)
        except SequencerAway as error:
            if not self._away:
                log.warning("sequencer_away", error=str(error))
            self._away = True
            return {}
        if self._away:
            log.info("sequencer_back")
        self._away = False
        return drawn

    async def _heal(self, tx: Transaction, queue_id: int, count: int) -> int:
        rows = await tx.fetch("queue.lock", tuple[int, int, int], [queue_id])
        if not rows:
            raise TopicGone("a queue is not there any more")
        ((_, end, _),) = rows
        free: int = max(end, await last_end(tx, queue_id=queue_id))
        await self.raise_to({queue_id: free})
        # Drawn from Redis all the same: others may draw there at this moment, from a counter that was healed before.
        return max(free, (await self._ask({queue_id: count})).get(queue_id, free))

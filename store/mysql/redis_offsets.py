"""Offsets of the queues whose sequencer is Redis.

A draw from Redis takes no lock, so commits of one queue overlap, in any order: `queue.next_offset` is then not the
sequence but how far the queue is without a hole, and `store.stream.sealing` moves it on behind the commits. So a reader
never passes a hole, whichever the sequencer.

Redis is believed only as far as the database agrees. What it draws below `next_offset` was drawn before; a counter
that is not there was forgotten. Both are healed at once: under the lock of the queue's row the next offset is read from
the stream itself. That is also how offsets are drawn while Redis is away. Two that draw the same offset all the same
meet at the primary key of `message`, and the second draws anew (`store.Store`).
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
    """Which queues are sequenced by Redis, and the drawing for them."""

    def __init__(self, sequencer: RedisSequencer | None = None) -> None:
        self.sequencer = sequencer
        self.queues: set[int] = set()
        self._away = False

    async def draw(self, tx: Transaction, counts: Mapping[int, int]) -> dict[int, int]:
        """So many offsets of each queue; where each begins."""
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
        """Tells Redis of offsets that are taken; one that is away hears of it when it is asked again."""
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
        # Drawn from Redis after all: others draw there at this moment, from what somebody else has healed.
        return max(free, (await self._ask({queue_id: count})).get(queue_id, free))

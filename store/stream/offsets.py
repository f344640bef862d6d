"""Offsets of queues, drawn under the lock of each queue's row, or where they are sequenced elsewhere.

`publishing` itself draws within its insert, by `Transaction.append`; what else goes into a queue draws here first.
"""

from collections.abc import Iterable, Mapping

from ..ports import Transaction


async def draw_offsets(tx: Transaction, wanted: Mapping[int, int]) -> dict[int, int]:
    """Draws so many offsets of each queue; returns where each begins.

    The sequences are locked and moved on, but for those of the queues that have their sequencer elsewhere. Queues that
    have been removed are left out.
    """
    begins = await tx.draw_elsewhere(wanted)
    wanted = {queue_id: many for queue_id, many in wanted.items() if queue_id not in begins}
    if not wanted:
        return begins
    for queue_id, next_offset in await tx.fetch("queue.lock", tuple[int, int], sorted(wanted)):
        begins[queue_id] = next_offset
        await tx.later("queue.advance", next_offset + wanted[queue_id], queue_id)
    return begins


async def draw_free(tx: Transaction, wanted: Mapping[int, int]) -> tuple[dict[int, int], set[int]]:
    """As `draw_offsets`, of the queues that nobody else holds, without a wait; and which are held."""
    begins = await tx.draw_elsewhere(wanted)
    wanted = {queue_id: many for queue_id, many in wanted.items() if queue_id not in begins}
    free, locked = await lock_free(tx, wanted)
    for queue_id, next_offset in free.items():
        begins[queue_id] = next_offset
        await tx.later("queue.advance", next_offset + wanted[queue_id], queue_id)
    return begins, locked


async def lock_free(tx: Transaction, queue_ids: Iterable[int]) -> tuple[dict[int, int], set[int]]:
    """Locks the sequences that nobody holds, each with its next offset; and which are held by somebody."""
    ids = sorted(queue_ids)
    if not ids:
        return {}, set()
    free = dict(await tx.fetch("queue.free", tuple[int, int], ids))
    if len(free) == len(ids):
        return free, set()
    there = dict(await tx.fetch("queue.ends", tuple[int, int], ids))
    return free, there.keys() - free.keys()

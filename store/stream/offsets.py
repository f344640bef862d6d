"""Draws offsets of queues: under the lock of each queue's row, or from the sequencer where that is elsewhere.

`publishing` draws in its insert, by `Transaction.append`; everything else that goes into a queue draws here first.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from ..errors import Refused
from ..ports import Transaction

Owned = tuple[int, int]
"""A queue and its owner: the id of a topic, or, for a retry queue, the negated id of its group."""


async def draw_offsets(tx: Transaction, wanted: Mapping[int, int], owned: Collection[Owned] = ()) -> dict[int, int]:
    """Draws this many offsets of each queue; returns the first of each. Raises `Refused` when a queue that it locks has
    another owner than `owned` says.

    Locks and advances the sequences, but for queues that are sequenced elsewhere. Removed queues are left out.
    """
    begins = await tx.draw_elsewhere(wanted)
    wanted = {queue_id: many for queue_id, many in wanted.items() if queue_id not in begins}
    if not wanted:
        return begins
    rows = await tx.fetch("queue.lock", tuple[int, int, int], sorted(wanted))
    _refuse_strays(rows, owned)
    for queue_id, next_offset, _ in rows:
        begins[queue_id] = next_offset
        await tx.later("queue.advance", next_offset + wanted[queue_id], queue_id)
    return begins


async def draw_free(
    tx: Transaction, wanted: Mapping[int, int], owned: Collection[Owned] = ()
) -> tuple[dict[int, int], set[int]]:
    """As `draw_offsets`, but without waiting: only for queues that no other transaction holds. Also returns the queues
    that are held."""
    begins = await tx.draw_elsewhere(wanted)
    wanted = {queue_id: many for queue_id, many in wanted.items() if queue_id not in begins}
    free, locked = await lock_free(tx, wanted, owned)
    for queue_id, next_offset in free.items():
        begins[queue_id] = next_offset
        await tx.later("queue.advance", next_offset + wanted[queue_id], queue_id)
    return begins, locked


async def lock_free(
    tx: Transaction, queue_ids: Iterable[int], owned: Collection[Owned] = ()
) -> tuple[dict[int, int], set[int]]:
    """Locks the sequences that no other transaction holds. Returns their next offsets, and the queues that are held."""
    ids = sorted(queue_ids)
    if not ids:
        return {}, set()
    rows = await tx.fetch("queue.free", tuple[int, int, int], ids)
    _refuse_strays(rows, owned)
    free = {queue_id: next_offset for queue_id, next_offset, _ in rows}
    if len(free) == len(ids):
        return free, set()
    there = dict(await tx.fetch("queue.ends", tuple[int, int], ids))
    return free, there.keys() - free.keys()


def not_of(queue_id: int, owner: int) -> str:
    """Says that a row names a queue of another topic or group than its own."""
    return f"it is of {f'topic {owner}' if owner >= 0 else f'group {-owner}'}, and queue {queue_id} is not"


def _refuse_strays(rows: Sequence[tuple[int, int, int]], owned: Collection[Owned]) -> None:
    whose = {queue_id: owner for queue_id, _, owner in rows} if owned else {}
    for queue_id, owner in owned:
        if whose.get(queue_id, owner) != owner:
            raise Refused(not_of(queue_id, owner))

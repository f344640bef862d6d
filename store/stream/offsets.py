"""Offsets of queues, drawn under the lock of each queue's row, or where they are sequenced elsewhere.

`publishing` itself draws within its insert, by `Transaction.append`; what else goes into a queue draws here first.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from ..errors import Refused
from ..ports import Transaction

Owned = tuple[int, int]
"""A queue, and whose it is: the id of a topic, or, of a retry queue, that of the group with a minus."""


async def draw_offsets(tx: Transaction, wanted: Mapping[int, int], owned: Collection[Owned] = ()) -> dict[int, int]:
    """Draws so many offsets of each queue; returns where each begins. Raises `Refused` where one that it locks is not
    such as `owned` says.

    The sequences are locked and moved on, but for those of the queues that have their sequencer elsewhere. Queues that
    have been removed are left out.
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
    """As `draw_offsets`, of the queues that nobody else holds, without a wait; and which are held."""
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
    """Locks the sequences that nobody holds, each with its next offset; and which are held by somebody."""
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
    """That a row names a queue of another topic, or of another group."""
    return f"it is of {f'topic {owner}' if owner >= 0 else f'group {-owner}'}, and queue {queue_id} is not"


def _refuse_strays(rows: Sequence[tuple[int, int, int]], owned: Collection[Owned]) -> None:
    whose = {queue_id: owner for queue_id, _, owner in rows} if owned else {}
    for queue_id, owner in owned:
        if whose.get(queue_id, owner) != owner:
            raise Refused(not_of(queue_id, owner))

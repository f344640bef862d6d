"""Offsets of queues, drawn under the lock of each queue's row, or where they are sequenced elsewhere.

`publishing` itself draws within its insert, by `Transaction.append`; what else goes into a queue draws here first.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from ..ports import Asked, Transaction

T = TypeVar("T")


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


class Sequences:
    """Those of some queues: `locks` are the SELECTs that lock what nobody else holds, for a flight of the caller's."""

    def __init__(self, queue_ids: Iterable[int]) -> None:
        self._ids = sorted(queue_ids)
        self._free = Asked("queue.free", tuple[int, int], self._ids)
        self._there = Asked("queue.ends", tuple[int, int], self._ids)

    @property
    def locks(self) -> list[Asked[tuple[int, int]]]:
        """None if it is of no queue."""
        return [self._free, self._there] if self._ids else []

    async def lock(self, tx: Transaction) -> None:
        """In a flight of their own."""
        if self._ids:
            await tx.fetch_all(self.locks)

    @property
    def free(self) -> dict[int, int]:
        """Those that are locked now, each with its next offset."""
        return dict(self._free.rows)

    @property
    def held(self) -> set[int]:
        """Those that somebody else holds."""
        return held(self._free, self._there)

    def others(self, queue_ids: Iterable[int]) -> "Sequences":
        """Of those queues among these that this is not of."""
        return Sequences(set(queue_ids).difference(self._ids))


async def draw_free(tx: Transaction, wanted: Mapping[int, int], likely: Sequences) -> tuple[dict[int, int], set[int]]:
    """As `draw_offsets`, of the queues that nobody else holds, without a wait; and which are held. The `likely` ones
    have been locked already."""
    begins = await tx.draw_elsewhere(wanted)
    wanted = {queue_id: many for queue_id, many in wanted.items() if queue_id not in begins}
    rest = likely.others(wanted)
    await rest.lock(tx)
    for queue_id, next_offset in (likely.free | rest.free).items():
        if queue_id in wanted:
            begins[queue_id] = next_offset
            await tx.later("queue.advance", next_offset + wanted[queue_id], queue_id)
    return begins, (likely.held | rest.held) & wanted.keys()


async def lock_free(tx: Transaction, queue_ids: Iterable[int]) -> tuple[dict[int, int], set[int]]:
    """Locks the sequences that nobody holds, each with its next offset; and which are held by somebody."""
    sequences = Sequences(queue_ids)
    await sequences.lock(tx)
    return sequences.free, sequences.held


def held(free: Asked[tuple[int, T]], there: Asked[tuple[int, T]]) -> set[int]:
    """What is there, and could not be locked."""
    return {id_ for id_, _ in there.rows} - {id_ for id_, _ in free.rows}

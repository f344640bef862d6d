"""Sealing: moves the end of a queue forward up to its first hole, when its offsets are not drawn under its row's lock.

Such an offset is drawn before its message is written, so commits come in any order and a commit may never come. Readers
go no further than `queue.next_offset`; sealing moves that forward over committed messages, up to the first hole. A hole
that stays gets a tombstone, a row without a message: a writer that comes late with that offset meets a duplicate key,
and draws anew. So readers never pass an offset that can still be filled.

A hole is as wide as what writers drew and gave up. One that is far wider was made by hand, by writing a row or moving
Redis' counter: it is not closed, readers do not pass it, and an operator decides.
"""

from collections.abc import Sequence

from attrs import frozen

from ..ids import is_straight
from ..ports import Transaction, Value
from .offsets import lock_free

HOLE_AGE = 1_000
"""Milliseconds that a hole may stay open, while messages behind it wait. Closing it too soon costs its writer another
try."""

WIDEST = 100_000
"""The width up to which a hole is closed without an operator: a hundred of the largest batches, all given up one after
the other."""

_PAGE = 1_000
_TOMB_BITS = 40


@frozen
class Sealed:
    """What sealing did to a queue."""

    end: int
    """Every offset below is committed."""
    moved: bool
    more: bool
    """There are messages behind the end: the page was full, or there is a hole."""
    gap: tuple[int, int] | None = None
    """The first and the last offset of a hole at the end, if it is too wide to be closed."""


async def seal(tx: Transaction, queue_id: int, now: int, *, at_once: bool = False, widest: int = WIDEST) -> Sealed:
    """Moves the end of a queue forward, by a page at most. Closes holes older than `HOLE_AGE`, or all with `at_once`;
    but none that is wider than `widest`."""
    free: dict[int, int]
    locked: set[int] = set()
    if at_once:
        free = {id_: end for id_, end, _ in await tx.fetch("queue.lock", tuple[int, int, int], [queue_id])}
    else:  # a locked queue is not waited for, so that it does not delay others
        free, locked = await lock_free(tx, [queue_id])
    if queue_id not in free:
        return Sealed(0, moved=False, more=bool(locked))  # if not locked, the queue has been removed
    begin = free[queue_id]
    rows = await tx.fetch("message.behind", tuple[int, int, int], queue_id, begin, _PAGE)
    end = begin
    straight = holes = sealed = 0
    gap: tuple[int, int] | None = None
    tombstones: list[Sequence[Value]] = []
    for offset, id_, streamed_at in rows:
        if offset > end:
            if offset - end > widest:
                gap = (end, offset - 1)
                break
            if not at_once and streamed_at > now - HOLE_AGE:
                break
            if offset - end + len(tombstones) > _PAGE:
                offset = end + _PAGE - len(tombstones)
                tombstones += [_tombstone(queue_id, hole, now) for hole in range(end, offset)]
                holes += offset - end
                end = offset
                break
            tombstones += [_tombstone(queue_id, hole, now) for hole in range(end, offset)]
            holes += offset - end
        end = offset + 1
        sealed += 1
        straight += is_straight(id_)
    if end > begin:
        if tombstones:
            await tx.execute_many("message.add_bare", tombstones)
        await tx.execute("queue.seal", end, straight, holes, queue_id)
    return Sealed(end, end > begin, gap is None and (sealed < len(rows) or len(rows) == _PAGE), gap)


async def overrun(tx: Transaction) -> list[int]:
    """The ids of the queues that have messages behind their end."""
    return await tx.fetch("queue.overrun", int)


async def wide_holes(tx: Transaction, *, widest: int = WIDEST) -> list[tuple[str, int, int, int]]:
    """(topic, number of the queue, first, last) of each hole at the end of a queue that is too wide to be closed."""
    found: list[tuple[str, int, int, int]] = []
    for queue_id in await overrun(tx):
        for name, number, end in await tx.fetch("queue.whose", tuple[str, int, int], queue_id):
            for offset, *_ in await tx.fetch("message.behind", tuple[int, int, int], queue_id, end, 1):
                if offset - end > widest:
                    found.append((name, number, end, offset - 1))
    return found


async def last_end(tx: Transaction, *, queue_id: int) -> int:
    """The offset behind the last one that is taken."""
    (last,) = await tx.fetch("message.last", int, queue_id)
    return last + 1


def _tombstone(queue_id: int, offset: int, now: int) -> Sequence[Value]:
    id_ = -1 - (queue_id << _TOMB_BITS | offset)  # no message has an id below 0
    return (queue_id, offset, id_, 0, b"", now, now, now)

"""Sealing: how far a queue is without a hole, when its offsets are not drawn under its row's lock.

An offset is drawn before its message is there, so commits come in any order and a commit may never come. A reader goes
as far as `queue.next_offset` and no further; sealing moves that on over what is committed, up to the first hole. A hole
that stays gets a tombstone, a row without a message: whoever comes late with that offset meets it at the primary key,
and draws anew. So nothing is passed that can still be filled.

A hole is as wide as what writers drew and gave up. One that is far wider is the work of somebody else, who wrote a row
or moved Redis' counter by hand: it is not closed, nothing is passed, and an operator decides.
"""

from collections.abc import Sequence

from attrs import frozen

from ..ids import is_straight
from ..ports import Transaction, Value
from .offsets import lock_free

HOLE_AGE = 1_000
"""Milliseconds that a hole may stay, and what lies behind it waits. Closed too soon, it costs its writer a new try."""

WIDEST = 100_000
"""Offsets of a hole that is closed without being asked: a hundred of the largest batches, all given up one after the
other."""

_PAGE = 1_000
_TOMB_BITS = 40


@frozen
class Sealed:
    """What sealing did to a queue."""

    end: int
    """Every offset below is committed."""
    moved: bool
    more: bool
    """Something lies behind the end: a page is full, or there is a hole."""
    gap: tuple[int, int] | None = None
    """The first and the last offset of a hole at the end that is too wide to be closed."""


async def seal(tx: Transaction, queue_id: int, now: int, *, at_once: bool = False, widest: int = WIDEST) -> Sealed:
    """Moves the end of a queue on, by a page at most. Holes older than `HOLE_AGE` are closed, or all `at_once`; none
    that is wider than `widest`."""
    free: dict[int, int]
    locked: set[int] = set()
    if at_once:
        free = {id_: end for id_, end, _ in await tx.fetch("queue.lock", tuple[int, int, int], [queue_id])}
    else:  # one that somebody else holds keeps no others waiting
        free, locked = await lock_free(tx, [queue_id])
    if queue_id not in free:
        return Sealed(0, moved=False, more=bool(locked))  # without `more` it is removed
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
    """Queues that have something behind their end."""
    return await tx.fetch("queue.overrun", int)


async def wide_holes(tx: Transaction, *, widest: int = WIDEST) -> list[tuple[str, int, int, int]]:
    """(topic, number of the queue, first, last) of the holes at ends that are too wide to be closed."""
    found: list[tuple[str, int, int, int]] = []
    for queue_id in await overrun(tx):
        for name, number, end in await tx.fetch("queue.whose", tuple[str, int, int], queue_id):
            for offset, *_ in await tx.fetch("message.behind", tuple[int, int, int], queue_id, end, 1):
                if offset - end > widest:
                    found.append((name, number, end, offset - 1))
    return found


async def last_end(tx: Transaction, *, queue_id: int) -> int:
    """Behind the last offset that is taken."""
    (last,) = await tx.fetch("message.last", int, queue_id)
    return last + 1


def _tombstone(queue_id: int, offset: int, now: int) -> Sequence[Value]:
    id_ = -1 - (queue_id << _TOMB_BITS | offset)  # no message has an id below 0
    return (queue_id, offset, id_, 0, b"", now, now, now)

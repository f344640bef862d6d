"""Finds the offset for a position that an operator gives: earliest, latest, an offset or a time.

A time is found by binary search over the times at which messages came into the stream: it reads a few rows, however
long the queue. Concurrent writers may have committed a little out of order. So messages up to `DISORDER` before the
place that the search finds are read, too, and no message of that time or later is missed.
"""

from collections.abc import Sequence
from typing import Literal

from attrs import frozen

from ..errors import TopicGone
from ..ports import Transaction

DISORDER = 5_000
"""Milliseconds by which a later offset may have an earlier time."""


@frozen
class Position:
    """A place in a queue."""

    at: Literal["earliest", "latest", "offset", "time"]
    value: int = 0
    """The offset, or Unix milliseconds."""


async def end_of(tx: Transaction, queue_id: int) -> int:
    """The next offset of a queue. Raises `TopicGone`."""
    for _, end in await tx.fetch("queue.ends", tuple[int, int], [queue_id]):
        return end
    raise TopicGone("the topic has been removed meanwhile")


async def hold_floors(tx: Transaction, queue_ids: Sequence[int]) -> dict[int, int]:
    """By queue id the lowest offset that may still exist, locked: retention waits before it removes more, and so does
    another group that is about to begin in these queues, which then begins behind what was removed."""
    ids = sorted(queue_ids)
    found = dict(await tx.fetch("cleaned.lock", tuple[int, int], ids)) if ids else {}
    if len(found) < len(ids):  # a missing row cannot be locked
        await tx.execute_many("cleaned.add", [(queue_id, 0) for queue_id in ids if queue_id not in found])
        found = dict(await tx.fetch("cleaned.lock", tuple[int, int], ids))
    return found


async def offset_of(tx: Transaction, queue_id: int, position: Position) -> int:
    """The offset of a position; never beyond the end of the queue, and never before the first existing message."""
    end = await end_of(tx, queue_id)
    if position.at == "latest":
        return end
    first = await tx.fetch("message.first", tuple[int, int], queue_id, 0)
    begin = first[0][0] if first else end
    if position.at == "earliest":
        return begin
    if position.at == "offset":
        return min(max(position.value, begin), end)
    sure = await _halve(tx, queue_id, begin, end, position.value)
    low = await _halve(tx, queue_id, begin, sure, position.value - DISORDER)
    return next(iter(await tx.fetch("message.since", int, queue_id, low, sure, position.value)), sure)


async def _halve(tx: Transaction, queue_id: int, low: int, high: int, time: int) -> int:
    """The first offset from `low` up to `high` whose message came at `time` or later; `high` if there is none."""
    while low < high:
        middle = (low + high) // 2
        for offset, streamed_at in await tx.fetch("message.first", tuple[int, int], queue_id, middle):
            if offset < high and streamed_at < time:
                low = offset + 1
                break
        else:
            high = middle
    return high

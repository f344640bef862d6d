"""Positions: from what an operator says (earliest, latest, an offset, a time) to an offset of a queue.

A time is looked for by halving, over the times at which messages came into the stream: a few rows, however long the
queue. Writers beside each other may have committed a little out of order, so what lies within `_DISORDER` before the
place that halving finds is looked through, and no message of that time or later is passed over.
"""

from collections.abc import Sequence
from typing import Literal

from attrs import frozen

from ..errors import TopicGone
from ..ports import Transaction
from ..records import Queue

_DISORDER = 5_000
"""Milliseconds by which a later offset may bear an earlier time."""


@frozen
class Position:
    """A place in a queue."""

    at: Literal["earliest", "latest", "offset", "time"]
    value: int = 0
    """The offset, or Unix milliseconds."""


async def end_of(tx: Transaction, queue_id: int) -> int:
    """The offset that a queue gives next. Raises `TopicGone`."""
    ends = await tx.fetch("queue.ends", [queue_id])
    if not ends:
        raise TopicGone("the topic has been removed meanwhile")
    return int(ends[0][1])


async def offset_of(tx: Transaction, queue_id: int, position: Position) -> int:
    """The offset; never beyond the end of the queue, and never before the first message that is still there."""
    end = await end_of(tx, queue_id)
    if position.at == "latest":
        return end
    rows = await tx.fetch("message.first", queue_id, 0)
    begin = int(rows[0][0]) if rows else end
    if position.at == "earliest":
        return begin
    if position.at == "offset":
        return min(max(position.value, begin), end)
    sure = await _halve(tx, queue_id, begin, end, position.value)
    low = await _halve(tx, queue_id, begin, sure, position.value - _DISORDER)
    found = await tx.fetch("message.since", queue_id, low, sure, position.value)
    return int(found[0][0]) if found else sure


async def offsets_of(tx: Transaction, queues: Sequence[Queue], position: Position) -> list[tuple[int, int]]:
    """(number, offset) of a position in each of these queues."""
    return [(queue.number, await offset_of(tx, queue.id, position)) for queue in queues]


async def _halve(tx: Transaction, queue_id: int, low: int, high: int, time: int) -> int:
    """The first offset from `low` to `high` whose message came at `time` or later; `high` if there is none below."""
    while low < high:
        middle = (low + high) // 2
        rows = await tx.fetch("message.first", queue_id, middle)
        if not rows or rows[0][0] >= high or rows[0][1] >= time:
            high = middle
        else:
            low = int(rows[0][0]) + 1
    return high

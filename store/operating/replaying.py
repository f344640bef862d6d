"""Replay: sends a range of the stream to one group again, through its retry queues, in bounded batches.

The progress is written in the same transaction, under a digest of the request: the same request goes on where an
earlier one stopped or was killed, so no message is left out or comes twice. Another request replaces it. A replay of
many ranges has a name, and goes through a queue by ascending offsets: everything below its progress is done, and the
progress is kept when one of its ranges is done. For a replay of all queues of a topic, the queues are read here, under
the topic's lock: another node may have added some that the caller does not know. Locks: the topic, the cursors of the
retry queues, then the replay's own rows.
"""

from collections.abc import Callable, Sequence

from attrs import frozen

from ..catalogue import as_it_is, queues_now
from ..errors import GroupGone
from ..groups.locked_rows import CursorRow
from ..ports import Transaction
from ..records import Group, Queue
from ..stream.positions import Position, offset_of
from .redriving import set_retries


@frozen
class Range:
    """A range from one position up to another, which is not included."""

    begin: Position
    end: Position
    queues: tuple[Queue, ...] | None
    """None: all queues that the topic has then."""
    request: bytes
    """A digest of the request, 32 bytes."""
    named: bool = False
    """`request` is the digest of a name, and this is one of its many ranges."""


@frozen
class Replayed:
    """The result of one batch."""

    count: int
    done: bool
    timers: tuple[tuple[int, int], ...] = ()


async def replay(
    tx: Transaction, group: Group, range_: Range, limit: int, now: int, make_id: Callable[[int], int]
) -> Replayed:
    """Replays at most `limit` messages. `make_id` makes the id of a retry from its due time. Raises `GroupGone`."""
    if range_.queues is None:
        group = await as_it_is(tx, group)
    queues = group.topic.queues if range_.queues is None else range_.queues
    backs = {queue.id: group.retry_queue_of[queue.id].id for queue in queues}
    if not await tx.fetch("cursor.lock", CursorRow, group.id, sorted(backs.values())):
        raise GroupGone("the group has been removed meanwhile")
    left = await _left(tx, group, range_, queues)
    queue_id = next((queue_id for queue_id, (at, until) in left.items() if at < until), None)
    timers: tuple[tuple[int, int], ...] = ()
    if queue_id is not None:
        at, until = left[queue_id]
        page = await tx.fetch("message.page", tuple[int, int, int], queue_id, at, until, limit)
        places = [(backs[queue_id], queue_id, offset, id_, 1, b"[]") for offset, id_, _ in page]
        timers = await set_retries(tx, group, places, now, make_id)
        left[queue_id] = (page[-1][0] + 1 if len(page) == limit else until, until)
        await tx.execute("cursor.redriven", len(timers), 0, group.id, backs[queue_id])
    done = all(at >= until for at, until in left.values())
    for queue in queues:
        await tx.execute("replay.remove", group.id, queue.id)
    if not done or range_.named:
        rows = [(group.id, queue_id, range_.request, *place) for queue_id, place in left.items()]
        await tx.execute_many("replay.add", rows)
    return Replayed(len(timers), done, timers)


async def _left(tx: Transaction, group: Group, range_: Range, queues: Sequence[Queue]) -> dict[int, tuple[int, int]]:
    """The offsets that are left by queue: from where the same request stopped, or the whole range; the whole range also
    for a queue that was added since."""
    known: dict[int, tuple[int, int]] = {}
    for queue in queues:
        for request, at, until in await tx.fetch("replay.lock", tuple[bytes, int, int], group.id, queue.id):
            if request == range_.request:
                known[queue.id] = (at, until)
    if range_.named:
        places = await extent(tx, range_, queues)
        begins = {queue_id: max(at, known.get(queue_id, (at, 0))[0]) for queue_id, (at, _) in places.items()}
        return {queue_id: (at, max(at, places[queue_id][1])) for queue_id, at in begins.items()}
    return await extent(tx, range_, [queue for queue in queues if queue.id not in known]) | known


async def extent(tx: Transaction, range_: Range, queues: Sequence[Queue]) -> dict[int, tuple[int, int]]:
    """The first offset and the end of the range in each of these queues; removed messages in between are counted,
    too."""
    places: dict[int, tuple[int, int]] = {}
    for queue in queues:
        begin = await offset_of(tx, queue.id, range_.begin)
        places[queue.id] = (begin, max(begin, await offset_of(tx, queue.id, range_.end)))
    return places


async def count(tx: Transaction, group: Group, range_: Range) -> int:
    """How many offsets a range has. Raises `TopicGone`."""
    queues = await queues_now(tx, group.topic) if range_.queues is None else range_.queues
    return sum(until - at for at, until in (await extent(tx, range_, queues)).values())

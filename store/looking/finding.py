"""Finds messages of a topic by their state and time; bounded reads, page by page.

Waiting, cancelled and suppressed messages are scanned in the order of ids, which is that of their first due times, a
bounded number of rows in one call. So a page may be short, or empty, and still not be the last: `Page.after` tells.
"""

from typing import Generic, TypeVar

from attrs import frozen

from ..ids import SHARDS, SHARDS_OF_DELAY
from ..ports import Asked, Transaction
from ..records import Topic
from ..rows import SUPPRESSED, Scanned
from ..states import Findable
from ..stream.positions import Position, offset_of

_ROWS = 200
"""How many rows of a shard one read has."""
_READS = 10
"""How many reads one call makes at most: 64,000 rows of the 32 shards of `delay`, 32,000 of the 16 of `cancelled`."""
_QUEUES, _TIMED_QUEUES = 100, 4
"""How many queues are read in one call at most. Fewer when a time is searched, since that takes a statement for each
step of the binary search."""
_EVER = (1 << 63) - 1

P = TypeVar("P")
"""The place at which a page begins."""


@frozen
class Wanted:
    """The messages to search for. The times apply to `deliver_at`; for published, claimed, parked and dead messages to
    when they became so; for retrying ones to when they come back. Unix milliseconds, the end not included."""

    state: Findable
    since: int | None = None
    until: int | None = None


@frozen
class PageStart:
    """The place at which a page begins: behind an id, or at an offset of the queue with this index in the topic's list.

    For states in a group see `standings`.
    """

    queue: int = 0
    after: int = 0


@frozen
class Page(Generic[P]):
    """The ids of messages, each with the place at which a page behind it begins; `after` is where the next page begins,
    None after the last."""

    places: tuple[tuple[int, P], ...]
    after: P | None

    @property
    def ids(self) -> list[int]:
        """The messages' ids."""
        return [id_ for id_, _ in self.places]


async def find(tx: Transaction, topic: Topic, wanted: Wanted, place: PageStart, limit: int) -> Page[PageStart]:
    """A page of at most `limit` messages that are scheduled, published, cancelled or suppressed."""
    if wanted.state == "published":
        return await _published(tx, topic, wanted, place, limit)
    query, shards = ("delay.scan", SHARDS_OF_DELAY) if wanted.state == "scheduled" else ("cancelled.scan", SHARDS)
    reason = SUPPRESSED if wanted.state == "suppressed" else 0
    after, met = place.after, list[tuple[int, PageStart]]()
    for _ in range(_READS):
        rows: list[Scanned] = []
        sure = _EVER
        pages = [Asked(query, Scanned, shard, after, _ROWS) for shard in range(shards)]
        await tx.fetch_all(pages)
        for page in pages:
            rows += page.rows
            if len(page.rows) == _ROWS:
                sure = min(sure, page.rows[-1].id)  # this shard may have more rows behind this one
        for id_, topic_id, deliver_at, why in sorted(row for row in rows if row.id <= sure):
            if topic_id == topic.id and why == reason and within(wanted, deliver_at):
                met.append((id_, PageStart(after=id_)))
                if len(met) == limit:
                    return Page(tuple(met), PageStart(after=id_))
        if sure == _EVER:
            return Page(tuple(met), None)
        after = sure
    return Page(tuple(met), PageStart(after=after))


def within(wanted: Wanted, time: int) -> bool:
    """Whether a time is within the times asked for."""
    return (wanted.since is None or time >= wanted.since) and (wanted.until is None or time < wanted.until)


async def _published(tx: Transaction, topic: Topic, wanted: Wanted, place: PageStart, limit: int) -> Page[PageStart]:
    at, met = place.after, list[tuple[int, PageStart]]()
    timed = wanted.since is not None or wanted.until is not None
    ends = dict(await tx.fetch("queue.ends", tuple[int, int], [queue.id for queue in topic.queues]))
    reads = 0
    for number in range(place.queue, len(topic.queues)):
        queue_id = topic.queues[number].id
        end = ends.get(queue_id, 0)
        if at < end:
            if reads == (_TIMED_QUEUES if timed else _QUEUES):
                return Page(tuple(met), PageStart(number, at))
            reads += 1
            begin = 0 if wanted.since is None else await offset_of(tx, queue_id, Position("time", wanted.since))
            if wanted.until is not None:
                end = await offset_of(tx, queue_id, Position("time", wanted.until))
            room = limit - len(met)
            rows = await tx.fetch("message.page", tuple[int, int, int], queue_id, max(at, begin), end, room)
            met += [(id_, PageStart(number, offset + 1)) for offset, id_, _ in rows if id_ >= 0]  # no tombstones
            if len(rows) == room:
                return Page(tuple(met), PageStart(number, rows[-1][0] + 1))
        at = 0
    return Page(tuple(met), None)

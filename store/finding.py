"""Finding messages of a topic by their state and time, and counting what falls due; bounded reads, page by page.

What waits and what was cancelled is looked through in the order of ids, which is that of the times first given, a
bounded number of rows in one call. So a page may be short, or empty, and still not the last: `Page.after` says so.
"""

from typing import Literal

from attrs import frozen

from .ids import SHARDS, first_id
from .ports import Transaction
from .positions import Position, offset_of
from .records import Topic

_ROWS = 200
"""Rows of a shard in one read."""
_READS = 10
"""Reads in one call: 32,000 rows of all shards at most."""
_EVER = (1 << 63) - 1
_MOST = 100_000
"""A bucket counts no further among messages that were never rescheduled."""


State = Literal["scheduled", "published", "cancelled", "claimed", "retrying", "parked", "dead"]
"""The last four are states in a group: see `standings`."""


@frozen
class Wanted:
    """Which messages. Times are of `deliver_at`; of published, claimed, parked and dead ones, when they became so; of
    retrying ones, when they come back. Unix milliseconds, the end not included."""

    state: State
    since: int | None = None
    until: int | None = None


@frozen
class Place:
    """Where a page begins: behind an id, or at an offset of the queue with that place in the topic's list.

    For what stands so in a group see `standings`.
    """

    queue: int = 0
    after: int = 0


@frozen
class Page:
    """Ids of messages; `after` is where the next page begins, None after the last."""

    ids: tuple[int, ...]
    after: Place | None


async def find(tx: Transaction, topic: Topic, wanted: Wanted, place: Place, limit: int) -> Page:
    """A page of at most `limit` messages that are scheduled, published or cancelled."""
    if wanted.state == "published":
        return await _published(tx, topic, wanted, place, limit)
    query = "delay.scan" if wanted.state == "scheduled" else "cancelled.scan"
    after, ids = place.after, list[int]()
    for _ in range(_READS):
        rows: list[tuple[int, int, int]] = []
        sure = _EVER
        for shard in range(SHARDS):
            page = await tx.fetch(query, shard, after, _ROWS)
            rows += page
            if len(page) == _ROWS:
                sure = min(sure, page[-1][0])  # behind it this shard may have more
        for id_, topic_id, deliver_at in sorted(row for row in rows if row[0] <= sure):
            if topic_id == topic.id and within(wanted, deliver_at):
                ids.append(id_)
                if len(ids) == limit:
                    return Page(tuple(ids), Place(after=id_))
        if sure == _EVER:
            return Page(tuple(ids), None)
        after = sure
    return Page(tuple(ids), Place(after=after))


def within(wanted: Wanted, time: int) -> bool:
    """Whether a time is among those asked for."""
    return (wanted.since is None or time >= wanted.since) and (wanted.until is None or time < wanted.until)


async def _published(tx: Transaction, topic: Topic, wanted: Wanted, place: Place, limit: int) -> Page:
    at = place.after
    for number in range(place.queue, len(topic.queues)):
        queue_id = topic.queues[number].id
        begin = 0 if wanted.since is None else await offset_of(tx, queue_id, Position("time", wanted.since))
        until = Position("latest") if wanted.until is None else Position("time", wanted.until)
        end = await offset_of(tx, queue_id, until)
        rows = await tx.fetch("message.page", queue_id, max(at, begin), end, limit)
        if len(rows) == limit:
            return Page(tuple(row[1] for row in rows), Place(number, rows[-1][0] + 1))
        if rows and number + 1 < len(topic.queues):
            return Page(tuple(row[1] for row in rows), Place(number + 1))
        if rows:
            return Page(tuple(row[1] for row in rows), None)
        at = 0
    return Page((), None)


async def upcoming(tx: Transaction, topic: Topic, now: int, width: int, buckets: int) -> list[int]:
    """How many messages of a topic fall due in each stretch of `width` milliseconds from now on.

    The first holds what is overdue, too.
    """
    counts: list[int] = []
    for number in range(buckets):
        since, until = now + number * width if number else 0, now + (number + 1) * width
        ((straight,),) = await tx.fetch("delay.upcoming", first_id(since), first_id(until), topic.id, _MOST)
        ((moved,),) = await tx.fetch("moved.upcoming", since, until, topic.id)
        counts.append(int(straight) + int(moved))
    return counts

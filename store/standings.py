"""Finding messages by where they stand in the groups of a topic: in a claim, on the ladder, parked, or dead.

Bounded reads, page by page, as in `finding`. A message that stands so in several groups comes once for each page that
meets it. A dead letter may have outlived its message; it is found all the same, as the copy that it holds.
"""

from collections import defaultdict
from itertools import groupby

from .finding import Page, Place, Wanted, within
from .ports import Row, Transaction
from .records import Event, Found, Outcome, Topic
from .text import decode

STANDINGS = ("claimed", "retrying", "parked", "dead")

_ROWS = 500
"""Rows in one read; a claim is a row, and its messages are read with it."""
_CLAIMS = 50
_READS = 100
"""Reads in one call."""
_PLACES = 1 << 10
"""More than a claim holds: a place in a claim is its number times this, and the position in it."""


async def find(tx: Transaction, topic: Topic, wanted: Wanted, place: Place, limit: int) -> Page:
    """A page of at most `limit` messages of one of the `STANDINGS`."""
    if wanted.state == "dead":
        return await _dead(tx, topic, wanted, place, limit)
    if wanted.state == "claimed":
        return await _claimed(tx, topic, wanted, place, limit)
    query = "retry.along" if wanted.state == "retrying" else "parked.along"
    return await _along(tx, topic, wanted, place, limit, query)


async def _groups(tx: Transaction, topic: Topic) -> list[int]:
    return sorted(row[0] for row in await tx.fetch("consumer_group.of_topics", [topic.id]))


async def _dead(tx: Transaction, topic: Topic, wanted: Wanted, place: Place, limit: int) -> Page:
    groups = await _groups(tx, topic)
    ids: dict[int, None] = {}
    after, reads = place.after, 0
    for number in range(place.queue, len(groups)):
        while True:
            if reads >= _READS:
                return Page(tuple(ids), Place(number, after))
            rows = await tx.fetch("dead.page", groups[number], after, _ROWS)
            reads += 1
            for id_, dead_at, _queue in rows:
                if within(wanted, dead_at):
                    ids[id_] = None
                    if len(ids) == limit:
                        return Page(tuple(ids), Place(number, id_))
            if len(rows) < _ROWS:
                break
            after = rows[-1][0]
        after = 0
    return Page(tuple(ids), None)


async def _along(tx: Transaction, topic: Topic, wanted: Wanted, place: Place, limit: int, query: str) -> Page:
    """What rests or waits, along the topic's own queues: (offset, message, since) from an offset on."""
    ids: dict[int, None] = {}
    at, reads = place.after, 0
    for number in range(place.queue, len(topic.queues)):
        while True:
            if reads >= _READS:
                return Page(tuple(ids), Place(number, at))
            rows = await tx.fetch(query, topic.queues[number].id, at, _ROWS)
            reads += 1
            more = len(rows) == _ROWS
            if more:
                rows, at = _whole(rows)
            for offset, some in groupby(rows, key=lambda row: int(row[0])):
                fitting = [row[1] for row in some if within(wanted, row[2])]
                if fitting:
                    ids[fitting[0]] = None
                if len(ids) == limit:
                    return Page(tuple(ids), Place(number, offset + 1))
            if not more:
                break
        at = 0
    return Page(tuple(ids), None)


def _whole(rows: list[Row]) -> tuple[list[Row], int]:
    """The rows of those offsets that are here with all their groups, and the offset to go on at."""
    last = int(rows[-1][0])
    if rows[0][0] == last:
        return rows, last + 1
    return [row for row in rows if row[0] < last], last


async def _claimed(tx: Transaction, topic: Topic, wanted: Wanted, place: Place, limit: int) -> Page:
    cursors = await _cursors(tx, topic)
    ids: dict[int, None] = {}
    at, reads = place.after, 0
    for number in range(place.queue, len(cursors)):
        group_id, queue_id, own = cursors[number]
        while True:
            if reads >= _READS:
                return Page(tuple(ids), Place(number, at))
            claim, position = divmod(at, _PLACES)
            rows = await tx.fetch("claim.page", group_id, queue_id, claim, _CLAIMS)
            reads += 1
            for row in rows:
                begin = position if row[0] == claim else 0
                open_ = [i for i, outcome in enumerate(row[4]) if i >= begin and outcome == Outcome.OPEN]
                if not open_ or not within(wanted, row[3]):
                    continue
                first, end = row[1] + open_[0], row[1] + open_[-1] + 1
                names: dict[int, int] = dict(
                    await tx.fetch("message.ids" if own else "redelivery.ids", queue_id, first, end)
                )
                reads += 1
                for i in open_:
                    if row[1] + i in names:
                        ids[names[row[1] + i]] = None
                    if len(ids) == limit:
                        return Page(tuple(ids), Place(number, row[0] * _PLACES + i + 1))
            if len(rows) < _CLAIMS:
                break
            at = (rows[-1][0] + 1) * _PLACES
        at = 0
    return Page(tuple(ids), None)


async def _cursors(tx: Transaction, topic: Topic) -> list[tuple[int, int, bool]]:
    """(group, queue, whether it is the topic's own) of every cursor, in an order that stays."""
    own = sorted(queue.id for queue in topic.queues)
    back: dict[int, list[int]] = defaultdict(list)
    for queue_id, _, group_id, _ in await tx.fetch("queue.of_topics", [topic.id]):
        back[group_id].append(queue_id)
    return [
        (group_id, queue_id, queue_id in own)
        for group_id in await _groups(tx, topic)
        for queue_id in sorted([*own, *back[group_id]])
    ]


async def find_letter(tx: Transaction, topic: Topic, id_: int) -> Found | None:
    """A dead letter whose message retention has taken; its life is what the letter tells."""
    groups = {row[0]: row[2].decode() for row in await tx.fetch("consumer_group.of_topics", [topic.id])}
    deaths = await tx.fetch("dead.of_message", id_, sorted(groups)) if groups else []
    whole = await tx.fetch("dead.whole", deaths[0][0], [id_]) if deaths else []
    if not whole:
        return None
    _, _, _, queue_id, offset, key, ordering_key, tag, headers, content_type, body, accepted_at, deliver_at = whole[0]
    ends = [Event("dead", dead_at, groups[group_id]) for group_id, dead_at, _ in deaths]
    life = [Event("published" if deliver_at <= accepted_at else "scheduled", accepted_at)]
    return Found(
        id=id_,
        topic=topic.name,
        state="published",
        deliver_at=deliver_at,
        published_at=accepted_at,
        key=decode(key),
        ordering_key=decode(ordering_key),
        tag=decode(tag),
        headers=headers,
        content_type=decode(content_type),
        body=body,
        queue=next((queue.number for queue in topic.queues if queue.id == queue_id), None),
        offset=offset,
        life=tuple(life + sorted(ends, key=lambda event: event.at)),
        standings=frozenset(["dead"]),
    )

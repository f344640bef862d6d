"""Finds messages by their state in the groups of a topic: claimed, retrying, parked or dead.

Bounded reads, page by page, as in `finding`. A message with this state in several groups comes once in each page that
meets it. A dead letter may have outlived its message; then it is found as the copy that it holds.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter

from msgspec.structs import asdict

from ..ports import Transaction
from ..records import Event, Found, Outcome, Topic
from ..rows import GroupRow, Letter, OpenClaim, QueueRow
from .finding import Page, PageStart, Wanted, within

_ROWS = 500
"""How many rows one read has at most."""
_CLAIMS = 50
"""How many claims one read has at most; their messages are then read by `_ROWS`."""
_READS = 100
"""How many reads one call makes at most."""
_Along = tuple[int, int, int]
"""(offset, message, since when)."""
_PLACES = 1 << 10
"""More than a claim can hold. A place in a claim is the claim's number times this, plus the position in the claim."""


async def find(tx: Transaction, topic: Topic, wanted: Wanted, place: PageStart, limit: int) -> Page[PageStart]:
    """A page of at most `limit` messages of one of the states in a group."""
    if wanted.state == "dead":
        return await _dead(tx, topic, wanted, place, limit)
    if wanted.state == "claimed":
        return await _claimed(tx, topic, wanted, place, limit)
    return await _along(tx, topic, wanted, place, limit)


async def groups_of(tx: Transaction, topic: Topic) -> list[int]:
    """The ids of a topic's groups, ascending."""
    return sorted(group.id for group in await tx.fetch("consumer_group.of_topics", GroupRow, [topic.id]))


class _Met:
    """The messages that were met, once each, with the place at which a page behind each begins."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._places: dict[int, PageStart] = {}

    def add(self, id_: int, behind: PageStart) -> bool:
        """Adds a message, unless it was met before; returns whether the page is full."""
        self._places.setdefault(id_, behind)
        return len(self._places) == self._limit

    def page(self, after: PageStart | None) -> Page[PageStart]:
        return Page(tuple(self._places.items()), after)


async def _dead(tx: Transaction, topic: Topic, wanted: Wanted, place: PageStart, limit: int) -> Page[PageStart]:
    groups = await groups_of(tx, topic)
    met = _Met(limit)
    after, reads = place.after, 0
    for number in range(place.queue, len(groups)):
        while True:
            if reads >= _READS:
                return met.page(PageStart(number, after))
            rows = await tx.fetch("dead.page", tuple[int, int, int], groups[number], after, _ROWS)
            reads += 1
            for id_, dead_at, _queue in rows:
                behind = PageStart(number, id_)
                if within(wanted, dead_at) and met.add(id_, behind):
                    return met.page(behind)
            if len(rows) < _ROWS:
                break
            after = max(id_ for id_, *_ in rows)
        after = 0
    return met.page(None)


async def _along(tx: Transaction, topic: Topic, wanted: Wanted, place: PageStart, limit: int) -> Page[PageStart]:
    """Finds retrying or parked messages, along the topic's own queues from a place on."""
    met = _Met(limit)
    at, reads = place.after, 0
    for number in range(place.queue, len(topic.queues)):
        while True:
            if reads >= _READS:
                return met.page(PageStart(number, at))
            asked = (topic.queues[number].id, at, _ROWS)
            retrying = wanted.state == "retrying"
            rows = await tx.fetch("retry.along" if retrying else "parked.along", tuple[int, int, int], *asked)
            reads += 1
            more = len(rows) == _ROWS
            if more:
                rows, at = _whole(rows)
            for offset, some in groupby(rows, key=itemgetter(0)):
                fitting = [id_ for _, id_, since in some if within(wanted, since)]
                behind = PageStart(number, offset + 1)
                if fitting and met.add(fitting[0], behind):
                    return met.page(behind)
            if not more:
                break
        at = 0
    return met.page(None)


def _whole(rows: list[_Along]) -> tuple[list[_Along], int]:
    """The rows of those offsets that were read for all groups, and the offset to go on at."""
    last = max(offset for offset, *_ in rows)
    whole = [(offset, id_, since) for offset, id_, since in rows if offset < last]
    return (whole, last) if whole else (rows, last + 1)


async def _claimed(tx: Transaction, topic: Topic, wanted: Wanted, place: PageStart, limit: int) -> Page[PageStart]:
    cursors = await _cursors(tx, topic)
    met = _Met(limit)
    at, reads = place.after, 0
    for number in range(place.queue, len(cursors)):
        group_id, queue_id, own = cursors[number]
        while True:
            if reads >= _READS:
                return met.page(PageStart(number, at))
            claim, position = divmod(at, _PLACES)
            rows = await tx.fetch("claim.page", OpenClaim, group_id, queue_id, claim, _CLAIMS)
            reads += 1
            open_ = [
                (row.first + i, PageStart(number, row.number * _PLACES + i + 1))
                for row in rows
                if within(wanted, row.claimed_at)
                for i, outcome in enumerate(row.outcome)
                if outcome == Outcome.OPEN and (row.number != claim or i >= position)
            ]
            # With claims of a thousand messages the page is full after one or two.
            for begin in range(0, len(open_), _ROWS):
                some = open_[begin : begin + _ROWS]
                if reads >= _READS:
                    return met.page(open_[begin - 1][1] if begin else PageStart(number, at))
                names = await _names(tx, queue_id, [offset for offset, _ in some], own=own)
                reads += 1
                for offset, behind in some:
                    if offset in names and met.add(names[offset], behind):
                        return met.page(behind)
            if len(rows) < _CLAIMS:
                break
            at = (rows[-1].number + 1) * _PLACES
        at = 0
    return met.page(None)


async def _names(tx: Transaction, queue_id: int, offsets: Sequence[int], *, own: bool) -> Mapping[int, int]:
    """The ids of the messages at these offsets of a topic's queue (`own`) or of a retry queue."""
    spans: list[tuple[int, int, int]] = []
    for offset in sorted(offsets):
        if spans and spans[-1][2] == offset:
            spans[-1] = (queue_id, spans[-1][1], offset + 1)
        else:
            spans.append((queue_id, offset, offset + 1))
    found = await tx.fetch("message.ids_within" if own else "redelivery.ids_within", tuple[int, int, int], spans)
    return {offset: id_ for _, offset, id_ in found}


async def _cursors(tx: Transaction, topic: Topic) -> list[tuple[int, int, bool]]:
    """(group, queue, whether it is the topic's own) of every cursor, in a stable order."""
    own = sorted(queue.id for queue in topic.queues)
    back: dict[int, list[int]] = defaultdict(list)
    for queue in await tx.fetch("queue.of_topics", QueueRow, [topic.id]):
        back[queue.group_id].append(queue.id)
    return [
        (group_id, queue_id, queue_id in own)
        for group_id in await groups_of(tx, topic)
        for queue_id in sorted([*own, *back[group_id]])
    ]


async def find_letters(tx: Transaction, topic: Topic, ids: Sequence[int]) -> dict[int, Found]:
    """Dead letters whose messages retention has removed, by id; the life of each is made from its letters."""
    groups = {row.id: row.name for row in await tx.fetch("consumer_group.of_topics", GroupRow, [topic.id])}
    if not groups or not ids:
        return {}
    ends: dict[int, list[Event]] = defaultdict(list)
    whole: dict[int, Letter] = {}
    for row in await tx.fetch("dead.letters", Letter, ids, sorted(groups)):
        ends[row.id].append(Event("dead", row.dead_at, groups[row.group_id]))
        whole.setdefault(row.id, row)
    return {id_: _letter(topic, row, ends[id_]) for id_, row in whole.items()}


def _letter(topic: Topic, row: Letter, ends: Sequence[Event]) -> Found:
    accepted_at, deliver_at = row.content.accepted_at, row.content.deliver_at
    life = [Event("published" if deliver_at <= accepted_at else "scheduled", accepted_at)]
    return Found(
        **asdict(row.content),
        id=row.id,
        topic=topic.name,
        state="published",
        queue=next((queue.number for queue in topic.queues if queue.id == row.queue_id), None),
        offset=row.offset,
        life=tuple(life + sorted(ends, key=lambda event: event.at)),
        standings=frozenset(["dead"]),
    )

"""A turn of a consumer group: its waiting acks, fails, extensions, lost leases and claims in one transaction.

A claim is a range: claiming moves the group's cursor in a queue and writes one row, whatever the number of messages.
One that has room left when everybody has something is given ranges of further queues, a row each.
The locks go in the order that everybody keeps: claim rows by key, then the group's cursors. Nothing else is locked,
since the end of a queue is read plainly: an offset below a committed end is committed.
How messages are settled is told in `settling`.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

from attrs import define, field

from ..ports import Query, Transaction, Value
from ..records import (
    Claim,
    ClaimKey,
    ClaimRequest,
    Delivered,
    Outcome,
    Queue,
    Settlement,
    Turn,
)
from ..stream.stretches import CLAIM_BYTES, PAGE, Page, Stretch
from ..text import encode
from .claim_ids import RANGES
from .gathering import Gathering, next_to_serve
from .locked_rows import CursorRow
from .settling import Settling, in_ranges

SCAN = 5_000
"""Messages that a turn looks at for their tags; it stops there, and is gone on with in the next turn."""
_TAGS_AT_ONCE = 500
WIDEST = 1_000
"""Offsets of a claim at most; `tracing` looks no further back for one."""


@define
class Turning(Settling):
    """A turn."""

    expects: tuple[int, int] | None = field(default=None, init=False)
    """What the next turn may take for `expected`."""
    _scanned: int = 0
    """Messages looked at for their tags."""
    _cut: bool = False
    _taken: int = 0
    """Messages claimed."""
    _queues: dict[int, Queue] = field(factory=dict[int, Queue], init=False)
    """Of the group, its retry queues included, by id."""
    _left: bool = False

    async def write(self, tx: Transaction, settlements: Sequence[Settlement], requests: Sequence[ClaimRequest]) -> Turn:
        """Settles first, then claims. `requests` share what there is, the first come first served."""
        held, cursors = await self._lock(tx, in_ranges(settlements), requests)
        acked_before = sum(cursor.acked for cursor in cursors.values())
        answers = await self._settle_all(tx, settlements, held, cursors)
        room = await self._room(tx) if requests else None
        claims, more = await self._claim(tx, cursors, requests, room)
        for queue_id in sorted(self._touched):
            cursor = cursors[queue_id]
            await tx.later(
                "cursor.move",
                *(cursor.position, cursor.next_claim, cursor.next_delivery, cursor.acked, cursor.dead, cursor.retried),
                *(cursor.expired, cursor.skipped, cursor.parked, self.group.id, queue_id),
            )
        full = room is not None and self._taken >= room
        acked = sum(cursor.acked for cursor in cursors.values()) - acked_before
        return Turn(tuple(answers), tuple(claims), more, self._left, cut=self._cut, full=full, acked=acked)

    async def _room(self, tx: Transaction) -> int | None:
        """How many messages more may be in hand; None is no limit. Exact, since the group's cursors are locked."""
        if self.group.concurrency is None:
            return None
        held: int = sum(outcome.count(Outcome.OPEN) for (outcome,) in await tx.fetch("claim.outcomes", self.group.id))
        return max(0, self.group.concurrency - held)

    async def _claim(
        self, tx: Transaction, cursors: Mapping[int, CursorRow], requests: Sequence[ClaimRequest], room: int | None
    ) -> tuple[list[Claim | None], bool]:
        if not requests:
            return [], False
        ends = self._ends
        gatherings = [Gathering(request) for request in requests]
        rows: list[Sequence[Value]] = []
        order = self._by_need(cursors, ends)
        pages = await self._read_ahead(tx, cursors, order, requests)
        for queue_id in order:
            cursor, end = cursors[queue_id], ends[queue_id]
            queue, query = self._stretch(queue_id)
            wanted = sum(gathering.room for gathering in gatherings)
            reader = Stretch(tx, queue, query, cursor.position, end, min(PAGE, wanted), pages.get(queue_id))
            while cursor.position < end and (room is None or self._taken < room):
                gathering = next_to_serve(gatherings, queue_id, returned=self._is_return(queue_id))
                if gathering is None:
                    break
                size = gathering.room if room is None else min(gathering.room, room - self._taken)
                tags = gathering.request.tags
                if tags is not None and not await self._skip(tx, reader, cursor, end, tags):
                    break
                claim = await self._claim_range(reader, cursor, end, gathering, size)
                self._touched.add(queue_id)
                if claim is None:
                    continue  # a stretch that retention has taken
                self._taken += len(claim.messages)
                gathering.add(claim, returned=self._is_return(queue_id))
                rows.append(claim_row(claim))
        if rows:
            await tx.later_many("claim.add", rows)
        self.expects = self._expect(cursors)
        more = any(cursor.position < self._ends[queue_id] for queue_id, cursor in cursors.items())
        return [gathering.claim for gathering in gatherings], more or self._more_behind

    async def _read_ahead(
        self, tx: Transaction, cursors: Mapping[int, CursorRow], order: Iterable[int], requests: Sequence[ClaimRequest]
    ) -> dict[int, Page]:
        """The first messages of the queues that are likely to be claimed from, in one flight; a page of them in all."""
        pages = {} if self._page is None else {self._page.queue_id: self._page}
        if any(request.tags is not None for request in requests):
            return pages  # what is wanted may lie far behind
        wanted = min(PAGE, sum(request.size for request in requests))
        asked: list[tuple[int, int, int]] = []
        queries: list[Query] = []
        for queue_id in order:
            position, end = cursors[queue_id].position, self._ends[queue_id]
            if wanted <= 0 or len(asked) == RANGES * len(requests):
                break
            limit = min(wanted, end - position)
            wanted -= limit
            if queue_id not in pages or pages[queue_id].position != position:
                asked.append((queue_id, position, limit))
                queries.append((self._stretch(queue_id)[1], (queue_id, position, end, limit)))
        if queries:
            for place, rows in zip(asked, await tx.fetch_all(queries), strict=True):
                pages[place[0]] = Page(*place, rows)
        return pages

    def _expect(self, cursors: Mapping[int, CursorRow]) -> tuple[int, int] | None:
        """The queue of the topic with most left to claim, and where; None when the next turn has to find out."""
        own = [queue.id for queue in self.group.topic.queues if queue.id in cursors]
        if not own:
            return None
        queue_id = max(own, key=lambda q: self._ends[q] - cursors[q].position)
        if len(own) > 1 and self._ends[queue_id] == cursors[queue_id].position:
            return None
        return queue_id, cursors[queue_id].position

    def _stretch(self, queue_id: int) -> tuple[Queue, str]:
        """A queue of the group and the query that reads it."""
        if not self._queues:
            self._queues = {queue.id: queue for queue in self.group.topic.queues}
            self._queues |= {queue.id: queue for queue in self.group.retry_queues.values()}
        return self._queues[queue_id], "redelivery.range" if self._is_return(queue_id) else "message.range"

    def _is_return(self, queue_id: int) -> bool:
        """Whether it is a retry queue of the group."""
        return queue_id not in self.group.retry_queues

    def _by_need(self, cursors: Mapping[int, CursorRow], ends: Mapping[int, int]) -> list[int]:
        """Retry queues first, then the queue with most to claim."""
        behind = [queue_id for queue_id in cursors if cursors[queue_id].position < ends[queue_id]]
        return sorted(behind, key=lambda q: (not self._is_return(q), cursors[q].position - ends[q]))

    async def _skip(self, tx: Transaction, reader: Stretch, cursor: CursorRow, end: int, tags: frozenset[str]) -> bool:
        """Moves the cursor to the next message of these tags; False when there is none, or the turn has read enough.

        Bodies are not read for it. What is passed over is settled for the group: skipped, or expired where it is gone.
        """
        wanted = {encode(tag) for tag in tags}
        query = reader.query.partition(".")[0] + ".tags"
        self._touched.add(cursor.queue_id)
        while cursor.position < end:
            if self._scanned >= SCAN:
                self._cut = True
                return False
            rows = await tx.fetch(query, cursor.queue_id, cursor.position, end, _TAGS_AT_ONCE)
            self._scanned += len(rows)
            others = list(takewhile(lambda row: row[1] not in wanted, rows))
            if len(others) < len(rows):
                until = rows[len(others)][0]
            else:
                until = rows[-1][0] + 1 if len(rows) == _TAGS_AT_ONCE else end
            cursor.tell(Outcome.SKIPPED, len(others))
            cursor.tell(Outcome.EXPIRED, until - cursor.position - len(others))
            cursor.position = until
            reader.skip_to(until)
            if len(others) < len(rows):
                return True
        return False

    async def _claim_range(
        self, reader: Stretch, cursor: CursorRow, end: int, gathering: Gathering, size: int
    ) -> Claim | None:
        first, request = cursor.position, gathering.request
        messages = await reader.take(min(first + size, end), gathering.bytes_left)
        skipped: tuple[int, ...] = ()
        if request.tags is not None:
            messages, skipped = await _choose(reader, messages, first, min(first + WIDEST, end), request.tags, size)
            cursor.tell(Outcome.SKIPPED, len(skipped))
        cursor.position = reader.position
        size = cursor.position - first
        # After a replay or a redrive a message may lie in a retry queue twice: a claim holds it once, the later one.
        places = {message.id: offset - first for offset, message in messages}
        messages = [(offset, message) for offset, message in messages if places[message.id] == offset - first]
        if len(messages) + len(skipped) < size:
            cursor.expired += size - len(messages) - len(skipped)
        if not messages:
            return None
        key = gathering.key(self.group.id, cursor.queue_id, cursor.take_claim_number(), first)
        lease_until = self.now + request.lease
        return Claim(key, request.client, self.now, lease_until, size, tuple(m for _, m in messages), places, skipped)


async def _choose(
    reader: Stretch, found: list[tuple[int, Delivered]], first: int, end: int, tags: frozenset[str], size: int
) -> tuple[list[tuple[int, Delivered]], tuple[int, ...]]:
    """The messages of the tags asked for, and the places of the others; reads on until they are as many as wished."""
    chosen: list[tuple[int, Delivered]] = []
    skipped: list[int] = []
    weight = 0
    while True:
        for offset, message in found:
            if message.tag not in tags:
                skipped.append(offset - first)
                continue
            chosen.append((offset, message))
            weight += len(message.body)
        if len(chosen) >= size or weight > CLAIM_BYTES or reader.position >= end:
            return chosen, tuple(skipped)
        found = await reader.take(min(reader.position + size - len(chosen), end))


def claim_row(claim: Claim, parked: Iterable[int] = ()) -> Sequence[Value]:
    """Its row; what is neither in its places nor `parked` is gone from the stream."""
    outcome = bytearray([Outcome.EXPIRED]) * claim.size
    for place in parked:
        outcome[place] = Outcome.PARKED
    for place in claim.places.values():
        outcome[place] = Outcome.OPEN
    for place in claim.skipped:
        outcome[place] = Outcome.SKIPPED
    key = claim.key
    return (
        *(key.group_id, key.queue_id, key.number, key.token, encode(claim.client), key.first, claim.size),
        *(claim.claimed_at, claim.lease_until, bytes(outcome), bytes(8 * claim.size)),
    )


async def find_places(tx: Transaction, key: ClaimKey) -> dict[int, int] | None:
    """Position by message id in a claim, open or ended; None when there is no such claim under this token."""
    for row in await tx.fetch("claim.find", key.group_id, key.queue_id, key.number):
        token, size = row
        break
    else:
        rows = await tx.fetch("delivery.find", key.group_id, key.queue_id, key.first, key.number)
        if not rows:
            return None
        token, size = rows[0][0], rows[0][2]
    if token != key.token:
        return None
    end = key.first + size
    rows = await tx.fetch("redelivery.ids", key.queue_id, key.first, end)
    if not rows:  # not a retry queue
        rows = await tx.fetch("message.ids", key.queue_id, key.first, end)
    return {id_: offset - key.first for offset, id_ in rows}

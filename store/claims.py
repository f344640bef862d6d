"""A turn of a consumer group: its waiting acks, fails, extensions, lost leases and claims in one transaction.

A claim is a range: claiming moves the group's cursor in a queue and writes one row, whatever the number of messages.
The locks go in the order that everybody keeps: claim rows by key, then the group's cursors. Nothing else is locked,
since the end of a queue is read plainly: an offset below a committed end is committed.
How messages are settled is told in `settling`.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

from attrs import define, evolve, field

from .locked_rows import CursorRow
from .ports import Transaction, Value
from .records import (
    Claim,
    ClaimKey,
    ClaimRequest,
    Delivered,
    Outcome,
    Queue,
    Settlement,
    Turn,
)
from .settling import Settling
from .stretches import CLAIM_BYTES, PAGE, Stretch
from .text import encode

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
    _left: bool = False

    async def write(self, tx: Transaction, settlements: Sequence[Settlement], requests: Sequence[ClaimRequest]) -> Turn:
        """Settles first, then claims. `requests` share what there is, the first come first served."""
        held, cursors = await self._lock(tx, settlements, requests)
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
        claims: list[Claim | None] = []
        rows: list[Sequence[Value]] = []
        waiting = list(requests)
        for queue_id in self._by_need(cursors, ends):
            cursor, end = cursors[queue_id], ends[queue_id]
            wanted = sum(request.size for request in waiting)
            queue, query = self._stretch(queue_id)
            reader = Stretch(tx, queue, query, cursor.position, end, min(PAGE, wanted), self._page)
            while waiting and cursor.position < end:
                request = waiting[0]
                if room is not None:
                    if self._taken >= room:
                        break
                    request = evolve(request, size=min(request.size, room - self._taken))
                if request.tags is not None and not await self._skip(tx, reader, cursor, end, request.tags):
                    break
                claim = await self._claim_range(reader, cursor, end, request)
                self._touched.add(queue_id)
                if claim is None:
                    continue  # a stretch that retention has taken
                self._taken += len(claim.messages)
                claims.append(claim)
                rows.append(claim_row(claim))
                waiting.pop(0)
        if rows:
            await tx.later_many("claim.add", rows)
        claims += [None] * len(waiting)
        self.expects = self._expect(cursors)
        more = any(cursor.position < self._ends[queue_id] for queue_id, cursor in cursors.items())
        return claims, more or self._more_behind

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
        for queue in self.group.topic.queues:
            if queue.id == queue_id:
                return queue, "message.range"
        return next(q for q in self.group.retry_queues.values() if q.id == queue_id), "redelivery.range"

    def _by_need(self, cursors: Mapping[int, CursorRow], ends: Mapping[int, int]) -> list[int]:
        """Retry queues first, then the queue with most to claim."""
        own = {queue.id for queue in self.group.topic.queues}
        behind = [queue_id for queue_id in cursors if cursors[queue_id].position < ends[queue_id]]
        return sorted(behind, key=lambda q: (q in own, cursors[q].position - ends[q]))

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

    async def _claim_range(self, reader: Stretch, cursor: CursorRow, end: int, request: ClaimRequest) -> Claim | None:
        first = cursor.position
        messages = await reader.take(min(first + request.size, end))
        skipped: tuple[int, ...] = ()
        if request.tags is not None:
            messages, skipped = await _choose(reader, messages, first, min(first + WIDEST, end), request)
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
        key = ClaimKey(self.group.id, cursor.queue_id, cursor.take_claim_number(), first, secrets.randbits(63))
        lease_until = self.now + request.lease
        return Claim(key, request.client, self.now, lease_until, size, tuple(m for _, m in messages), places, skipped)


async def _choose(
    reader: Stretch, found: list[tuple[int, Delivered]], first: int, end: int, request: ClaimRequest
) -> tuple[list[tuple[int, Delivered]], tuple[int, ...]]:
    """The messages of the tags asked for, and the places of the others; reads on until they are as many as wished."""
    chosen: list[tuple[int, Delivered]] = []
    skipped: list[int] = []
    weight = 0
    while True:
        for offset, message in found:
            if request.tags is not None and message.tag not in request.tags:
                skipped.append(offset - first)
                continue
            chosen.append((offset, message))
            weight += len(message.body)
        if len(chosen) >= request.size or weight > CLAIM_BYTES or reader.position >= end:
            return chosen, tuple(skipped)
        found = await reader.take(min(reader.position + request.size - len(chosen), end))


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
        token, size = row[0], row[3]
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

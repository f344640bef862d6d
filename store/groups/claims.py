"""The claims of a turn: what is given to those who ask, from which queue, and what is passed over on the way.

A claim is a range: claiming moves the group's cursor in a queue and writes one row, whatever the number of messages.
One that has room left when everybody has something is given ranges of further queues, a row each. Of an ordered topic
the turn's `Order` says who may claim from a queue, and which of the messages; its claims are of one range.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from attrs import define, field

from ..expiry import is_past
from ..ports import Transaction, Value
from ..records import UNBEGUN, Claim, ClaimRequest, Delivered, Outcome, Queue
from ..rows import encode
from ..stream.stretches import CLAIM_BYTES, PAGE, Page, Stretch
from .claim_ids import RANGES
from .grants import Grant, next_to_serve
from .locked_rows import ClaimRow, CursorRow, Expected, LockedRows
from .order import Order, Picked

SCAN = 5_000
"""Messages that a turn passes over, since they have other tags, are parked or past their time; it stops there and is
gone on with in the next turn."""
_TAGS_AT_ONCE = 500
WIDEST = 1_000
"""Offsets of a claim at most; `tracing` looks no further back for one."""


class Tagged(NamedTuple):
    """The tag of a message, and when it is past its time."""

    offset: int
    tag: str | None
    expires_at: int | None


@define
class Claiming:
    """What a turn gives. `requests` share what there is, the first come first served."""

    locked: LockedRows
    order: Order | None
    now: int
    requests: Sequence[ClaimRequest]
    room: int | None
    """How many messages more the group may have in hand; None is no limit."""
    cut: bool = field(default=False, init=False)
    """A claim has stopped among messages of other tags, or past their time: to be gone on with."""
    expired: int = field(default=0, init=False)
    """Messages past their time that were passed over."""
    _grants: list[Grant] = field(init=False)
    _rows: list[Sequence[Value]] = field(factory=list[Sequence[Value]], init=False)
    _log: list[Sequence[Value]] = field(factory=list[Sequence[Value]], init=False)
    """Of what has expired outside of a claim: else nothing would tell of it but a counter."""
    _passed: int = field(default=0, init=False)
    _queues: dict[int, Queue] = field(factory=dict[int, Queue], init=False)
    """Of the group, its retry queues included, by id."""

    def __attrs_post_init__(self) -> None:
        self._grants = [Grant(request) for request in self.requests]

    @property
    def claims(self) -> tuple[Claim | None, ...]:
        """What each is given; None when there was nothing."""
        return tuple(grant.claim for grant in self._grants)

    @property
    def left(self) -> bool:
        """Whether there are messages behind the cursors of the queues that it claims from."""
        ends = self.locked.ends
        return any(cursor.position < ends[cursor.queue_id] for cursor in self.locked.claimable)

    @property
    def in_vain(self) -> bool:
        """Whether somebody was given nothing."""
        return any(not grant.ranges for grant in self._grants)

    @property
    def short(self) -> bool:
        """Whether somebody had room for more."""
        return any(grant.room > 0 for grant in self._grants)

    @property
    def stopped(self) -> bool:
        """Whether the turn has passed over as many messages as it may."""
        return self._passed >= SCAN

    async def write(self, tx: Transaction) -> None:
        """Gives to everybody what there is for him."""
        group, queue_ids = self.locked.group, self._by_need()
        self._queues = {queue.id: queue for queue in (*group.topic.queues, *group.retry_queues)}
        pages = await self._read_ahead(tx, queue_ids) if self.order is None else {}
        for queue_id in queue_ids:
            await self._give_of(tx, queue_id, pages.get(queue_id))
        if self._rows:
            await tx.later_many("claim.add", self._rows)
        if self._log:
            await tx.later_many("delivery.add", self._log)

    async def _give_of(self, tx: Transaction, queue_id: int, page: Page | None) -> None:
        """Ranges of one queue."""
        cursor, end, returned = self.locked.cursors[queue_id], self.locked.ends[queue_id], self._is_return(queue_id)
        grants = self._grants
        if self.order is not None:
            grants = self.order.entitled(grants, queue_id, returned=returned)
        queue, wanted = self._queues[queue_id], sum(grant.room for grant in grants)
        all_are_given = self.order is None and all(grant.request.tags is None for grant in grants)
        reader = Stretch(
            tx,
            queue,
            cursor.position,
            end,
            min(PAGE, wanted),
            self.now,
            returned=returned,
            page=page,
            wanted=wanted if all_are_given else None,
        )
        while cursor.position < end and self.room != 0:
            grant = next_to_serve(grants, queue_id, returned=returned)
            if grant is None or not await self._go_on(tx, reader, cursor, end, grant.request):
                break
            claim = await self._claim_range(tx, reader, cursor, end, grant)
            if claim is None:
                continue  # retention has taken the range, or all of it is parked or past its time
            grant.add(claim, returned=returned)
            if self.room is not None:
                self.room -= len(claim.messages)
            if self.order is not None:
                self.order.close(queue_id)

    def _by_need(self) -> list[int]:
        """Retry queues first, then the queue with most to claim."""
        cursors, ends = self.locked.cursors, self.locked.ends
        behind = [cursor.queue_id for cursor in self.locked.claimable if cursor.position < ends[cursor.queue_id]]
        return sorted(behind, key=lambda q: (not self._is_return(q), cursors[q].position - ends[q]))

    def _is_return(self, queue_id: int) -> bool:
        """Whether it is a retry queue of the group."""
        return all(queue.id != queue_id for queue in self.locked.group.topic.queues)

    async def _read_ahead(self, tx: Transaction, queue_ids: Iterable[int]) -> dict[int, Page]:
        """The first messages of the queues that are likely to be claimed from, in one flight; a page of them in all."""
        page = self.locked.page
        pages = {} if page is None else {page.queue.id: page}
        if any(request.tags is not None for request in self.requests):
            return pages  # what is wanted may lie far behind
        wanted = min(PAGE, sum(request.size for request in self.requests))
        asked: list[Page] = []
        for queue_id in queue_ids:
            position, end = self.locked.cursors[queue_id].position, self.locked.ends[queue_id]
            if wanted <= 0 or len(asked) == RANGES * len(self.requests):
                break
            limit = min(wanted, end - position)
            wanted -= limit
            if queue_id not in pages or pages[queue_id].position != position:
                returned = self._is_return(queue_id)
                asked.append(Page.of(self._queues[queue_id], position, end, limit, returned=returned))
        if asked:
            await tx.fetch_all([page.asked for page in asked])
        return pages | {page.queue.id: page for page in asked}

    async def _go_on(
        self, tx: Transaction, reader: Stretch, cursor: CursorRow, end: int, request: ClaimRequest
    ) -> bool:
        """Whether there may be something of its tags in the queue, and the turn has not read enough.

        Of an unordered topic the cursor moves to the next message of these tags. Bodies are not read for it. What is
        passed over is settled for the group: skipped, or expired where it is gone or past its time.
        """
        tags = request.tags
        if self.order is not None or tags is None:
            self.cut |= self.stopped and (self.order is None or tags is not None or self.expired > 0)
            return not self.stopped
        while cursor.position < end:
            if self.stopped:
                self.cut = True
                return False
            place = (cursor.queue_id, cursor.position, end, _TAGS_AT_ONCE)
            rows = await tx.fetch(
                "redelivery.tags" if self._is_return(cursor.queue_id) else "message.tags", Tagged, *place
            )
            self._passed += len(rows)
            others = list(takewhile(lambda row: row.tag not in tags or is_past(row.expires_at, self.now), rows))
            until = end
            if len(others) < len(rows):
                until = rows[len(others)].offset
            elif len(rows) == _TAGS_AT_ONCE:
                until = rows[-1].offset + 1
            expired = [row.offset for row in others if is_past(row.expires_at, self.now)]
            self.expired += len(expired)
            cursor.count(Outcome.SKIPPED, len(others) - len(expired))
            cursor.count(Outcome.EXPIRED, until - cursor.position - len(others) + len(expired))
            cursor.move_to(until)
            self._note_expired(cursor, expired, {row.offset: Outcome.SKIPPED for row in others}, request.client)
            reader.skip_to(until)
            if len(others) < len(rows):
                return True
        return False

    async def _claim_range(
        self, tx: Transaction, reader: Stretch, cursor: CursorRow, end: int, grant: Grant
    ) -> Claim | None:
        """The next range of a queue as a claim; None when there is nothing in it to hand out."""
        first, request = cursor.position, grant.request
        most = grant.room if self.room is None else min(grant.room, self.room)
        found = await _take(reader, min(first + WIDEST, end), most, grant.bytes_left)
        picked = Picked(found)
        if self.order is not None:
            stretch = range(first, reader.position)
            picked = await self.order.pick(tx, cursor.queue_id, stretch, found, request.tags)
            self._passed += len(picked.parked) + len(picked.skipped)
        elif request.tags is not None:
            picked = await _pick(reader, found, min(first + WIDEST, end), request.tags, most)
        cursor.move_to(reader.position)
        size = cursor.position - first
        expired = reader.take_expired()
        self._passed += len(expired)
        self.expired += len(expired)
        # After a replay or a redrive a message may lie in a retry queue twice: a claim holds it once, the later one.
        places = {message.id: offset - first for offset, message in picked.given}
        messages = [message for offset, message in picked.given if places[message.id] == offset - first]
        cursor.count(Outcome.SKIPPED, len(picked.skipped))
        cursor.count(Outcome.PARKED, len(picked.parked))
        cursor.count(Outcome.EXPIRED, size - len(messages) - len(picked.skipped) - len(picked.parked))
        if not messages:
            others = dict.fromkeys(picked.skipped, Outcome.SKIPPED) | dict.fromkeys(picked.parked, Outcome.PARKED)
            self._note_expired(cursor, expired, others, request.client)
            return None
        key = grant.key(self.locked.group.id, cursor.queue_id, cursor.take_claim_number(), first)
        skipped = tuple(offset - first for offset in picked.skipped)
        lease_until = self.now + request.lease
        claim = Claim(key, request.client, self.now, lease_until, size, tuple(messages), places, skipped)
        parked = [offset - first for offset in picked.parked]
        self._rows.append(_claim_row(claim, parked, tells=request.tells))
        return claim

    def _note_expired(
        self, cursor: CursorRow, expired: Sequence[int], others: Mapping[int, Outcome], client: str
    ) -> None:
        """Into the log goes what has expired with no message of a claim beside it, as an ended claim that held nothing;
        with what became of the others that lay between."""
        while expired:
            first = expired[0]
            some, expired = (
                [at for at in expired if at < first + WIDEST],
                [at for at in expired if at >= first + WIDEST],
            )
            size = some[-1] - first + 1
            outcome = bytearray([Outcome.EXPIRED]) * size
            for place in range(size):
                if (other := others.get(first + place)) is not None:
                    outcome[place] = other
            for offset in some:
                outcome[offset - first] = Outcome.EXPIRED
            named = (cursor.queue_id, cursor.take_claim_number(), secrets.randbits(63), client)
            claim = ClaimRow(*named, first, size, self.now, self.now, outcome, bytearray(8 * size))
            self._log.append(claim.log_row(self.locked.group.id, cursor.take_delivery_number(), self.now))

    def expect(self) -> Expected | None:
        """The queue of the topic with most left to claim, and where; None when the next turn has to find out."""
        cursors, ends = self.locked.cursors, self.locked.ends
        own = [queue for queue in self.locked.group.topic.queues if queue.id in cursors and queue.id in ends]
        if self.order is not None or not own:
            return None
        queue = max(own, key=lambda queue: ends[queue.id] - cursors[queue.id].position)
        if len(own) > 1 and ends[queue.id] == cursors[queue.id].position:
            return None
        return Expected(queue, cursors[queue.id].position, self.locked.undisturbed)


async def _take(reader: Stretch, end: int, size: int, most: int) -> list[tuple[int, Delivered]]:
    """So many messages, fewer past `most` bytes of them; reads on for those that are past their time."""
    until = min(max(reader.position + size, await reader.ahead()), end)
    found = await reader.take(until, most)
    while reader.position == until < end and len(found) < size and reader.has_passed:
        left = most - sum(len(message.body) for _, message in found)
        if left <= 0:
            break
        until = min(until + size - len(found), end)
        found += await reader.take(until, left)
    return found


async def _pick(
    reader: Stretch, found: Sequence[tuple[int, Delivered]], end: int, tags: frozenset[str], size: int
) -> Picked:
    """The messages of the tags asked for; reads on until they are as many as wished."""
    given: list[tuple[int, Delivered]] = []
    skipped: list[int] = []
    weight = 0
    while True:
        for offset, message in found:
            if message.tag not in tags:
                skipped.append(offset)
                continue
            given.append((offset, message))
            weight += len(message.body)
        if len(given) >= size or weight > CLAIM_BYTES or reader.position >= end:
            return Picked(given, skipped=skipped)
        found = await reader.take(min(reader.position + size - len(given), end))


def _claim_row(claim: Claim, parked: Iterable[int], *, tells: bool) -> Sequence[Value]:
    """Its row; what is neither in its places nor `parked` is past its time, or gone from the stream. `tells`: its
    client says which messages it begins."""
    outcome = bytearray([Outcome.EXPIRED]) * claim.size
    for place in parked:
        outcome[place] = Outcome.PARKED
    for place in claim.places.values():
        outcome[place] = Outcome.OPEN
    for place in claim.skipped:
        outcome[place] = Outcome.SKIPPED
    settled_at = bytearray(8 * claim.size)
    if tells and len(claim.places) == claim.size:
        settled_at = bytearray(UNBEGUN * claim.size)
    elif tells:
        for place in claim.places.values():
            settled_at[8 * place : 8 * place + 8] = UNBEGUN
    key = claim.key
    return (
        key.group_id,
        key.queue_id,
        key.number,
        key.token,
        encode(claim.client),
        key.first,
        claim.size,
        claim.claimed_at,
        claim.lease_until,
        bytes(outcome),
        bytes(settled_at),
    )

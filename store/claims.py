"""A turn of a consumer group: its waiting acks, fails, extensions, lost leases and claims in one transaction.

A claim is a range: claiming moves the group's cursor in a queue and writes one row, whatever the number of messages.
The locks go in the order that everybody keeps: claim rows by key, then the group's cursors. Nothing else is locked,
since the end of a queue is read plainly: an offset below a committed end is committed.

Failed messages leave their claim for `retry` or `dead` in the same transaction. A claim with no open message left moves
to `delivery`, under a number drawn under its cursor's lock, so that the log's numbers are in commit order.
"""

import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

import msgspec
from attrs import define, evolve, field

from .errors import GroupGone
from .ids import IdMaker, due_of, shard_of
from .locked_rows import ClaimRow, CursorRow
from .ports import Query, Row, Transaction, Value
from .records import (
    Claim,
    ClaimKey,
    ClaimRequest,
    Delivered,
    Group,
    Outcome,
    Queue,
    Settled,
    Settlement,
    Turn,
)
from .stretches import CLAIM_BYTES, PAGE, Page, Stretch
from .text import encode

_OPEN = bytes([Outcome.OPEN])
_REMEMBERED = 99
SCAN = 5_000
"""Messages that a turn looks at for their tags; it stops there, and is gone on with in the next turn."""
_TAGS_AT_ONCE = 500
_NO_END = 1 << 62
WIDEST = 1_000
"""Offsets of a claim at most; `tracing` looks no further back for one."""


@define
class Failure:
    """A message that leaves its claim; what lies behind it is read for all of a turn at once."""

    held: ClaimRow
    place: int
    answer: int
    settlement: Settlement
    at: int
    """When its rung begins."""
    lost: bool


@define
class Turning:
    """A turn; its transaction may be run more than once."""

    group: Group
    now: int
    ids: IdMaker
    spread: int = 0
    again: bool = False
    """The run before this one may have been committed: what it settled is taken as settled by us."""
    expected: tuple[int, int] | None = None
    """A queue of the topic and where the group is likely to be in it: read together with the locks."""
    nonce: int = field(factory=lambda: secrets.randbits(63))
    expects: tuple[int, int] | None = field(default=None, init=False)
    """The same for the next turn."""
    _ends: dict[int, int] = field(factory=dict[int, int], init=False)
    """Of the group's queues."""
    _page: Page | None = field(default=None, init=False)
    _touched: set[int] = field(factory=set[int])
    _scanned: int = 0
    """Messages looked at for their tags."""
    _cut: bool = False
    _taken: int = 0
    """Messages claimed."""
    _failures: list[Failure] = field(factory=list[Failure])
    _outside: list[tuple[ClaimRow, int]] = field(factory=list[tuple[ClaimRow, int]])
    """What was acked in users' own transactions and is counted by this turn, with its place in the claim."""
    _left: bool = False

    async def write(self, tx: Transaction, settlements: Sequence[Settlement], requests: Sequence[ClaimRequest]) -> Turn:
        """Settles first, then claims. `requests` share what there is, the first come first served."""
        self._touched.clear()
        self._failures.clear()
        self._scanned, self._cut, self._taken = 0, False, 0
        held, cursors = await self._lock(tx, settlements, requests)
        acked_before = sum(cursor.acked for cursor in cursors.values())
        missing = [s for s in settlements if _place(s.key) not in held]
        if missing:  # another turn may have held them; those are over now
            held |= _claim_rows(await tx.fetch_all(self._locks(missing)), missing)
        self._count_outside(held.values(), cursors)
        ended = await self._ended(tx, settlements, held)
        locked = await self._locked(tx, settlements, held, ended)
        await self._prepare(tx, settlements, held)
        answers = [self._settle(s, held, ended, cursors, index) for index, s in enumerate(settlements)]
        answers = [
            Settled(locked=True) if s.key in locked else answer for s, answer in zip(settlements, answers, strict=True)
        ]
        await self._fail(tx, cursors, answers)
        await self._write_back(tx, held.values(), cursors)
        room = await self._room(tx) if requests else None
        claims, more = await self._claim(tx, cursors, requests, room)
        for queue_id in sorted(self._touched):
            cursor = cursors[queue_id]
            await tx.later(
                "cursor.move",
                *(cursor.position, cursor.next_claim, cursor.next_delivery, cursor.acked, cursor.dead, cursor.retried),
                *(cursor.expired, cursor.skipped, cursor.parked, self.nonce, self.group.id, queue_id),
            )
        for index, settlement in enumerate(settlements):
            answer, row = answers[index], held.get(_place(settlement.key))
            if answer is not None and row is not None and row.ended:
                answers[index] = evolve(answer, ended=True)
        full = room is not None and self._taken >= room
        acked = sum(cursor.acked for cursor in cursors.values()) - acked_before
        return Turn(tuple(answers), tuple(claims), more, self._left, cut=self._cut, full=full, acked=acked)

    async def landed(self, tx: Transaction, _turn: Turn) -> bool:
        """Whether this run is in the database, after the answer to its COMMIT was lost."""
        self.again = True
        if not self._touched:
            return False  # extensions alone: to be repeated
        return bool(await tx.fetch("cursor.turn", self.group.id, min(self._touched), self.nonce))

    async def _lock(
        self, tx: Transaction, settlements: Sequence[Settlement], requests: Sequence[ClaimRequest]
    ) -> tuple[dict[tuple[int, int], ClaimRow], dict[int, CursorRow]]:
        """The claims and cursors, locked; and what is to be read for the claims behind these locks, in one flight."""
        queries = self._locks(settlements)
        queue_ids = sorted(self.group.queue_ids)
        queries.append(("cursor.lock", (self.group.id, queue_ids)))
        if requests:
            queries.append(("queue.ends", (queue_ids,)))
        limit = min(PAGE, sum(request.size for request in requests))
        if requests and self.expected is not None:
            queries.append(("message.range", (*self.expected, _NO_END, limit)))
        answers = await tx.fetch_all(queries)
        if requests and self.expected is not None:
            self._page = Page(*self.expected, limit, answers.pop())
        self._ends = dict(answers.pop()) if requests else {}
        cursors = {row[0]: CursorRow(*row) for row in answers.pop()}
        if not cursors:
            raise GroupGone("the group has been removed meanwhile")
        return _claim_rows(answers, settlements), cursors

    def _locks(self, settlements: Iterable[Settlement]) -> list[Query]:
        return [
            ("claim.lock", (self.group.id, queue_id, numbers)) for queue_id, numbers in _numbers(settlements).items()
        ]

    def _count_outside(self, held: Iterable[ClaimRow], cursors: Mapping[int, CursorRow]) -> None:
        """What users' own transactions have acked since is counted now: they must not lock a cursor."""
        self._outside.clear()
        for claim in held:
            outside = claim.outcome.count(Outcome.ACKED_OUTSIDE)
            if outside:
                self._outside += [(claim, i) for i, o in enumerate(claim.outcome) if o == Outcome.ACKED_OUTSIDE]
                claim.outcome = claim.outcome.replace(bytes([Outcome.ACKED_OUTSIDE]), bytes([Outcome.ACKED]))
                claim.changed = True
                cursors[claim.queue_id].tell(Outcome.ACKED, outside)
                self._touched.add(claim.queue_id)

    async def _locked(
        self,
        tx: Transaction,
        settlements: Iterable[Settlement],
        held: Mapping[tuple[int, int], ClaimRow],
        ended: Mapping[ClaimKey, bytes],
    ) -> set[ClaimKey]:
        """The claims that are there and could not be locked: a user's transaction is acking them."""
        missing = {s.key for s in settlements if _place(s.key) not in held and s.key not in ended}
        locked: set[ClaimKey] = set()
        for key in (key for key in missing if key.group_id == self.group.id):
            for row in await tx.fetch("claim.find", key.group_id, key.queue_id, key.number):
                if row[0] == key.token:
                    locked.add(key)
        return locked

    async def _ended(
        self, tx: Transaction, settlements: Sequence[Settlement], held: Mapping[tuple[int, int], ClaimRow]
    ) -> dict[ClaimKey, bytes]:
        """The outcomes of claims that have ended, for those who settle once more because an answer was lost."""
        ended: dict[ClaimKey, bytes] = {}
        for settlement in settlements:
            key = settlement.key
            if _place(key) not in held and key not in ended:
                for row in await tx.fetch("delivery.find", self.group.id, key.queue_id, key.first, key.number):
                    if row[0] == key.token:
                        ended[key] = row[3]
        return ended

    def _settle(
        self,
        settlement: Settlement,
        held: Mapping[tuple[int, int], ClaimRow],
        ended: Mapping[ClaimKey, bytes],
        cursors: Mapping[int, CursorRow],
        index: int,
    ) -> Settled | None:
        claim = held.get(_place(settlement.key))
        if claim is None or claim.token != settlement.key.token:
            outcome = ended.get(settlement.key)
            return None if outcome is None else self._settle_ended(settlement, outcome)
        if settlement.verb == "end":
            return self._end(settlement, claim, index)
        if claim.lease_until <= self.now:
            return Settled(lost=True)
        if settlement.verb == "extend":
            claim.lease_until = self.now + settlement.lease
            claim.changed = True
            return Settled(lease_until=claim.lease_until)
        if settlement.verb == "ack":
            return self._ack(settlement, claim, cursors[claim.queue_id])
        return self._give_back(settlement, claim, index)

    def _settle_ended(self, settlement: Settlement, outcome: bytes) -> Settled:
        places = settlement.places
        if settlement.verb == "ack":
            if places is None and any(o in outcome for o in (Outcome.LOST, Outcome.LOST_DEAD, Outcome.RELEASED)):
                return Settled(lost=True, ended=True)
            acked = outcome.count(Outcome.ACKED) if places is None else len(places)
            if acked and all(outcome[place] == Outcome.ACKED for place in places or ()):
                return Settled(acked=acked, ended=True)
        if settlement.verb == "fail" and self.again and places is not None:
            return _repeated(outcome, places)
        return Settled(lost=True, ended=True)

    def _ack(self, settlement: Settlement, claim: ClaimRow, cursor: CursorRow) -> Settled:
        if settlement.places is None and bytes(claim.outcome) == _OPEN * claim.size:
            claim.settle_all(Outcome.ACKED, self.now)
            cursor.tell(Outcome.ACKED, claim.size)
            self._touched.add(claim.queue_id)
            return Settled(acked=claim.size)
        places = settlement.places
        if places is None:
            places = tuple(i for i, o in enumerate(claim.outcome) if o in (Outcome.OPEN, Outcome.ACKED))
        if any(claim.outcome[place] not in (Outcome.OPEN, Outcome.ACKED) for place in places):
            return Settled(lost=True)
        for place in places:
            if claim.outcome[place] == Outcome.OPEN:
                claim.settle(place, Outcome.ACKED, self.now)
                cursor.tell(Outcome.ACKED)
                self._touched.add(claim.queue_id)
        return Settled(acked=len(places))

    def _give_back(self, settlement: Settlement, claim: ClaimRow, index: int) -> Settled:
        if settlement.places is None:
            places = tuple(i for i, o in enumerate(claim.outcome) if o == Outcome.OPEN)
        else:
            places = tuple(dict.fromkeys(settlement.places))  # named twice, it goes onto its rung once
        if any(claim.outcome[place] != Outcome.OPEN for place in places):
            return _repeated(claim.outcome, places) if self.again else Settled(lost=True)
        return Settled(retried=self._send_back(Failure(claim, 0, index, settlement, self.now, lost=False), places))

    def _end(self, settlement: Settlement, claim: ClaimRow, index: int) -> Settled:
        """The lease is over: what is open goes to the ladder, its rung counted from the lease's end."""
        if claim.lease_until > self.now and not settlement.at_once:
            return Settled(lease_until=claim.lease_until)  # extended meanwhile
        at = min(claim.lease_until, self.now)
        places = [place for place, outcome in enumerate(claim.outcome) if outcome == Outcome.OPEN]
        self._send_back(Failure(claim, 0, index, settlement, at, lost=True), places)
        return Settled(lost=True)

    # What an ordered topic does otherwise

    async def _prepare(
        self, tx: Transaction, settlements: Sequence[Settlement], held: Mapping[tuple[int, int], ClaimRow]
    ) -> None:
        """Reads what is needed to settle."""

    def _send_back(self, failure: Failure, places: Sequence[int]) -> int:
        """Open messages leave their claim for the ladder; how many go elsewhere, though they were named."""
        for place in places:
            failure.held.settle(place, Outcome.LOST if failure.lost else Outcome.RETRIED, self.now)
            self._failures.append(evolve(failure, place=place))
        return 0

    def _rest(self, attempt: int) -> int | None:
        """The rung after a failed attempt; None: the ladder is exhausted."""
        return self.group.ladder.rung(attempt)

    def _went(self, failure: Failure, outcome: Outcome) -> None:
        """Hears where a message went."""

    async def _fail(self, tx: Transaction, cursors: Mapping[int, CursorRow], answers: list[Settled | None]) -> None:
        """Puts each failed message on its next rung, or with the dead letters after the last."""
        retries: list[Sequence[Value]] = []
        sources = await self._sources(tx, self._failures)
        for failure in self._failures:
            offset = failure.held.first + failure.place
            source = sources.get((failure.held.queue_id, offset))
            if source is None:
                failure.held.settle(failure.place, Outcome.EXPIRED, self.now)
                cursors[failure.held.queue_id].tell(Outcome.EXPIRED)
                self._went(failure, Outcome.EXPIRED)
                self._touched.add(failure.held.queue_id)
                continue
            return_queue, message_queue, message_offset, message_id, attempt, history = source
            settlement = failure.settlement
            reason = "lease lost" if failure.lost else settlement.reason
            if settlement.count:
                entry = {"at": failure.at, "client": failure.held.client, "reason": reason}
                before = msgspec.json.decode(history)
                # A message that blocks its key may fail for ever: it keeps its first failures and the last.
                before = before[: max(len(self.group.ladder.rungs), _REMEMBERED)] if self.group.block else before
                history = msgspec.json.encode([*before, entry])
            wait = self._rest(attempt)
            outcome = Outcome.LOST if failure.lost else Outcome.RETRIED
            if not settlement.count:
                outcome = Outcome.SUSPENDED
                wait = self.group.ladder.rungs[-1] if wait is None and self.group.ladder.rungs else wait or 0
            answer = answers[failure.answer] or Settled()
            if wait is None:
                outcome = Outcome.LOST_DEAD if failure.lost else Outcome.DEAD
                cleared = await tx.execute("dead.remove", self.group.id, message_id)
                copied = await tx.execute("dead.add", self.group.id, self.now, history, message_queue, message_offset)
                if not copied:  # retention took it in this very moment
                    outcome = Outcome.EXPIRED
                if cleared:
                    await tx.execute("cursor.cleared", 1, self.group.id, failure.held.queue_id)
                answer = evolve(answer, dead=answer.dead + copied)
            else:
                if settlement.retry_after is not None:
                    wait = settlement.retry_after
                elif self.group.ladder.jitter:
                    wait += secrets.randbelow(self.group.ladder.longest(wait) - wait + 1)
                due = failure.at + wait
                id_ = self.ids.make(due, spread=self.spread)
                timer = (due_of(id_), ~id_)
                retries.append(
                    (
                        *(shard_of(id_), id_, self.group.id, return_queue, message_queue, message_offset, message_id),
                        *(attempt + settlement.count, history, failure.at),
                    )
                )
                answer = evolve(answer, retried=answer.retried + 1, timers=(*answer.timers, timer))
            answers[failure.answer] = answer
            failure.held.settle(failure.place, outcome, self.now)
            cursors[failure.held.queue_id].tell(outcome)
            self._went(failure, outcome)
            self._touched.add(failure.held.queue_id)
        if retries:
            await tx.later_many("retry.add", retries)

    async def _sources(self, tx: Transaction, failures: Iterable[Failure]) -> dict[tuple[int, int], Row]:
        """(return queue, message's queue, offset, id, attempt, history) of each of these messages, by its place."""
        places: dict[int, list[int]] = defaultdict(list)
        for failure in failures:
            places[failure.held.queue_id].append(failure.held.first + failure.place)
        retry_queues = {queue.id for queue in self.group.retry_queues.values()}
        sources: dict[tuple[int, int], Row] = {}
        for queue_id, offsets in places.items():
            if queue_id in retry_queues:
                for offset, *source in await tx.fetch("redelivery.sources", queue_id, offsets):
                    sources[queue_id, offset] = (queue_id, *source)
            else:
                back = self.group.retry_queues[queue_id].id
                rows = await tx.fetch("message.ids", queue_id, min(offsets), max(offsets) + 1)
                for offset, id_ in rows:
                    sources[queue_id, offset] = (back, queue_id, offset, id_, 1, b"[]")
        return sources

    async def _write_back(self, tx: Transaction, held: Iterable[ClaimRow], cursors: Mapping[int, CursorRow]) -> None:
        ended: dict[int, list[int]] = defaultdict(list)
        log: list[Sequence[Value]] = []
        for claim in held:
            if not claim.changed:
                continue
            if claim.ended:
                ended[claim.queue_id].append(claim.number)
                number = cursors[claim.queue_id].take_delivery_number()
                self._touched.add(claim.queue_id)
                log.append(log_row(self.group, claim, number, self.now))
                continue
            place = (self.group.id, claim.queue_id, claim.number)
            await tx.later("claim.change", claim.lease_until, bytes(claim.outcome), bytes(claim.settled_at), *place)
        if log:
            await tx.later_many("delivery.add", log)
        for queue_id, numbers in ended.items():
            await tx.later("claim.remove", self.group.id, queue_id, numbers)

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
        return claims, any(cursor.position < self._ends[queue_id] for queue_id, cursor in cursors.items())

    def _expect(self, cursors: Mapping[int, CursorRow]) -> tuple[int, int] | None:
        """The queue of the topic with most left to claim, and where; None when the next turn has to find out."""
        own = [queue.id for queue in self.group.topic.queues]
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


def log_row(group: Group, claim: ClaimRow, number: int, now: int) -> Sequence[Value]:
    """The row of `delivery` for a claim that ended."""
    return (
        *(group.id, claim.queue_id, number, claim.number, claim.token, encode(claim.client)),
        *(claim.first, claim.size, claim.claimed_at, now),
        *(bytes(claim.outcome), bytes(claim.settled_at)),
    )


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


def _numbers(settlements: Iterable[Settlement]) -> dict[int, list[int]]:
    """The numbers of the claims by queue, in the order in which they are locked."""
    numbers: dict[int, list[int]] = defaultdict(list)
    for queue_id, number in sorted({_place(s.key) for s in settlements}):
        numbers[queue_id].append(number)
    return numbers


def _claim_rows(answers: Iterable[list[Row]], settlements: Iterable[Settlement]) -> dict[tuple[int, int], ClaimRow]:
    """What was locked of the claims, by queue and number."""
    held: dict[tuple[int, int], ClaimRow] = {}
    for queue_id, rows in zip(_numbers(settlements), answers, strict=True):
        for number, token, client, first, size, claimed_at, lease_until, outcome, settled_at in rows:
            held[queue_id, number] = ClaimRow(
                *(queue_id, number, token, client.decode(), first, size, claimed_at, lease_until),
                *(bytearray(outcome), bytearray(settled_at)),
            )
    return held


def _place(key: ClaimKey) -> tuple[int, int]:
    return key.queue_id, key.number


def _repeated(outcome: Sequence[int], places: Sequence[int]) -> Settled:
    """The answer to a fail that had been carried out before its answer was lost."""
    told = [Outcome(outcome[place]) for place in places]
    if any(o not in (Outcome.RETRIED, Outcome.DEAD, Outcome.SUSPENDED, Outcome.PARKED) for o in told):
        return Settled(lost=True)
    dead = sum(1 for o in told if o == Outcome.DEAD)
    return Settled(retried=len(told) - dead, dead=dead)

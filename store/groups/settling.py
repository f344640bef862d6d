"""What a turn settles: acks, fails, extensions and lost leases, on the claims and cursors that it holds locked.

The locks go in the order that everybody keeps: claim rows by key, then the group's cursors. Failed messages leave their
claim for `retry` or `dead`. A claim with no open message left moves to `delivery`, under a number drawn under its
cursor's lock, so that the log's numbers are in commit order.
"""

import secrets
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
from attrs import define, evolve, field

from ..errors import GroupGone, Locked
from ..ids import IdMaker, due_of, shard_of
from ..ports import Query, Row, Transaction, Value
from ..records import ClaimKey, ClaimRequest, Group, Outcome, Settled, Settlement
from ..stream.stretches import PAGE, Page
from ..text import encode
from .claim_ids import RANGES
from .locked_rows import ClaimRow, CursorRow

_OPEN = bytes([Outcome.OPEN])
_TAKEN_BACK = (Outcome.LOST, Outcome.LOST_DEAD, Outcome.RELEASED)
_REMEMBERED = 99
MANY = 64
"""Queues of a group, its retry queues included, that a turn locks anyway; of more it looks first which it needs."""
_NEEDED = 16
"""Queues that it takes then at least: those of other tags may be passed."""
_NO_END = 1 << 62


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
class Settling:
    """The half of a turn that settles."""

    group: Group
    now: int
    ids: IdMaker
    spread: int = 0
    expected: tuple[int, int] | None = None
    """A queue of the topic and where the group is likely to be in it: read together with the locks."""
    free: bool = False
    """Whether nobody is waited for who works on the group: `Locked`, at once."""
    _ends: dict[int, int] = field(factory=dict[int, int], init=False)
    """Of the group's queues."""
    _more_behind: bool = field(default=False, init=False)
    """There may be queues with something to claim beside those that are locked."""
    _page: Page | None = field(default=None, init=False)
    _touched: set[int] = field(factory=set[int], init=False)
    """Queues whose cursors have changed."""
    _failures: list[Failure] = field(factory=list[Failure], init=False)
    _outside: list[tuple[ClaimRow, int]] = field(factory=list[tuple[ClaimRow, int]], init=False)
    """What was acked in users' own transactions and is counted by this turn, with its place in the claim."""

    async def _lock(
        self, tx: Transaction, settlements: Sequence[Settlement], requests: Sequence[ClaimRequest]
    ) -> tuple[dict[tuple[int, int], ClaimRow], dict[int, CursorRow]]:
        """The claims and cursors, locked; and what is to be read for the claims behind these locks, in one flight."""
        queue_ids = await self._choose_queues(tx, settlements, requests)
        queries = self._locks(settlements)
        queries.append(("cursor.free" if self.free else "cursor.lock", (self.group.id, queue_ids)))
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
        if self.free and len(cursors) < len(queue_ids):
            there = await tx.fetch("cursor.there", self.group.id, queue_ids)
            if len(there) > len(cursors):
                raise Locked("another transaction is working on this group")
        if not cursors:
            raise GroupGone("the group has been removed meanwhile")
        return _claim_rows(answers, settlements), cursors

    async def _choose_queues(
        self, tx: Transaction, settlements: Sequence[Settlement], requests: Sequence[ClaimRequest]
    ) -> list[int]:
        """The queues whose cursors the turn locks: all, or of very many those that it has to do with.

        The first of them is always among these: whoever takes a turn of the group, or looks whether it is still there,
        locks that one. On an ordered topic a turn shares out all queues.
        """
        every = self.group.queue_ids
        if len(every) <= MANY or self.group.topic.ordered:
            return sorted(every)
        chosen = {min(every), *(settlement.key.queue_id for settlement in settlements)}
        if requests:
            most = max(_NEEDED, len(requests), min(RANGES, sum(request.size for request in requests)))
            behind = [row[0] for row in await tx.fetch("cursor.behind", self.group.id, most + 1)]
            self._more_behind = len(behind) > most
            chosen.update(behind[:most])
            self.expected = self.expected if self.expected is not None and self.expected[0] in chosen else None
        return sorted(chosen.intersection(every))

    async def _settle_all(
        self,
        tx: Transaction,
        settlements: Sequence[Settlement],
        held: dict[tuple[int, int], ClaimRow],
        cursors: Mapping[int, CursorRow],
    ) -> list[Settled | None]:
        """An answer to each. The cursors are changed in memory only."""
        parts = in_ranges(settlements)
        missing = [part for part in parts if _place(part.key) not in held]
        if missing:  # another turn may have held them; those are over now
            held |= _claim_rows(await tx.fetch_all(self._locks(missing)), missing)
        self._count_outside(held.values(), cursors)
        ended = await self._ended(tx, parts, held)
        locked = await self._locked(tx, parts, held, ended)
        await self._prepare(tx, parts, held)
        answers: list[Settled | None] = []
        for settlement in settlements:
            refusal = self._refusal(settlement, held, ended, locked)
            for part in settlement.ranges:
                answers.append(refusal or self._settle(part, held, ended, cursors, len(answers)))
        await self._fail(tx, cursors, answers)
        await self._write_back(tx, held.values(), cursors)
        for index, part in enumerate(parts):
            answer, row = answers[index], held.get(_place(part.key))
            if answer is not None and row is not None and row.ended:
                answers[index] = evolve(answer, ended=True)
        own = iter(answers)
        return [_as_one([next(own) for _ in settlement.ranges]) for settlement in settlements]

    def _refusal(
        self,
        settlement: Settlement,
        held: Mapping[tuple[int, int], ClaimRow],
        ended: Mapping[ClaimKey, bytes],
        locked: Collection[ClaimKey],
    ) -> Settled | None:
        """Why nothing of it may be done: a user's transaction is acking of one of its ranges, or one is lost."""
        if any(part.key in locked for part in settlement.ranges):
            return Settled(locked=True)
        if settlement.others and any(self._is_lost(part, held, ended) for part in settlement.ranges):
            return Settled(lost=True)
        return None

    def _is_lost(
        self, part: Settlement, held: Mapping[tuple[int, int], ClaimRow], ended: Mapping[ClaimKey, bytes]
    ) -> bool:
        """Whether this cannot be done, because it is not in those hands any more; `_settle` says the same of it."""
        claim = held.get(_place(part.key))
        if claim is None or claim.token != part.key.token:
            outcome = ended.get(part.key)
            if outcome is None:
                return False
            # What has ended without a loss was settled before: nothing of it is open, and nothing is to be done.
            return (
                any(o in outcome for o in _TAKEN_BACK)
                if part.places is None
                else self._settle_ended(part, outcome).lost
            )
        settled = (Outcome.OPEN, Outcome.ACKED) if part.verb == "ack" else (Outcome.OPEN,)
        return claim.lease_until <= self.now or any(claim.outcome[place] not in settled for place in part.places or ())

    def _locks(self, settlements: Iterable[Settlement]) -> list[Query]:
        return [
            ("claim.lock", (self.group.id, queue_id, numbers)) for queue_id, numbers in _numbers(settlements).items()
        ]

    def _count_outside(self, held: Iterable[ClaimRow], cursors: Mapping[int, CursorRow]) -> None:
        """What users' own transactions have acked since is counted now: they must not lock a cursor."""
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
        if settlement.verb == "end":
            return Settled(ended=True)  # it was settled at another coordinator, or before a restart: nothing is lost
        places = settlement.places
        if settlement.verb == "ack":
            if places is None and any(o in outcome for o in _TAKEN_BACK):
                return Settled(lost=True, ended=True)
            acked = outcome.count(Outcome.ACKED) if places is None else len(places)
            if acked and all(outcome[place] == Outcome.ACKED for place in places or ()):
                return Settled(acked=acked, ended=True)
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
            return Settled(lost=True)
        return Settled(retried=self._send_back(Failure(claim, 0, index, settlement, self.now, lost=False), places))

    def _end(self, settlement: Settlement, claim: ClaimRow, index: int) -> Settled:
        """The lease is over: what is open goes to the ladder, its rung counted from the lease's end."""
        if claim.lease_until > self.now and not settlement.at_once:
            return Settled(lease_until=claim.lease_until)  # extended meanwhile
        at = min(claim.lease_until, self.now)
        places = [place for place, outcome in enumerate(claim.outcome) if outcome == Outcome.OPEN]
        self._send_back(Failure(claim, 0, index, settlement, at, lost=True), places)
        # A claim whose messages were all acked outside, in users' transactions, only ends here: nothing is lost.
        return Settled(lost=bool(places))

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


def log_row(group: Group, claim: ClaimRow, number: int, now: int) -> Sequence[Value]:
    """The row of `delivery` for a claim that ended."""
    return (
        *(group.id, claim.queue_id, number, claim.number, claim.token, encode(claim.client)),
        *(claim.first, claim.size, claim.claimed_at, now),
        *(bytes(claim.outcome), bytes(claim.settled_at)),
    )


def in_ranges(settlements: Iterable[Settlement]) -> list[Settlement]:
    """Of each range by itself."""
    return [part for settlement in settlements for part in settlement.ranges]


def _as_one(answers: Sequence[Settled | None]) -> Settled | None:
    """The answer for a claim, from those for its ranges; None when the store knows none of them."""
    known = [answer for answer in answers if answer is not None]
    # One range that was all settled before has nothing to fail or extend: that is no loss while there is another.
    told = [answer for answer in known if not answer.lost] or known[:1]
    if len(told) < 2 and len(known) == len(told):
        return told[0] if told else None
    return Settled(
        acked=sum(answer.acked for answer in told),
        retried=sum(answer.retried for answer in told),
        dead=sum(answer.dead for answer in told),
        lost=told[0].lost,
        lease_until=min((answer.lease_until for answer in told if answer.lease_until), default=0),
        ended=all(answer.ended for answer in known),
        timers=tuple(timer for answer in told for timer in answer.timers),
        locked=told[0].locked,
    )


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
        for _, number, token, client, first, size, claimed_at, lease_until, outcome, settled_at in rows:
            held[queue_id, number] = ClaimRow(
                *(queue_id, number, token, client.decode(), first, size, claimed_at, lease_until),
                *(bytearray(outcome), bytearray(settled_at)),
            )
    return held


def _place(key: ClaimKey) -> tuple[int, int]:
    return key.queue_id, key.number

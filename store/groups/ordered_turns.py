"""A turn of a group on an ordered topic: per key, no message is handed out while an earlier one is unsettled elsewhere.

A queue and its retry queue belong to one client, and one claim of the two is open at a time. In a claim a key may have
several messages, in order. When one of them goes back, those behind it leave the claim with it (see `chains`).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from attrs import define, field, frozen

from ..ports import Transaction, Value
from ..records import Claim, ClaimRequest, Delivered, Outcome, Queue, Settled, Settlement
from ..stream.stretches import PAGE, Stretch
from .chains import Chains
from .claims import Turning, claim_row
from .gathering import Gathering, next_to_serve
from .locked_rows import ClaimRow, CursorRow
from .owners import Owners
from .settling import Failure

_PARKED = 5000
"""Messages that a turn parks on its way to what may be handed out; then others have theirs."""
_LAST_REST = 1000
"""Milliseconds between the tries of a message that blocks its key, when the ladder has no rung."""


@frozen
class _Member:
    """A message of a claim: its key, and its offset in the topic's own queue."""

    ordering_key: bytes
    offset: int


@define
class OrderedTurning(Turning):
    """A `Turning` for ordered topics."""

    present: Collection[str] = ()
    """The clients among which the queues are shared, beside those that ask and those that hold claims."""
    _chains: Chains = field(init=False)
    _members: dict[int, dict[int, _Member]] = field(factory=dict[int, dict[int, _Member]])
    """By the queue of a claim that is settled, then by offset there."""
    _behind: list[Failure] = field(factory=list[Failure])
    """What leaves its claim behind one that failed."""
    _released: bool = False
    _at_hand: int = 0

    def _own(self, queue_id: int) -> int:
        """The topic's queue beside which a retry queue stands; its own id of any other."""
        return next((own for own, back in self.group.retry_queues.items() if back.id == queue_id), queue_id)

    # Settling

    async def _prepare(
        self, tx: Transaction, settlements: Sequence[Settlement], held: Mapping[tuple[int, int], ClaimRow]
    ) -> None:
        self._chains = Chains(self.group, self.now)
        self._members = defaultdict(dict)
        giving_back = {(s.key.queue_id, s.key.number) for s in settlements if s.verb in ("fail", "end")}
        for place, claim in held.items():
            own = self._own(claim.queue_id)
            if own == claim.queue_id and place not in giving_back:
                continue  # of an ack in the topic's own queue no chain needs to hear
            query = "message.members" if own == claim.queue_id else "redelivery.members"
            for offset, source, id_, key in await tx.fetch(
                query, claim.queue_id, claim.first, claim.first + claim.size
            ):
                if id_ is not None:
                    self._members[claim.queue_id][offset] = _Member(key or b"", source)
            members = self._members[claim.queue_id].values()
            await self._chains.load(tx, own, {member.ordering_key for member in members})
        for claim, at in self._outside:
            member = self._member(claim, at)
            if member is not None and (own := self._own(claim.queue_id)) != claim.queue_id:
                self._chains.come(own, member.ordering_key, member.offset)

    def _member(self, claim: ClaimRow, place: int) -> _Member | None:
        return self._members[claim.queue_id].get(claim.first + place)

    def _ack(self, settlement: Settlement, claim: ClaimRow, cursor: CursorRow) -> Settled:
        before = bytes(claim.outcome)
        settled = super()._ack(settlement, claim, cursor)
        own = self._own(claim.queue_id)
        if own != claim.queue_id:
            for place, outcome in enumerate(before):
                member = self._member(claim, place)
                if member is not None and outcome == Outcome.OPEN and claim.outcome[place] == Outcome.ACKED:
                    self._chains.come(own, member.ordering_key, member.offset)
        return settled

    def _send_back(self, failure: Failure, places: Sequence[int]) -> int:
        """The first of each key onto the ladder, all behind it to be parked; how many of these were named."""
        claim = failure.held
        keys: dict[int, bytes | int] = {}  # a message that is gone from the stream is alone
        for place in range(claim.size):
            member = self._member(claim, place)
            keys[place] = place if member is None else member.ordering_key
        heads: dict[bytes | int, int] = {}
        for place in sorted(places):
            heads.setdefault(keys[place], place)
        parked: set[int] = set()
        for place, outcome in enumerate(claim.outcome):
            if outcome == Outcome.OPEN and heads.get(keys[place], claim.size) < place:
                claim.settle(place, Outcome.PARKED, self.now)
                self._behind.append(Failure(claim, place, failure.answer, failure.settlement, failure.at, failure.lost))
                parked.add(place)
        super()._send_back(failure, sorted(heads.values()))
        return len(parked.intersection(places))

    def _rest(self, attempt: int) -> int | None:
        rung = super()._rest(attempt)
        if rung is None and self.group.block:
            return self.group.ladder.rungs[-1] if self.group.ladder.rungs else _LAST_REST
        return rung

    def _went(self, failure: Failure, outcome: Outcome) -> None:
        member = self._member(failure.held, failure.place)
        if member is None:
            return
        place = (self._own(failure.held.queue_id), member.ordering_key, member.offset)
        if outcome in (Outcome.RETRIED, Outcome.LOST, Outcome.SUSPENDED):
            self._chains.go(*place)
        else:
            self._chains.come(*place)

    async def _fail(self, tx: Transaction, cursors: Mapping[int, CursorRow], answers: list[Settled | None]) -> None:
        await super()._fail(tx, cursors, answers)
        sources = await self._sources(tx, self._behind)
        for one in self._behind:
            claim, member = one.held, self._member(one.held, one.place)
            source = sources.get((claim.queue_id, claim.first + one.place))
            outcome = Outcome.PARKED
            if source is None or member is None:
                outcome = Outcome.EXPIRED
                self._went(one, outcome)
            else:
                self._chains.park(self._own(claim.queue_id), member.ordering_key, *source[2:])
            claim.settle(one.place, outcome, self.now)
            cursors[claim.queue_id].tell(outcome)
            self._touched.add(claim.queue_id)
        self._released = await self._chains.write(tx)

    # Claiming

    async def _claim(
        self, tx: Transaction, cursors: Mapping[int, CursorRow], requests: Sequence[ClaimRequest], room: int | None
    ) -> tuple[list[Claim | None], bool]:
        if not requests:
            return [], bool(self._touched) or self._released  # a queue may be free now
        busy = {
            self._own(queue_id): client.decode() for queue_id, client in await tx.fetch("claim.holders", self.group.id)
        }
        members = {*self.present, *(request.client for request in requests), *busy.values()}
        owners = await (await Owners.lock(tx, self.group)).share(tx, busy, members, self.now)
        ends = self._ends
        gatherings = [Gathering(request) for request in requests]
        rows: list[Sequence[Value]] = []
        self._at_hand = _PARKED
        for queue_id in self._by_need(cursors, ends):
            own, returned = self._own(queue_id), self._is_return(queue_id)
            of_owner = [gathering for gathering in gatherings if gathering.request.client == owners.get(own)]
            gathering = next_to_serve(of_owner, queue_id, returned=returned)
            if gathering is None:
                continue
            if room is not None and self._taken >= room:
                break
            size = gathering.room if room is None else min(gathering.room, room - self._taken)
            claim, parked = await self._claim_queue(tx, cursors[queue_id], ends[queue_id], gathering, size)
            if claim is not None:
                self._taken += len(claim.messages)
                gathering.add(claim, returned=returned)
                rows.append(claim_row(claim, parked))
                del owners[own]  # one open claim of a queue and its retry queue
        if rows:
            await tx.later_many("claim.add", rows)
        released = await self._chains.write(tx)
        self._cut |= released  # what was skipped may have let through what is wanted
        self._left = any(cursor.position < ends[queue_id] for queue_id, cursor in cursors.items())
        return [gathering.claim for gathering in gatherings], released or self._at_hand <= 0

    async def _claim_queue(
        self, tx: Transaction, cursor: CursorRow, end: int, gathering: Gathering, most: int
    ) -> tuple[Claim | None, Iterable[int]]:
        """A claim of the next range in which something may be handed out; ranges without are parked on the way."""
        queue, query = self._stretch(cursor.queue_id)
        request = gathering.request
        reader = Stretch(tx, queue, query, cursor.position, end, min(PAGE, most))
        while cursor.position < end and self._at_hand > 0:
            first = cursor.position
            read = await reader.take(min(first + most, end), gathering.bytes_left)
            cursor.position = reader.position
            size = cursor.position - first
            self._touched.add(cursor.queue_id)
            given, parked, skipped = await self._choose(tx, queue, read, request.tags)
            gone = set(range(first, cursor.position)).difference(offset for offset, _ in read)
            if gone and self._own(queue.id) != queue.id:
                sources = await tx.fetch("redelivery.sources", queue.id, sorted(gone))
                await self._chains.forget(tx, self._own(queue.id), {row[2] for row in sources})
            cursor.expired += len(gone)
            cursor.parked += len(parked)
            cursor.tell(Outcome.SKIPPED, len(skipped))
            self._at_hand -= len(parked) + len(skipped)
            if given:
                key = gathering.key(self.group.id, queue.id, cursor.take_claim_number(), first)
                places = {message.id: offset - first for offset, message in given}
                claim = Claim(
                    *(key, request.client, self.now, self.now + request.lease, size),
                    *(tuple(message for _, message in given), places, tuple(offset - first for offset in skipped)),
                )
                return claim, [offset - first for offset in parked]
        self._cut |= request.tags is not None and cursor.position < end
        return None, ()

    async def _choose(
        self, tx: Transaction, queue: Queue, read: Sequence[tuple[int, Delivered]], tags: frozenset[str] | None
    ) -> tuple[list[tuple[int, Delivered]], list[int], list[int]]:
        """What of a stretch may be handed out; the offsets here of what is parked, and of what has other tags.

        Those are settled for the group where they are met, so their key never waits for them: in the topic's own queue
        they are not parked, and one that comes back, or was parked for another's sake, lets its key go on.
        """
        own = self._own(queue.id)
        keys = {offset: (message.ordering_key or "").encode() for offset, message in read}
        await self._chains.load(tx, own, keys.values())
        given: list[tuple[int, Delivered]] = []
        parked: list[int] = []
        skipped: list[int] = []
        back: set[tuple[bytes, int]] = set()
        for offset, message in read:
            key = keys[offset]
            if tags is not None and message.tag not in tags:
                skipped.append(offset)
                if own != queue.id:
                    self._chains.come(own, key, message.offset)
                continue
            if own == queue.id:
                free = self._chains.find(own, key) is None
            else:
                free = await self._may_return(tx, own, key, message.offset, back)
            if free:
                given.append((offset, message))
                back.add((key, message.offset))
            elif own == queue.id:
                parked.append(offset)
                self._chains.park(own, key, message.offset, message.id, 1, b"[]")
            else:
                parked.append(offset)
                ((_, _, source, id_, attempt, history),) = await tx.fetch("redelivery.sources", queue.id, [offset])
                self._chains.park(own, key, source, id_, attempt, history)
        return given, parked, skipped

    async def _may_return(
        self, tx: Transaction, own: int, key: bytes, offset: int, with_it: Collection[tuple[bytes, int]]
    ) -> bool:
        """Whether all of its key that lies before a message that came back is settled, or in the same claim."""
        self._chains.go(own, key, offset)  # one that was redriven had no chain
        chain = self._chains.find(own, key)
        away = chain.away if chain is not None else set[int]()
        if any(other < offset and (key, other) not in with_it for other in away):
            return False
        return await self._chains.first_parked(tx, own, key) > offset

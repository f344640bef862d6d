"""A model of the store in dictionaries: applies each operation to the store and to the model, and compares the results.

It awaits nothing but the store: over a store that never suspends it can be driven step by step.
"""

from collections.abc import Sequence, Set
from typing import Any, Literal

import attrs

from support.letters import dead_letters_of
from support.stores import START
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.groups import holdings
from tarry.store.groups.locked_rows import ClaimRow
from tarry.store.history import since_redrive
from tarry.store.ids import SHARDS, due_of, shard_of
from tarry.store.looking import group_counts
from tarry.store.looking.group_counts import GroupCounts
from tarry.store.operating import redriving
from tarry.store.operating.redriving import Letters
from tarry.store.operating.replaying import Range
from tarry.store.ports import Transaction
from tarry.store.records import (
    Claim,
    ClaimRequest,
    Conflict,
    Delivered,
    Draft,
    Group,
    Outcome,
    Promoted,
    Publication,
    Queue,
    Settled,
    Settlement,
    Topic,
    Turn,
    Verdict,
)
from tarry.store.rows import CursorState, Resting
from tarry.store.store import Store
from tarry.store.stream import stretches
from tarry.store.stream.placing import own_queues
from tarry.store.stream.positions import Position
from tarry.store.timers import timers
from tarry.store.timers.timers import Scan
from tarry.wheel.ladder import Ladder

LADDER = Ladder((10_000, 30_000, 60_000))


@attrs.define
class Message:
    """A message and where it is."""

    id: int
    queue_id: int
    body: bytes
    accepted_at: int
    deliver_at: int
    due: int
    draft: Draft
    state: str = "waiting"
    offset: int = -1


@attrs.define
class Hop:
    """An entry of a queue, as a group sees it."""

    message: Message
    attempt: int = 1
    history: tuple[tuple[int, str, str | None], ...] = ()
    """(at, client, reason) of each counted failure."""


@attrs.define
class Held:
    """A claim, open or ended, as the model sees it."""

    claim: Claim
    hops: list[Hop]
    lease_until: int
    outcomes: list[Outcome]

    @property
    def ended(self) -> bool:
        return Outcome.OPEN not in self.outcomes


@attrs.define
class Hand:
    """The state of a group."""

    group: Group
    positions: dict[int, int]
    backs: dict[int, list[Hop]]
    """Entries that came back, by retry queue."""
    retries: dict[int, tuple[int, Hop]] = attrs.field(factory=dict[int, tuple[int, Hop]])
    """(retry queue, hop) by retry id."""
    dead: dict[int, Hop] = attrs.field(factory=dict[int, Hop])
    held: list[Held] = attrs.field(factory=list[Held])
    acked: int = 0
    deaths: int = 0
    retried: int = 0
    redriven: int = 0
    purged: list[int] = attrs.field(factory=list[int])
    sought: bool = False
    """Whether an operator moved the cursor; from then on a message may be in several places, or skipped."""


@attrs.define
class Oracle:
    store: Store
    topic: Topic
    hands: list[Hand]
    now: int = START
    messages: dict[int, Message] = attrs.field(factory=dict[int, Message])
    streams: dict[int, list[Hop]] = attrs.field(factory=dict[int, list[Hop]])
    others: Sequence[Store] = ()
    """Stores of other nodes; turns are taken at all of them, one after another."""
    turns: int = 0

    @classmethod
    async def begin(cls, store: Store, queues: int = 2, groups: Sequence[str] = ("a", "b")) -> "Oracle":
        topic = await store.write(catalogue.add_topic, TopicDraft("orders", queues=queues, ladder=LADDER), START)
        hands: list[Hand] = []
        for name in groups:
            group = await store.add_group(topic, name, START)
            assert group.ladder == LADDER
            backs: dict[int, list[Hop]] = {queue.id: [] for queue in group.retry_queues}
            hands.append(Hand(group, dict.fromkeys(group.queue_ids, 0), backs))
        oracle = cls(store, topic, hands)
        oracle.streams = {queue.id: [] for queue in topic.queues}
        return oracle

    # Operations.

    async def publish(self, delays: Sequence[int], queue: int = 0) -> None:
        place = self.topic.queues[queue % len(self.topic.queues)]
        first = len(self.messages)
        drafts = [self._draft(place, first + i, self.now + delay) for i, delay in enumerate(delays)]
        (receipts,) = await self.store.publish([Publication(tuple(drafts))], self.now)
        assert not isinstance(receipts, Conflict)
        assert len(receipts) == len(drafts)
        for draft, receipt in zip(drafts, receipts, strict=True):
            assert receipt.id not in self.messages
            assert draft.deliver_at == receipt.deliver_at
            message = Message(receipt.id, place.id, draft.body, self.now, receipt.deliver_at, receipt.due, draft)
            self.messages[receipt.id] = message
            if receipt.deliver_at > self.now:
                assert (receipt.state, receipt.due) == ("scheduled", receipt.deliver_at)
            else:
                self._stream(message)
                assert (receipt.state, receipt.offset) == ("published", message.offset)

    async def promote(self, entries: Sequence[int]) -> None:
        """Promotes these entries; exactly those that are due must come."""
        expected = {e for e in entries if e in self.messages and self._is_due(self.messages[e])}
        back = sorted(
            {~e for e in entries if e < 0 and due_of(~e) <= self.now and self._hand_of(~e)}, key=self._order_of_return
        )
        promoted = await self.store.promote(entries, self.now)
        assert {p.entry for p in promoted} == expected | {~id_ for id_ in back}
        assert len(promoted) == len(expected) + len(back)
        for p in promoted:
            assert p.due <= self.now, "early"
        for message in sorted((self.messages[e] for e in expected), key=lambda m: (m.deliver_at, m.accepted_at, m.id)):
            assert Promoted(message.id, message.queue_id, message.due) in promoted
            self._stream(message)
        for id_ in back:
            hand = self._hand_of(id_)
            assert hand is not None
            queue_id, hop = hand.retries.pop(id_)
            hand.backs[queue_id].append(hop)
            assert Promoted(~id_, queue_id, due_of(id_)) in promoted

    async def cancel(self, ids: Sequence[int]) -> None:
        expected: list[Verdict] = []
        for id_ in ids:
            message = self.messages.get(id_)
            if message is None:
                expected.append(Verdict("not_found"))
            elif message.state == "waiting":
                message.state = "cancelled"
                expected.append(Verdict("cancelled", topic=self.topic.id, due_before=message.due))
            elif message.state == "cancelled":
                expected.append(Verdict("cancelled", fresh=False, topic=self.topic.id))
            else:
                expected.append(Verdict("too_late", topic=self.topic.id))
        assert await self.store.cancel(ids, self.now) == expected

    async def reschedule(self, moves: Sequence[tuple[int, int]]) -> None:
        expected: list[Verdict] = []
        for id_, deliver_at in moves:
            message = self.messages.get(id_)
            if message is None:
                expected.append(Verdict("not_found"))
            elif message.state == "waiting":
                due = max(deliver_at, self.now)
                expected.append(
                    Verdict("rescheduled", topic=self.topic.id, due_before=message.due, due=due, deliver_at=deliver_at)
                )
                message.due, message.deliver_at = due, deliver_at
            elif message.state == "cancelled":
                expected.append(Verdict("cancelled", fresh=False, topic=self.topic.id))
            else:
                expected.append(Verdict("too_late", topic=self.topic.id))
        assert await self.store.write(timers.reschedule, moves, self.now) == expected

    async def claim(self, hand: Hand, sizes: Sequence[int], lease: int) -> None:
        requests = [ClaimRequest(f"client-{i}", size, lease) for i, size in enumerate(sizes)]
        reached = self._reached(hand)
        turn = await self._turn(hand, [], requests)
        again = [request for request, claim in zip(requests, turn.claims, strict=True) if claim is None]
        self._note_claims(hand, requests, turn, reached)
        if turn.beside:
            assert self.others
            assert turn.more
            assert again
            self.turns -= 1  # at the same node
            turn = await self._turn(hand, [], again)
            assert turn.claims[0] is not None, "there was nothing beside"
            assert not turn.beside
            self._note_claims(hand, again, turn, hand.positions.keys())

    async def _turn(self, hand: Hand, settlements: Sequence[Settlement], requests: Sequence[ClaimRequest]) -> Turn:
        """Takes a turn at the next of the nodes."""
        stores = [self.store, *self.others]
        at = self.turns % len(stores)
        self.turns += 1
        return await stores[at].turn(hand.group, settlements, requests, self.now, place=(at, len(stores)))

    def _reached(self, hand: Hand) -> Set[int]:
        """The ids of the queues that the next turn claims from at the least: those of its node."""
        nodes, topic, backs = 1 + len(self.others), self.topic, hand.group.retry_queue_of
        if nodes == 1:
            return hand.positions.keys()
        own = [topic.queues[i] for i in own_queues(self.turns % nodes, nodes, len(topic.queues))]
        return {id_ for queue in own for id_ in (queue.id, backs[queue.id].id)}

    def _note_claims(self, hand: Hand, requests: Sequence[ClaimRequest], turn: Turn, reached: Set[int]) -> None:
        assert len(turn.claims) == len(requests)
        for claim in sorted(turn.ranges, key=lambda claim: (claim.key.queue_id, claim.key.first)):
            queue_id, first = claim.key.queue_id, hand.positions[claim.key.queue_id]
            hops = self._queue(hand, queue_id)[first : first + claim.size]
            assert (claim.key.first, claim.size) == (first, len(hops))
            assert claim.lease_until == self.now + requests[0].lease
            # A message that is in the queue twice is handed out once, from its later place.
            last = {hop.message.id: place for place, hop in enumerate(hops)}
            kept = [(place, hop) for place, hop in enumerate(hops) if last[hop.message.id] == place]
            for (place, hop), message in zip(kept, claim.messages, strict=True):
                assert (message.id, message.attempt) == (hop.message.id, hop.attempt)
                assert whole(message) == whole(hop.message.draft)
                assert (message.offset, message.deliver_at) == (hop.message.offset, hop.message.deliver_at)
                assert message.deliver_at <= self.now, "early"
                assert claim.places[message.id] == place
            hand.positions[queue_id] += len(hops)
            outcomes = [Outcome.EXPIRED] * len(hops)
            for place, _ in kept:
                outcomes[place] = Outcome.OPEN
            hand.held.append(Held(claim, hops, claim.lease_until, outcomes))
        for request, given in zip(requests, turn.claims, strict=True):
            self._check_claim(hand, request, given, reached, beside=turn.beside)
        assert turn.more == self._left(hand)

    def _check_claim(
        self, hand: Hand, request: ClaimRequest, claim: Claim | None, reached: Set[int], *, beside: bool
    ) -> None:
        """Checks that the claim got as much as was there; entries of other nodes may have been left to them."""
        if claim is None:
            assert not self._left(hand, reached if beside else None), "there was something to claim"
            return
        ranges = claim.ranges
        assert {one.client for one in ranges} == {request.client}
        assert {one.key.token for one in ranges} == {claim.key.token}
        queues = [one.key.queue_id for one in ranges]
        assert len(set(queues)) == len(queues)
        assert len({queue_id in self.streams for queue_id in queues}) == 1, "what is new, or what came back"
        size = sum(one.size for one in ranges)
        assert sum(len(one.messages) for one in ranges) <= request.size
        if queues[0] in self.streams:
            assert not self._left(hand, reached, retries_only=True), "the retry queue comes first"
        if size < request.size:
            retries_only = queues[0] not in self.streams
            assert not self._left(hand, reached, retries_only=retries_only), "there was room for more"

    async def settle(self, hand: Hand, wishes: Sequence[tuple[Held, Settlement]]) -> None:
        """Makes any settlements of a group's claims in one turn."""
        turn = await self._turn(hand, [settlement for _, settlement in wishes], [])
        assert len(turn.settled) == len(wishes)
        ended: list[Held] = []
        dues: dict[int, list[tuple[int, Hop, int]]] = {}
        for index, (held, settlement) in enumerate(wishes):
            dues[index] = []
            settled = turn.settled[index]
            assert settled is not None
            was_ended = held.ended and held not in ended
            expected = self._settle(hand, held, settlement, dues[index], was_ended=was_ended)
            if held.ended and not was_ended:
                ended.append(held)
            got = attrs.evolve(settled, timers=(), ended=False)
            assert got == expected, settlement
            assert len(settled.timers) == len(dues[index])
            for (due, entry), (at_least, hop, queue_id) in zip(settled.timers, dues[index], strict=True):
                assert due == due_of(~entry) >= at_least, "the rung is early"
                assert due <= at_least + 1
                assert ~entry not in hand.retries
                hand.retries[~entry] = (queue_id, hop)
        for index, (held, _) in enumerate(wishes):
            settled = turn.settled[index]
            assert settled is not None
            assert settled.ended == held.ended

    async def forge(self, hand: Hand, held: Held, token: int) -> None:
        """Checks that nobody without the claim's token settles or learns anything."""
        key = attrs.evolve(held.claim.key, token=token)
        verbs: tuple[Literal["ack", "fail", "extend", "end"], ...] = ("ack", "fail", "extend", "end")
        forged = [Settlement(key, verb, lease=1000) for verb in verbs]
        assert (await self._turn(hand, forged, [])).settled == (None,) * 4

    async def seek(self, hand: Hand, queue: int, offset: int) -> None:
        """Seeks to an offset of one queue."""
        place = self.topic.queues[queue % len(self.topic.queues)]
        target = min(offset, len(self.streams[place.id]))
        back = hand.group.retry_queue_of[place.id].id
        closed = [h for h in hand.held if not h.ended and h.claim.key.queue_id in (place.id, back)]
        sought = await self.store.seek(hand.group, [place], Position("offset", offset), self.now)
        assert sought.queues == ((place.number, target),)
        assert set(sought.closed) == {held.claim.key for held in closed}
        returned: list[Hop] = []
        for held in closed:
            for i, outcome in enumerate(held.outcomes):
                if outcome == Outcome.OPEN:
                    held.outcomes[i] = Outcome.RELEASED
                    returned += [held.hops[i]] if held.claim.key.queue_id == back else []
        assert len(sought.timers) == len(returned)
        hand.retried += len(returned)
        hand.positions[place.id] = target
        hand.sought = True
        ids = [~entry for _, entry in sought.timers] or [5]
        rows = await self.store.backend.read(lambda tx: tx.fetch("retry.lock", Resting, ids))
        by_message = {(hop.message.id, hop.attempt, len(hop.history)): hop for hop in returned}
        for row in rows:
            hop = by_message[row.message_id, row.attempt, len(since_redrive(row.history))]
            hand.retries[row.id] = (row.return_queue_id, hop)

    async def redrive(self, hand: Hand, ids: Sequence[int], *, purge: bool) -> None:
        """Redrives or purges dead letters by id; some may not exist."""
        there = [id_ for id_ in dict.fromkeys(ids) if id_ in hand.dead]
        letters = Letters(ids=tuple(ids))
        assert await self.store.read(redriving.count, hand.group, letters) == len(there)
        if purge:
            assert (await self.store.write(redriving.purge, hand.group, letters, 100)).count == len(there)
            hand.purged += [hand.dead.pop(id_).message.id for id_ in there]
            return
        redriven = await self.store.redrive(hand.group, letters, 100, self.now)
        assert redriven.count == len(redriven.timers) == len(there)
        for id_, (due, entry) in zip(sorted(there), redriven.timers, strict=True):
            assert self.now <= due <= self.now + 1
            message = hand.dead.pop(id_).message
            hand.retries[~entry] = (hand.group.retry_queue_of[message.queue_id].id, Hop(message))
            hand.redriven += 1

    async def replay(self, hand: Hand, queue: int, begin: int, end: int) -> None:
        """Replays a range of one queue, in batches of two."""
        place = self.topic.queues[queue % len(self.topic.queues)]
        hops = self.streams[place.id][begin:end]
        asked = Range(Position("offset", begin), Position("offset", end), (place,), b"%032d" % begin)
        entries: list[int] = []
        done = False
        while not done:
            replayed = await self.store.replay(hand.group, asked, 2, self.now)
            entries += [~entry for _, entry in replayed.timers]
            done = replayed.done
        assert len(entries) == len(hops)
        for id_, hop in zip(entries, hops, strict=True):
            hand.retries[id_] = (hand.group.retry_queue_of[place.id].id, Hop(hop.message))
        hand.redriven += len(hops)
        hand.sought = hand.sought or bool(hops)

    async def end_leases(self, hand: Hand) -> None:
        """Ends the leases that are over, which the store must name."""
        over = await self.store.read(holdings.over, self.now, 1000)
        expected = {
            (held.claim.key, held.lease_until)
            for h in self.hands
            for held in h.held
            if not held.ended and held.lease_until <= self.now
        }
        assert set(over) == expected
        assert [lease for _, lease in over] == sorted(lease for _, lease in over)
        by_key = {held.claim.key: held for held in hand.held}
        await self.settle(hand, [(by_key[key], Settlement(key, "end")) for key, _ in over if key in by_key])

    # Invariants.

    async def check(self) -> None:
        await self._check_timers()
        states = await self.store.read(catalogue.topic_states, [self.topic])
        state = states[self.topic.id]
        count = {"waiting": 0, "cancelled": 0, "streamed": 0}
        for message in self.messages.values():
            count[message.state] += 1
        assert (state.accepted, state.streamed, state.cancelled, state.pending) == (
            len(self.messages),
            count["streamed"],
            count["cancelled"],
            count["waiting"],
        )
        (rows,) = await self.store.backend.read(lambda tx: tx.fetch("delay.count", int))
        assert rows == count["waiting"]
        for queue in self.topic.queues:
            stream = await self.store.read(stretches.pull, queue, 0, 10_000)
            assert [m.id for m in stream] == [hop.message.id for hop in self.streams[queue.id]]
            assert [m.offset for m in stream] == list(range(len(stream)))
        for hand in self.hands:
            await self._check_hand(hand)

    async def _check_timers(self) -> None:
        expected = {m.id: m.due for m in self.messages.values() if m.state == "waiting"}
        found: dict[int, int] = {}
        retries: set[int] = set()
        for rows, moved, again in await self.store.read(_due):
            assert all(expected[id_] == due for id_, due in rows)
            found |= {id_: due for id_, due in rows if due == due_of(id_)}
            assert not found.keys() & {id_ for id_, _ in moved}
            assert moved == sorted(moved, key=lambda row: (row[1], row[0]))
            found |= dict(moved)
            retries |= set(again)
        assert found == expected
        assert retries == {id_ for hand in self.hands for id_ in hand.retries}
        wheel = {(due, id_) for id_, due in expected.items()} | {(due_of(id_), ~id_) for id_ in retries}
        for since, until in ((0, 1 << 42), (self.now - 60_000, self.now + 5_000)):
            near = await self.store.read(timers.near, since, until, 10_000)
            assert len(near) == len(set(near))
            assert set(near) == {(due, entry) for due, entry in wheel if since <= due < until}

    async def _check_hand(self, hand: Hand) -> None:
        # I1: every message that the group was given is in exactly one place.
        places: list[int] = [hop.message.id for _, hop in hand.retries.values()]
        for held in hand.held:
            places += [
                hop.message.id
                for hop, outcome in zip(held.hops, held.outcomes, strict=True)
                if outcome in (Outcome.OPEN, Outcome.ACKED)
            ]
        places += hand.dead
        for queue_id, position in hand.positions.items():
            places += [hop.message.id for hop in self._queue(hand, queue_id)[position:]]
        places += hand.purged
        if not hand.sought:
            assert sorted(places) == sorted(m.id for m in self.messages.values() if m.state == "streamed")
        # I14: the counters in the rows agree.
        state = await self.store.read(catalogue.group_state, hand.group)
        assert (state.acked, state.dead, state.retried) == (hand.acked, hand.deaths, hand.retried)
        open_ = [held for held in hand.held if not held.ended]
        assert state.claims == len(open_)
        assert state.claimed == sum(held.outcomes.count(Outcome.OPEN) for held in open_)
        assert sum(state.retries) == len(hand.retries)
        numbers = {queue.id: queue.number for queue in self.topic.queues}
        numbers |= {queue.id: queue.number for queue in hand.group.retry_queues}
        assert {(q.retry, q.queue, q.offset, q.end) for q in state.queues} == {
            (queue_id not in self.streams, numbers[queue_id], position, len(self._queue(hand, queue_id)))
            for queue_id, position in hand.positions.items()
        }
        rows = await self.store.backend.read(lambda tx: tx.fetch("cursor.of_group", CursorState, hand.group.id))
        claims = await self.store.backend.read(lambda tx: tx.fetch("claim.of_group", ClaimRow, hand.group.id))
        for row in rows:
            in_hands = sum(claim.outcome.count(0) for claim in claims if claim.queue_id == row.queue_id)
            settled = row.acked + row.dead + row.retried + row.expired + row.skipped + row.parked
            assert row.position - row.origin == settled + in_hands + row.sought
        assert sum(row.dead - row.cleared for row in rows) == state.letters == len(hand.dead)
        assert sum(row.retried + row.redriven for row in rows) == len(hand.retries) + sum(map(len, hand.backs.values()))
        assert state.redriven == hand.redriven
        counts = await self.store.read(group_counts.of_groups, [hand.group])
        backlog = sum(queue.lag for queue in state.queues)
        assert counts == {
            hand.group.id: GroupCounts(backlog, state.claimed, sum(state.retries), state.dead, state.letters)
        }
        entries = await self.store.backend.read(lambda tx: tx.fetch("seek.of_group", tuple[int, int], hand.group.id))
        assert dict(entries) == {row.queue_id: row.sought for row in rows if row.queue_id in dict(entries)}
        letters = await self.store.read(dead_letters_of, hand.group, 0, 10_000)
        assert [letter.message.id for letter in letters] == sorted(hand.dead)
        for letter in letters:
            hop = hand.dead[letter.message.id]
            assert whole(letter.message) == whole(hop.message.draft)
            assert [(e.at, e.client, e.reason) for e in since_redrive(letter.history)] == list(hop.history)
            assert len(hop.history) == len(LADDER.rungs) + 1

    def _draft(self, place: Queue, number: int, deliver_at: int) -> Draft:
        """A draft with a key, tag and so on that vary with its number; some have none."""
        text = None if number % 4 == 3 else f"{number % 5} 🐢"
        headers = None if text is None else b'{"number":"%d"}' % number
        return Draft(
            topic=self.topic,
            queue=place,
            body=b"%d" % number,
            content_type=None if number % 2 else "x/y",
            deliver_at=deliver_at,
            key=text,
            ordering_key=None if number % 3 else text,
            tag=None if number % 2 else "red",
            headers=headers,
        )

    def _is_due(self, message: Message) -> bool:
        return message.state == "waiting" and message.due <= self.now

    def _hand_of(self, retry_id: int) -> Hand | None:
        return next((hand for hand in self.hands if retry_id in hand.retries), None)

    def _order_of_return(self, retry_id: int) -> tuple[int, int, int, int, int]:
        hand = self._hand_of(retry_id)
        assert hand is not None
        message = hand.retries[retry_id][1].message
        return due_of(retry_id), message.queue_id, message.offset, shard_of(retry_id), retry_id

    def _stream(self, message: Message) -> None:
        stream = self.streams[message.queue_id]
        message.state, message.offset = "streamed", len(stream)
        stream.append(Hop(message))

    def _queue(self, hand: Hand, queue_id: int) -> list[Hop]:
        return self.streams[queue_id] if queue_id in self.streams else hand.backs[queue_id]

    def _left(self, hand: Hand, among: Set[int] | None = None, *, retries_only: bool = False) -> bool:
        return any(
            position < len(self._queue(hand, queue_id))
            for queue_id, position in hand.positions.items()
            if (among is None or queue_id in among) and (not retries_only or queue_id not in self.streams)
        )

    def _settle(
        self, hand: Hand, held: Held, settlement: Settlement, dues: list[tuple[int, Hop, int]], *, was_ended: bool
    ) -> Settled:
        named = settlement.places
        if was_ended:
            if settlement.verb == "end":
                return Settled()
            if settlement.verb == "ack":
                outcomes = held.outcomes if named is None else [held.outcomes[place] for place in named]
                lost = named is None and {Outcome.LOST, Outcome.LOST_DEAD, Outcome.RELEASED} & set(outcomes)
                acked = outcomes.count(Outcome.ACKED)
                if acked and not lost and (named is None or acked == len(named)):
                    return Settled(acked=acked)
            return Settled(lost=True)
        if settlement.verb == "end":
            if held.lease_until > self.now:
                return Settled(lease_until=held.lease_until)
            places = [i for i, outcome in enumerate(held.outcomes) if outcome == Outcome.OPEN]
            return attrs.evolve(self._lose(hand, held, settlement, places, dues), lost=bool(places))
        if held.lease_until <= self.now:
            return Settled(lost=True)
        if settlement.verb == "extend":
            held.lease_until = self.now + settlement.lease
            return Settled(lease_until=held.lease_until)
        if settlement.verb == "ack":
            good = (Outcome.OPEN, Outcome.ACKED)
            if named is None:
                named = tuple(i for i, outcome in enumerate(held.outcomes) if outcome in good)
            if any(held.outcomes[place] not in good for place in named):
                return Settled(lost=True)
            for place in set(named):
                if held.outcomes[place] == Outcome.OPEN:
                    held.outcomes[place] = Outcome.ACKED
                    hand.acked += 1
            return Settled(acked=len(named))
        if named is None:
            named = tuple(i for i, outcome in enumerate(held.outcomes) if outcome == Outcome.OPEN)
        if any(held.outcomes[place] != Outcome.OPEN for place in named):
            return Settled(lost=True)
        return self._lose(hand, held, settlement, list(dict.fromkeys(named)), dues)

    def _lose(
        self, hand: Hand, held: Held, settlement: Settlement, places: list[int], dues: list[tuple[int, Hop, int]]
    ) -> Settled:
        retried = dead = 0
        lost = settlement.verb == "end"
        queue_id = held.claim.key.queue_id
        back = queue_id if queue_id not in self.streams else hand.group.retry_queue_of[queue_id].id
        for place in places:
            hop = held.hops[place]
            at = held.lease_until if lost else self.now
            entry = (at, held.claim.client, "lease lost" if lost else settlement.reason)
            rungs = LADDER.rungs
            if not settlement.count:
                rest = rungs[min(hop.attempt, len(rungs)) - 1]
                held.outcomes[place] = Outcome.SUSPENDED
                following = Hop(hop.message, hop.attempt, hop.history)
            elif hop.attempt > len(rungs):
                held.outcomes[place] = Outcome.LOST_DEAD if lost else Outcome.DEAD
                assert hand.sought or hop.message.id not in hand.dead, "dead twice"
                hand.dead[hop.message.id] = Hop(hop.message, hop.attempt, (*hop.history, entry))
                hand.deaths += 1
                dead += 1
                continue
            else:
                rest = rungs[hop.attempt - 1]
                held.outcomes[place] = Outcome.LOST if lost else Outcome.RETRIED
                following = Hop(hop.message, hop.attempt + 1, (*hop.history, entry))
            hand.retried += 1
            retried += 1
            wait = rest if settlement.retry_after is None else settlement.retry_after
            dues.append((at + wait, following, back))
        return Settled(retried=retried, dead=dead)


async def _due(tx: Transaction) -> list[tuple[list[Scan], list[Scan], list[int]]]:
    """By shard: messages waiting by their id, moved ones, and retries; in one read, so in one round trip."""
    return [
        (
            await timers.due_messages(tx, shard, 0, 1 << 42, 10_000),
            await timers.due_moved(tx, shard, (-1, 0), 1 << 42, 10_000),
            await timers.due_retries(tx, shard, 0, 1 << 42, 10_000),
        )
        for shard in range(SHARDS)
    ]


def choose(items: Sequence[Any], number: int) -> Any:
    return items[number % len(items)]


def whole(message: Draft | Delivered) -> tuple[object, ...]:
    """All fields of a message that its publisher gave, without the time."""
    return (
        message.body,
        message.headers,
        message.content_type,
        message.key,
        message.ordering_key,
        message.tag,
    )

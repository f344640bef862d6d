"""Watches a store with an ordered topic: when a message is handed out, all earlier ones of its key are settled (I11).

It awaits nothing but the store: over a store that never suspends it can be driven step by step.
"""

import zlib
from collections.abc import Sequence
from typing import Literal

import attrs

from support.letters import dead_letters_of
from support.stores import START
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.groups import holdings
from tarry.store.groups.locked_rows import ClaimRow
from tarry.store.ids import SHARDS
from tarry.store.looking import group_counts
from tarry.store.ports import Transaction
from tarry.store.records import Claim, ClaimRequest, Conflict, Draft, Group, Outcome, Publication, Settlement, Topic
from tarry.store.rows import CursorState
from tarry.store.store import Store
from tarry.store.timers import timers
from tarry.wheel.ladder import Ladder

LADDER = Ladder((1_000, 5_000))
CLIENTS = ("ann", "bob", "cleo")


@attrs.define
class Held:
    """A claim as its client sees it."""

    claim: Claim
    open: list[int]
    """Offsets in the topic's own queue of messages that the client has not settled."""
    lease_until: int
    over: bool = False


@attrs.define
class Watch:
    store: Store
    topic: Topic
    group: Group
    now: int = START
    streams: dict[tuple[int, str | None], list[int]] = attrs.field(factory=dict[tuple[int, str | None], list[int]])
    """Offsets by queue number and key, in the order of the stream."""
    settled: set[tuple[int, int]] = attrs.field(factory=set[tuple[int, int]])
    """(queue number, offset) of messages that were acked or are dead."""
    held: list[Held] = attrs.field(factory=list[Held])
    published: int = 0

    @classmethod
    async def begin(cls, store: Store, queues: int = 2) -> "Watch":
        topic = await store.write(
            catalogue.add_topic, TopicDraft("orders", queues=queues, ordered=True, ladder=LADDER), START
        )
        return cls(store, topic, await store.add_group(topic, "billing", START))

    async def publish(self, keys: Sequence[str | None]) -> None:
        for key in keys:
            number = zlib.crc32((key or "").encode()) % len(self.topic.queues)
            draft = Draft(
                topic=self.topic, queue=self.topic.queues[number], body=b"%d" % self.published, ordering_key=key
            )
            (receipts,) = await self.store.publish([Publication((draft,))], self.now)
            assert not isinstance(receipts, Conflict)
            assert receipts[0].offset is not None
            self.streams.setdefault((number, key), []).append(receipts[0].offset)
            self.published += 1

    async def fall_due(self) -> None:
        if due := await self.store.read(_due, self.now + 1):
            await self.store.promote(due, self.now)

    async def claim(self, sizes: Sequence[tuple[str, int]], lease: int, present: Sequence[str]) -> None:
        """Claims, and checks what is handed out."""
        requests = [ClaimRequest(client, size, lease) for client, size in sizes]
        turn = await self.store.turn(self.group, [], requests, self.now, present)
        for request, claim in zip(requests, turn.claims, strict=True):
            if claim is None:
                continue
            assert claim.client == request.client
            number = claim.messages[0].queue
            assert not [h for h in self.held if h.open and not h.over and h.claim.messages[0].queue == number]
            with_it: set[int] = set()
            for message in claim.messages:
                assert message.queue == number
                for before in self.streams[number, message.ordering_key]:
                    if before >= message.offset:
                        break
                    assert (number, before) in self.settled or before in with_it, "a message before it is not settled"
                assert (number, message.offset) not in self.settled, "settled, and handed out again"
                with_it.add(message.offset)
            self.held.append(Held(claim, [m.offset for m in claim.messages], self.now + lease))

    async def settle(self, held: Held, verb: Literal["ack", "fail", "end"], pick: Sequence[int], **how: int) -> None:
        """Settles some messages of a claim as its client would; all of them if `pick` is empty."""
        number = held.claim.messages[0].queue
        offsets = held.open if not pick else [held.open[p % len(held.open)] for p in pick if held.open]
        offsets = sorted(set(offsets))
        if not offsets:
            return
        ids = {m.offset: m.id for m in held.claim.messages}
        places = tuple(held.claim.places[ids[offset]] for offset in offsets)
        retry_after = how.get("retry_after")
        at_once = verb == "end" and bool(how.get("at_once"))
        settlement = Settlement(
            held.claim.key,
            verb,
            None if verb == "end" else places,
            "no",
            retry_after,
            bool(how.get("count", 1)),
            0,
            at_once,
        )
        (answer,) = (await self.store.turn(self.group, [settlement], [], self.now)).settled
        assert answer is not None
        if held.over:
            assert answer.lost == (verb != "end"), "who ends what is over loses nothing"
            return
        if verb == "end":
            held.over = at_once or held.lease_until <= self.now
            if held.over:
                held.open.clear()
        elif held.lease_until <= self.now:
            assert answer.lost
            return
        else:
            assert not answer.lost
            if verb == "ack":
                assert answer.acked == len(places)
            else:
                assert answer.retried + answer.dead == len(places)
            held.open = [offset for offset in held.open if offset not in offsets]
        if verb == "ack":
            self.settled |= {(number, offset) for offset in offsets}
        if verb == "fail":
            keys = {m.ordering_key for m in held.claim.messages if m.offset in offsets}
            first = {
                k: min(m.offset for m in held.claim.messages if m.ordering_key == k and m.offset in offsets)
                for k in keys
            }
            gone = {
                m.offset for m in held.claim.messages if m.ordering_key in keys and m.offset > first[m.ordering_key]
            }
            held.open = [offset for offset in held.open if offset not in gone]
        await self.bury()

    async def bury(self) -> None:
        """Counts dead letters as settled."""
        for letter in await self.store.read(dead_letters_of, self.group, 0, 10_000):
            self.settled.add((letter.message.queue, letter.message.offset))

    async def end_leases(self) -> None:
        over = {key for key, _ in await self.store.read(holdings.over, self.now, 10_000)}
        if over:
            await self.store.turn(self.group, [Settlement(key, "end") for key in over], [], self.now)
        for held in self.held:
            if held.claim.key in over:
                held.over = True
                held.open.clear()
        await self.bury()

    async def check(self) -> None:
        """Checks that the counters of each cursor add up (I14)."""
        rows = await self.store.backend.read(lambda tx: tx.fetch("cursor.of_group", CursorState, self.group.id))
        claims = await self.store.backend.read(lambda tx: tx.fetch("claim.of_group", ClaimRow, self.group.id))
        for row in rows:
            in_hands = sum(claim.outcome.count(Outcome.OPEN) for claim in claims if claim.queue_id == row.queue_id)
            settled = row.acked + row.dead + row.retried + row.expired + row.skipped + row.parked
            assert row.position - row.origin == settled + in_hands
        counts = (await self.store.read(group_counts.of_groups, [self.group]))[self.group.id]
        state = await self.store.read(catalogue.group_state, self.group)
        assert (counts.claimed, counts.retrying) == (state.claimed, sum(state.retries))

    @property
    def live(self) -> list[Held]:
        return [held for held in self.held if held.open and not held.over]

    async def finish(self) -> None:
        """Goes on until every message is settled."""
        for _ in range(50 + 10 * self.published):
            self.now += 10_000
            await self.end_leases()
            await self.fall_due()
            await self.claim([("ann", 50)] * len(self.topic.queues), 60_000, ["ann"])
            for held in self.live:
                await self.settle(held, "ack", ())
            if len(self.settled) == self.published:
                break
        assert len(self.settled) == self.published, "some never come to rest"
        await self.check()
        state = await self.store.read(catalogue.group_state, self.group)
        assert (state.parked, sum(state.retries)) == (0, 0)


async def _due(tx: Transaction, until: int) -> list[int]:
    """Due retries as wheel entries; in one read, so in one round trip."""
    found = [await timers.due_retries(tx, shard, 0, until, 10_000) for shard in range(SHARDS)]
    return [~id_ for ids in found for id_ in ids]

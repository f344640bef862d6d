"""Random histories with retention in them: what goes is what a few dictionaries say may go, and the counters conserve.

Many of them on the embedded store, in memory, driven step by step; a few on each store (I1, I7, I14).
"""

import random
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

import pytest
import trio
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from support.effort import examples, full
from support.letters import dead_letters_of
from support.still import StillBackend
from support.stores import START, Stage
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.cleaning import retention
from tarry.store.cleaning.retention import Limits, Removed
from tarry.store.groups.locked_rows import ClaimRow
from tarry.store.ports import Transaction
from tarry.store.records import Claim, ClaimRequest, Draft, Publication, Settlement
from tarry.store.rows import CursorState
from tarry.store.sqlite.connection import drive
from tarry.store.store import Store
from tarry.store.stream import stretches
from tarry.store.timers import timers
from tarry.wheel.ladder import Ladder

KEEP, HARD, LASTING = 100, 1000, 2500
LIMITS = Limits(retention=KEEP, hard=HARD, history=10_000_000, dead=10_000_000)
REST = 50
EVER = 1 << 40
NEVER = 1 << 50
T = TypeVar("T")


class Lives(RuleBasedStateMachine):
    """Two groups on one queue; `owed` is what each has not settled: never claimed, in a claim, on a rung, or back.

    What was claimed and is owed is in `hands`, on one of the `rungs` until then, or `back` since then."""

    @initialize()
    def begin(self) -> None:
        self.open()
        self.now = START
        self.topic = self.drive(
            self.store.write(catalogue.add_topic, TopicDraft("orders", ladder=Ladder((REST, REST))), START)
        )
        self.groups = [self.drive(self.store.add_group(self.topic, name, START)) for name in ("a", "b")]
        self.seen = [START, START]
        self.streamed: list[int] = []
        self.lasts: dict[int, int] = {}
        """Of some messages their `expires_at`."""
        self.hands: list[set[int]] = [set(), set()]
        self.rungs: list[dict[int, int]] = [{}, {}]
        self.back: list[dict[int, int]] = [{}, {}]
        self.left: set[int] = set()
        self.positions = [0, 0]
        self.owed: list[set[int]] = [set(), set()]
        self.claims: list[tuple[int, Claim, set[int]]] = []
        """With the messages in its ranges: one that had expired is in nobody's hands, and stays beside the others."""

    def open(self) -> None:
        """An empty store."""
        self.backend = StillBackend()
        self.store = Store(self.backend)

    def drive(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs what the store does to its end."""
        return drive(work)

    def teardown(self) -> None:
        if hasattr(self, "backend"):
            self.backend.close()

    @rule(count=st.integers(1, 5), lasting=st.booleans())
    def publish(self, count: int, lasting: bool) -> None:
        expires_at = self.now + LASTING if lasting else None
        if expires_at is not None:
            self.lasts |= dict.fromkeys(range(len(self.streamed), len(self.streamed) + count), expires_at)
        draft = Draft(topic=self.topic, queue=self.topic.queues[0], body=b"1", key="k", expires_at=expires_at)
        drafts = (draft,) * count
        self.drive(self.store.publish([Publication(drafts)], self.now))
        for _ in range(count):
            self.left.add(len(self.streamed))
            for owed in self.owed:
                owed.add(len(self.streamed))
            self.streamed.append(self.now)

    @rule(step=st.sampled_from([1, 49, 50, KEEP, HARD - KEEP, HARD]))
    def wait(self, step: int) -> None:
        self.now += step

    @rule(which=st.integers(0, 1))
    def ask_for(self, which: int) -> None:
        self.drive(self.store.write(retention.see, [self.groups[which].id], self.now))
        self.seen[which] = self.now

    @rule(which=st.integers(0, 1), size=st.integers(1, 4))
    def claim(self, which: int, size: int) -> None:
        turn = self.drive(self.store.turn(self.groups[which], [], [ClaimRequest("me", size, EVER)], self.now))
        claim = turn.claims[0]
        # What had expired when it came back is passed over, and is settled with that.
        passed = self._passed(which)
        for offset in [one for one in self.back[which] if one in passed and self.lasts.get(one, NEVER) <= self.now]:
            del self.back[which][offset]
        if claim is not None:
            self.claims.append((which, claim, self._within(claim)))
            if claim.key.queue_id == self.topic.queues[0].id:
                self.positions[which] = claim.key.first + claim.size
            # Whoever gets a message has not settled it, and it is there.
            offsets = {m.offset for m in claim.messages}
            assert offsets <= self.owed[which] & self.left
            assert not any(self.lasts.get(offset, NEVER) <= self.now for offset in offsets)
            self.hands[which] |= offsets
            for offset in offsets:
                self.back[which].pop(offset, None)

    @precondition(lambda self: self.claims)
    @rule(number=st.integers(0, 100), verb=st.sampled_from(["ack", "fail"]))
    def settle(self, number: int, verb: Any) -> None:
        which, claim, _ = self.claims.pop(number % len(self.claims))
        (settled,) = self.drive(
            self.store.turn(self.groups[which], [Settlement(claim.key, verb)], [], self.now)
        ).settled
        assert settled is not None
        assert not settled.lost
        offsets = {m.offset for m in claim.messages}
        self.hands[which] -= offsets
        if verb == "ack":
            assert settled.acked == len(offsets)
            self.owed[which] -= offsets
        else:
            died = [
                letter.message.offset
                for letter in self.drive(self.store.read(dead_letters_of, self.groups[which], 0, 1000))
            ]
            late = {offset for offset in offsets.difference(died) if self.lasts.get(offset, NEVER) <= self.now + REST}
            assert settled.retried + settled.dead == len(offsets - late)
            self.owed[which] -= late | offsets & set(died)
            self.rungs[which] |= dict.fromkeys(offsets & self.owed[which], self.now + REST)

    @rule(which=st.integers(0, 1), verb=st.sampled_from(["ack", "ack", "fail"]))
    def catch_up(self, which: int, verb: str) -> None:
        """Most of the time a group reads all there is and settles it at once."""
        many = len(self.claims)
        for _ in range(3):
            self.claim(which, 20)
        while len(self.claims) > many:
            self.settle(len(self.claims) - 1, verb)

    @rule()
    def promote(self) -> None:
        for shard in range(16):
            ids = self.drive(self.store.read(timers.due_retries, shard, 0, EVER * 2, 1000))
            self.drive(self.store.promote([~id_ for id_ in ids], self.now))
        for rungs, back in zip(self.rungs, self.back, strict=True):
            over = [offset for offset, due in rungs.items() if due <= self.now]
            back |= dict.fromkeys(over, self.now)
            for offset in over:
                del rungs[offset]

    @rule(limit=st.integers(1, 7), step=st.sampled_from([0, KEEP]))
    def clean(self, limit: int, step: int) -> None:
        self.now += step
        expected, reached = self._expected()
        start, rows = 0, 0
        while True:
            batch = partial(
                retention.clean_messages,
                topic=self.topic,
                queue=self.topic.queues[0],
                limits=LIMITS,
                now=self.now,
                start=start,
                limit=limit,
            )
            done: Removed = self.drive(self.store.write(batch))
            rows, start = rows + done.rows, done.next
            if done.done:
                break
        assert rows == len(self.left) - len(expected)
        self.left = expected
        for rungs, back in zip(self.rungs, self.back, strict=True):
            # Brought back by the cleaner; what stays for another reason has been back since then.
            for offset in [offset for offset, due in rungs.items() if offset in reached and due <= self.now - HARD]:
                back[offset] = self.now
                del rungs[offset]
        for which in (0, 1):
            before, self.positions[which] = self.positions[which], self.drive(self._position(which))
            assert not any(self._lasts(which, at) for at in range(before, self.positions[which]) if at in self.left)
            self.owed[which] -= set(range(before, self.positions[which]))  # passed over: expired, for good

    def _expected(self) -> tuple[set[int], set[int]]:
        """What stays of a whole round, and how far that goes."""
        stays, reached = set[int](), set[int]()
        passable = True
        for offset, at in enumerate(self.streamed):
            if offset not in self.left:
                continue
            # What is published when nobody has asked for a group for long, is not kept for it.
            ahead = [w for w in (0, 1) if offset >= self.positions[w] and at < self.seen[w] + HARD]
            passable = passable and at <= self.now - KEEP and not (ahead and at > self.now - HARD)
            lasts = any(self._lasts(which, offset) for which in ahead)
            if passable:
                reached.add(offset)
            if not passable or lasts or any(self._holds(which, offset) for which in (0, 1)):
                stays.add(offset)
        return stays, reached

    def _lasts(self, which: int, offset: int) -> bool:
        """Whether it says that it expires later, and was published to a group in use."""
        return self.lasts.get(offset, 0) > self.now and self.streamed[offset] < self.seen[which] + HARD

    def _holds(self, which: int, offset: int) -> bool:
        """Whether a group has it in its hands, or has not had it again for long."""
        due = max(self.rungs[which].get(offset, 0), self.back[which].get(offset, 0))
        claimed = any(offset in within for whose, _, within in self.claims if whose == which)
        return claimed or offset in self.hands[which] or due > self.now - HARD

    def _within(self, claim: Claim) -> set[int]:
        """The messages that lie in what was claimed."""
        return {
            offset
            for one in claim.ranges
            for offset in self._sources(one.key.queue_id, one.key.first, one.key.first + one.size)
        }

    def _passed(self, which: int) -> set[int]:
        """The messages whose last return lies behind the group's position."""
        (queue,) = self.groups[which].retry_queues
        position = self.drive(self._position(which, queue.id))
        return self._sources(queue.id, 0, position) - self._sources(queue.id, position, EVER)

    def _sources(self, queue_id: int, first: int, end: int) -> set[int]:
        """The messages in a stretch of the topic's queue or of a group's returns."""
        if queue_id == self.topic.queues[0].id:
            return set(range(first, end))

        async def look(tx: Transaction) -> set[int]:
            rows = await tx.fetch("redelivery.members", tuple[int, int, int, bytes | None], queue_id, first, end)
            return {source for _, source, *_ in rows}

        return self.drive(self.store.backend.read(look))

    async def _position(self, which: int, queue_id: int | None = None) -> int:
        async def look(tx: Transaction) -> int:
            queue = self.topic.queues[0].id if queue_id is None else queue_id
            (position,) = await tx.fetch("cursor.position", int, self.groups[which].id, queue)
            return position

        return await self.store.backend.read(look)

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "store"):
            return
        tx = self.store.backend
        left = [m.offset for m in self.drive(self.store.read(stretches.pull, self.topic.queues[0], 0, 10_000))]
        assert left == sorted(self.left)
        floors = self.drive(self.store.read(retention.floors, [self.topic.queues[0].id]))
        assert not left or floors[self.topic.queues[0].id] <= left[0]
        for group in self.groups:
            for row in self.drive(tx.read(partial(_cursors, group.id))):
                moves, told, open_ = row
                assert moves == told + open_


async def _cursors(group_id: int, tx: Transaction) -> list[tuple[int, int, int]]:
    """For each cursor: its moves, what its counters tell, and what is open (I14)."""
    open_: dict[int, int] = {}
    for claim in await tx.fetch("claim.of_group", ClaimRow, group_id):
        open_[claim.queue_id] = open_.get(claim.queue_id, 0) + claim.outcome.count(0)
    found: list[tuple[int, int, int]] = []
    for row in await tx.fetch("cursor.of_group", CursorState, group_id):
        settled = row.acked + row.dead + row.retried + row.expired + row.skipped
        found.append((row.position - row.origin, settled, open_.get(row.queue_id, 0)))
    return found


TestLives = full(Lives.TestCase)
TestLives.settings = settings(
    max_examples=examples(40, 150),
    stateful_step_count=40,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


class LivesOnAStage(Lives):
    """On any store: each step is sent to the event loop from a thread."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.stage = stage

    def open(self) -> None:
        self.store = self.stage.store

    def drive(self, work: Coroutine[Any, Any, T]) -> T:
        async def run() -> T:
            return await work

        return trio.from_thread.run(run)

    def go_through(self, dice: random.Random) -> None:
        """A random history."""
        self.begin()
        for _ in range(60):
            which = dice.randrange(2)
            match dice.randrange(9):
                case 0 | 1:
                    self.publish(dice.randrange(1, 6), dice.randrange(4) == 0)
                case 2:
                    self.wait(dice.choice((1, 49, 50, KEEP, HARD - KEEP, HARD)))
                case 3:
                    self.ask_for(which)
                case 4:
                    self.claim(which, dice.randrange(1, 5))
                case 5 if self.claims:
                    self.settle(dice.randrange(100), dice.choice(("ack", "fail")))
                case 6:
                    self.catch_up(which, dice.choice(("ack", "ack", "fail")))
                case 7:
                    self.promote()
                case _:
                    self.clean(dice.randrange(1, 8), dice.choice((0, KEEP)))
            self.holds()


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_random_lives(stage: Stage, seed: int) -> None:
    lives = LivesOnAStage(stage)
    await trio.to_thread.run_sync(lives.go_through, random.Random(seed))
    assert len(lives.streamed) > len(lives.left), "nothing has gone"

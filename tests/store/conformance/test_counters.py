"""Random histories: what the store says equals what a few dictionaries say, at every step (I1, I2, I4-I7, I9, I14)."""

import random
from typing import Literal

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from support.effort import examples, full
from support.oracle import Hand, Held, Oracle, choose
from support.still import StillBackend
from support.stores import HOUR, MINUTE, SECOND, START, Stage
from tarry.store.groups import locked_rows
from tarry.store.looking import group_counts
from tarry.store.records import Group, Settlement, Topic
from tarry.store.sqlite.connection import drive
from tarry.store.store import Store
from tarry.store.timers import timers

_DELAYS = (-1000, 0, 1, 500, 1000, 5000, 60_000, 3_600_000)
_STEPS = (0, 1, 499, 1000, 10_000, 30_000, 60_000)
_LEASES = (1, 1000, 20_000, 600_000)


class Histories(RuleBasedStateMachine):
    """On the embedded store, in memory: nothing there ever suspends, so it is driven step by step."""

    @initialize()
    def begin(self) -> None:
        self.backend = StillBackend()
        self.oracle = drive(Oracle.begin(Store(self.backend)))

    def teardown(self) -> None:
        if hasattr(self, "backend"):
            self.backend.close()

    @rule(delays=st.lists(st.sampled_from(_DELAYS), min_size=1, max_size=5), queue=st.integers(0, 1))
    def publish(self, delays: list[int], queue: int) -> None:
        drive(self.oracle.publish(delays, queue))

    @rule(step=st.sampled_from(_STEPS))
    def wait(self, step: int) -> None:
        self.oracle.now += step

    @rule(step=st.sampled_from(_STEPS), spare=st.booleans())
    def promote_all(self, step: int, spare: bool) -> None:
        """All entries there are, due or not, some gone long ago."""
        self.oracle.now += step
        entries = [*self.oracle.messages, *(~id_ for hand in self.oracle.hands for id_ in hand.retries)]
        drive(self.oracle.promote(entries[:: 2 if spare else -1]))

    @precondition(lambda self: self.oracle.messages)
    @rule(numbers=st.lists(st.integers(0, 1 << 16), min_size=1, max_size=4), stranger=st.booleans())
    def cancel(self, numbers: list[int], stranger: bool) -> None:
        ids = [choose(list(self.oracle.messages), number) for number in numbers]
        drive(self.oracle.cancel([*ids, 5] if stranger else ids))

    @precondition(lambda self: self.oracle.messages)
    @rule(moves=st.lists(st.tuples(st.integers(0, 1 << 16), st.sampled_from(_DELAYS)), min_size=1, max_size=4))
    def reschedule(self, moves: list[tuple[int, int]]) -> None:
        ids = list(self.oracle.messages)
        drive(self.oracle.reschedule([(choose(ids, number), self.oracle.now + delay) for number, delay in moves]))

    @rule(
        group=st.integers(0, 1),
        sizes=st.lists(st.integers(1, 5), min_size=1, max_size=3),
        lease=st.sampled_from(_LEASES),
    )
    def claim(self, group: int, sizes: list[int], lease: int) -> None:
        drive(self.oracle.claim(self.oracle.hands[group], sizes, lease))

    @rule(
        group=st.integers(0, 1),
        wishes=st.lists(
            st.tuples(
                st.integers(0, 1 << 16),
                st.sampled_from(["ack", "fail", "extend", "end"]),
                st.none() | st.lists(st.integers(0, 4), min_size=1, max_size=3),
                st.none() | st.sampled_from([0, 1, 5000]),
                st.booleans(),
            ),
            min_size=1,
            max_size=3,
        ),
    )
    def settle(self, group: int, wishes: list[tuple[int, str, list[int] | None, int | None, bool]]) -> None:
        hand = self.oracle.hands[group]
        drive(self.oracle.settle(hand, [wish(hand, *parts) for parts in wishes if hand.held]))

    @rule(group=st.integers(0, 1), number=st.integers(0, 1 << 16), token=st.integers(0, 1 << 62))
    def forge(self, group: int, number: int, token: int) -> None:
        hand = self.oracle.hands[group]
        if hand.held:
            drive(self.oracle.forge(hand, choose(hand.held[-6:], number), token))

    @rule(group=st.integers(0, 1), step=st.sampled_from(_STEPS))
    def end_leases(self, group: int, step: int) -> None:
        self.oracle.now += step
        drive(self.oracle.end_leases(self.oracle.hands[group]))

    @rule(group=st.integers(0, 1), queue=st.integers(0, 1), offset=st.integers(0, 12))
    def seek(self, group: int, queue: int, offset: int) -> None:
        drive(self.oracle.seek(self.oracle.hands[group], queue, offset))

    @rule(group=st.integers(0, 1), queue=st.integers(0, 1), begin=st.integers(0, 6), size=st.integers(0, 5))
    def replay(self, group: int, queue: int, begin: int, size: int) -> None:
        drive(self.oracle.replay(self.oracle.hands[group], queue, begin, begin + size))

    @rule(group=st.integers(0, 1), number=st.integers(0, 1 << 16), purge=st.booleans())
    def redrive(self, group: int, number: int, purge: bool) -> None:
        hand = self.oracle.hands[group]
        ids = [id_ for i, id_ in enumerate(hand.dead) if number >> i & 1]
        drive(self.oracle.redrive(hand, [*ids, 5], purge=purge))

    @rule(group=st.integers(0, 1))
    def give_up(self, group: int) -> None:
        """A consumer that fails all it gets, over and over: this is how letters die."""
        for _ in range(5):
            hand = self.oracle.hands[group]
            self.oracle.now += 60_000
            drive(self.oracle.promote([~id_ for id_ in hand.retries]))
            drive(self.oracle.claim(hand, [3], 1000))
            for held in hand.held[-1:]:
                drive(self.oracle.settle(hand, [(held, Settlement(held.claim.key, "fail", reason="no"))]))

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "oracle"):
            drive(self.oracle.check())


def wish(
    hand: Hand, number: int, verb: str, places: list[int] | None, retry_after: int | None, count: bool
) -> tuple[Held, Settlement]:
    """A settlement of one of the latest claims, open or not; its places within the claim."""
    held: Held = choose(hand.held[-6:], number)
    named = None if places is None else tuple(place % held.claim.size for place in places)
    key = held.claim.key
    if verb == "fail":
        return held, Settlement(key, "fail", named, "no", retry_after, count)
    if verb == "ack":
        return held, Settlement(key, "ack", named)
    if verb == "extend":
        return held, Settlement(key, "extend", lease=30_000)
    return held, Settlement(key, "end")


TestHistories = full(Histories.TestCase)
TestHistories.settings = settings(
    max_examples=examples(25, 100),
    stateful_step_count=40,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.slow
@pytest.mark.parametrize(("nodes", "seed"), [(1, 1), (1, 2), (2, 5), (2, 6), (3, 7)])
@pytest.mark.cases(3)
async def test_random_histories(stage: Stage, nodes: int, seed: int) -> None:
    """Less of the same on every backend; and of groups at several nodes, which claim from their own queues first and
    settle whatever they are asked to: the books are the same."""
    dice = random.Random(seed)
    oracle = await Oracle.begin(stage.store)
    oracle.others = [Store(stage.store.backend) for _ in range(nodes - 1)]
    for step in range(240):
        hand = dice.choice(oracle.hands)
        ids = list(oracle.messages)[-20:] or [5]
        match dice.randrange(10):
            case 8:
                chosen = dice.sample(list(hand.dead), dice.randrange(len(hand.dead) + 1))
                await oracle.redrive(hand, chosen, purge=dice.random() < 0.2)
            case 9 if step > 120 and dice.random() < 0.5:
                queue = dice.randrange(2)
                await oracle.seek(hand, queue, dice.randrange(len(oracle.streams[oracle.topic.queues[queue].id]) + 5))
            case 9 if step > 120:
                begin = dice.randrange(20)
                await oracle.replay(hand, dice.randrange(2), begin, begin + dice.randrange(6))
            case 0 | 1:
                await oracle.publish([dice.choice(_DELAYS) for _ in range(dice.randrange(1, 8))], dice.randrange(2))
            case 2:
                oracle.now += dice.choice(_STEPS)
                entries = [*oracle.messages, *(~id_ for h in oracle.hands for id_ in h.retries)]
                await oracle.promote(dice.sample(entries, dice.randrange(len(entries) + 1)))
            case 3:
                one, other = dice.choice(ids), dice.choice(ids)
                await oracle.cancel(dice.choice(([one], [one, 5], [one, other], [one, other, one])))
            case 4:
                moves = [(dice.choice(ids), oracle.now + dice.choice(_DELAYS)) for _ in range(dice.randrange(1, 4))]
                await oracle.reschedule(moves)
            case 5 | 6:
                sizes = [dice.randrange(1, 6) for _ in range(dice.randrange(1, 4))]
                await oracle.claim(hand, sizes, dice.choice(_LEASES))
            case _:
                oracle.now += dice.choice(_STEPS)
                await oracle.end_leases(hand)
        if hand.held:
            wishes = [
                wish(
                    hand,
                    _one_in_hand(hand, dice),
                    dice.choice(["ack", "fail", "fail", "extend", "end"]),
                    None if dice.random() < 0.5 else [dice.randrange(5) for _ in range(dice.randrange(1, 4))],
                    dice.choice([None, None, 0, 5000]),
                    dice.random() < 0.8,
                )
                for _ in range(dice.randrange(1, 4))
            ]
            await oracle.settle(hand, wishes)
            if step % 5 == 0:
                await oracle.forge(hand, dice.choice(hand.held[-6:]), dice.randrange(1 << 63))
        if step % 10 == 9:
            await oracle.check()
    await oracle.check()


def _one_in_hand(hand: Hand, dice: random.Random) -> int:
    """Mostly one of the latest claims that are open; else any, so that late answers are heard too."""
    open_ = [number for number, held in enumerate(hand.held[-6:]) if not held.ended]
    return dice.choice(open_) if open_ and dice.random() < 0.7 else dice.randrange(6)


@pytest.mark.parametrize("seed", [3, 4])
@pytest.mark.cases(1)
async def test_random_histories_of_groups_with_very_many_queues(
    stage: Stage, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn that looks first which queues it has to do with does what one does that locks them all."""
    monkeypatch.setattr(locked_rows, "MANY", 1)
    monkeypatch.setattr(locked_rows, "_NEEDED", 1)
    await test_random_histories(stage, 1, seed)


async def test_everything_comes_to_rest(stage: Stage) -> None:
    """I1 to the end: whatever was accepted is acked or dead in each group, or cancelled."""
    dice = random.Random(3)
    oracle = await Oracle.begin(stage.store)
    for queue in (0, 1):
        await oracle.publish([dice.choice(_DELAYS) for _ in range(40)], queue)
    waiting = [m.id for m in oracle.messages.values() if m.state == "waiting"]
    await oracle.cancel(dice.sample(waiting, 10))
    left = len(oracle.messages) - 10
    while any(hand.acked + hand.deaths < left for hand in oracle.hands):
        assert oracle.now < START + 48 * HOUR, "some never come to rest"
        oracle.now += 5 * MINUTE
        await oracle.promote([*oracle.messages, *(~id_ for hand in oracle.hands for id_ in hand.retries)])
        for hand in oracle.hands:
            await oracle.end_leases(hand)
            await oracle.claim(hand, [9, 9, 9], 2 * MINUTE)
            for held in hand.held[-3:]:
                if not held.ended and dice.random() < 0.7:
                    verb: Literal["ack", "fail"] = dice.choice(["ack", "fail", "fail"])
                    await oracle.settle(hand, [(held, Settlement(held.claim.key, verb))])
    await oracle.check()
    for hand in oracle.hands:
        assert hand.acked + hand.deaths == left
        assert hand.deaths
        assert not hand.retries


async def test_what_an_outbox_wrote_is_counted_when_it_leaves(stage: Stage, topic: Topic) -> None:
    """It is marked in `delay`, and counted by whoever takes it from there: promotion or a cancel."""
    receipts = await stage.schedule(topic, SECOND, SECOND, HOUR, HOUR)
    stage.tables.rows("UPDATE delay SET uncounted = 1")
    stage.tables.rows("UPDATE tally SET scheduled = 0")
    assert (await stage.state(topic)).accepted == 0
    assert len(await stage.fall_due(after=SECOND)) == 2
    await stage.counts(topic, accepted=2, streamed=2, cancelled=0)
    await stage.store.cancel([receipts[2].id], stage.now)
    await stage.store.write(timers.reschedule, [(receipts[3].id, stage.now)], stage.now)
    assert len(await stage.fall_due()) == 1
    await stage.counts(topic, accepted=4, streamed=3, cancelled=1, pending=0)


async def test_what_an_outbox_cancelled_is_counted_in_batches(stage: Stage, topic: Topic) -> None:
    assert await stage.store.count_outbox(2) == {}
    stage.tables.rows(
        "INSERT INTO outbox_cancel (shard, id, topic_id, scheduled) "
        f"VALUES (1, 1, {topic.id}, 1), (2, 2, {topic.id}, 0), (3, 3, {topic.id}, 1)"
    )
    assert await stage.store.count_outbox(2) == {topic.id: (2, 1)}
    assert await stage.store.count_outbox(2) == {topic.id: (1, 1)}
    assert await stage.store.count_outbox(2) == {}
    await stage.counts(topic, accepted=2, cancelled=3)


async def test_an_ack_from_outside_is_counted_by_the_next_turn(stage: Stage, topic: Topic, group: Group) -> None:
    await stage.publish(*(stage.draft(topic) for _ in range(3)))
    claim = await stage.claim(group)
    stage.tables.rows("UPDATE claim SET outcome = x'101000'")
    await stage.counts(group, acked=0, claimed=3)
    assert (await stage.store.read(group_counts.of_groups, [group]))[group.id].claimed == 3
    assert (await stage.fail(group, claim, (0,))).lost
    assert (await stage.group_state(group)).acked == 2
    failed = await stage.fail(group, claim)
    assert (failed.retried, failed.ended) == (1, True)
    await stage.counts(group, acked=2, retried=1, claimed=0)
    assert stage.column("SELECT outcome FROM delivery") == [b"\1\1\2"]

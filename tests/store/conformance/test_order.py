"""I11 under random histories: fails, lost leases, clients that come and go, chains within chains."""

import random
from typing import Literal

import pytest
import trio
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from support.effort import examples, full
from support.order import CLIENTS, Watch
from support.still import StillBackend
from support.stores import Stage
from tarry.store.groups.owners import share
from tarry.store.records import Claim, ClaimRequest
from tarry.store.sqlite.connection import drive
from tarry.store.store import Store
from tarry.store.timers import timers
from tarry.wheel.ladder import Ladder

_KEYS = ("a", "b", "c", None)
_STEPS = (0, 1, 999, 1000, 5000, 60_000)


class Orders(RuleBasedStateMachine):
    """On the embedded store, in memory: nothing there ever suspends, so it is driven step by step."""

    @initialize(queues=st.integers(1, 3))
    def begin(self, queues: int) -> None:
        self.backend = StillBackend()
        self.watch = drive(Watch.begin(Store(self.backend), queues))

    def teardown(self) -> None:
        if hasattr(self, "backend"):
            drive(self.watch.finish())
            self.backend.close()

    @rule(keys=st.lists(st.sampled_from(_KEYS), min_size=1, max_size=6))
    def publish(self, keys: list[str | None]) -> None:
        drive(self.watch.publish(keys))

    @rule(step=st.sampled_from(_STEPS))
    def wait(self, step: int) -> None:
        self.watch.now += step
        drive(self.watch.fall_due())

    @rule(
        sizes=st.lists(st.tuples(st.sampled_from(CLIENTS), st.integers(1, 6)), min_size=1, max_size=4),
        lease=st.sampled_from([1000, 600_000]),
        present=st.lists(st.sampled_from(CLIENTS), max_size=3),
    )
    def claim(self, sizes: list[tuple[str, int]], lease: int, present: list[str]) -> None:
        drive(self.watch.end_leases())
        drive(self.watch.claim(sizes, lease, present))

    @precondition(lambda self: self.watch.held)
    @rule(
        number=st.integers(0, 1 << 16),
        verb=st.sampled_from(["ack", "fail", "fail", "end"]),
        pick=st.lists(st.integers(0, 6), max_size=3),
        retry_after=st.none() | st.sampled_from([0, 1, 2500]),
        count=st.integers(0, 1),
    )
    def settle(
        self, number: int, verb: Literal["ack", "fail", "end"], pick: list[int], retry_after: int | None, count: int
    ) -> None:
        held = self.watch.held[-1 - number % min(4, len(self.watch.held))]
        how = {} if retry_after is None else {"retry_after": retry_after}
        drive(self.watch.settle(held, verb, pick, count=count, at_once=number % 2, **how))

    @rule(step=st.sampled_from(_STEPS))
    def end_leases(self, step: int) -> None:
        self.watch.now += step
        drive(self.watch.end_leases())

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "watch"):
            drive(self.watch.check())


TestOrders = full(Orders.TestCase)
TestOrders.settings = settings(
    max_examples=examples(40, 150),
    stateful_step_count=40,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_random_orders(stage: Stage, seed: int) -> None:
    """Less of the same on every backend."""
    dice = random.Random(seed)
    watch = await Watch.begin(stage.store, queues=seed)
    for step in range(150):
        match dice.randrange(6):
            case 0:
                await watch.publish([dice.choice(_KEYS) for _ in range(dice.randrange(1, 8))])
            case 1:
                watch.now += dice.choice(_STEPS)
                await watch.fall_due()
            case 2 | 3:
                await watch.end_leases()
                sizes = [(dice.choice(CLIENTS), dice.randrange(1, 7)) for _ in range(dice.randrange(1, 4))]
                await watch.claim(sizes, dice.choice([1000, 600_000]), dice.sample(CLIENTS, dice.randrange(4)))
            case _:
                if watch.held:
                    held = dice.choice(watch.held[-4:])
                    verb: Literal["ack", "fail", "end"] = dice.choice(["ack", "fail", "fail", "end"])
                    pick = [dice.randrange(6) for _ in range(dice.randrange(3))]
                    rest = {} if dice.random() < 0.5 else {"retry_after": dice.choice([0, 1, 2500])}
                    await watch.settle(held, verb, pick, count=dice.randrange(2), at_once=dice.randrange(2), **rest)
        if step % 10 == 9:
            await watch.check()
    await watch.finish()


@pytest.mark.parametrize("seed", [1, 2])
async def test_clients_at_once(stage: Stage, seed: int) -> None:
    """Tasks of their own: nobody is handed a message before somebody has begun to ack all that lies before it."""
    dice = random.Random(seed)
    topic, group = await stage.topic_and_group(queues=3, ladder=Ladder((1, 2, 3) * 10), ordered=True)
    number_of = {key: dice.randrange(3) for key in _KEYS}
    streams: dict[str | None, list[int]] = {}
    acked: set[int] = set()
    open_ = 1

    async def publish() -> None:
        for _ in range(12):
            keys = [dice.choice(_KEYS) for _ in range(dice.randrange(1, 15))]
            drafts = [stage.draft(topic, ordering_key=key, queue=number_of[key]) for key in keys]
            for key, receipt in zip(keys, await stage.publish(*drafts), strict=True):
                streams.setdefault(key, []).append(receipt.id)

    def look(claim: Claim) -> None:
        with_it: set[int] = set()
        for message in claim.messages:
            assert message.id not in acked, "acked, and handed out again"
            stream = streams.get(message.ordering_key, [])
            # What its publisher has not been told of yet lies behind all that is told of.
            before = stream[: stream.index(message.id)] if message.id in stream else stream
            assert acked | with_it >= set(before), "one before it is not settled"
            with_it.add(message.id)

    async def consume(client: str) -> None:
        while not done():
            request = ClaimRequest(client, dice.randrange(1, 6), 10**9)
            (claim,) = (await stage.store.turn(group, [], [request], stage.now, CLIENTS)).claims
            if claim is None:
                continue
            look(claim)
            left = list(claim.places.items())
            while left:
                some, left = left[: (many := dice.randrange(1, 4))], left[many:]
                places = tuple(place for _, place in some)
                if dice.random() < 0.2:
                    left = []  # those behind a failed one go with it, so all goes
                    await stage.fail(group, claim)
                else:
                    acked.update(id_ for id_, _ in some)
                    assert (await stage.ack(group, claim, places)).acked == len(some)

    async def promote() -> None:
        while not done():
            stage.now += 1
            await stage.promote(*(entry for _, entry in await stage.store.read(timers.near, 0, stage.now + 1, 100)))

    def done() -> bool:
        return not open_ and len(acked) == sum(map(len, streams.values()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(promote)
        for client in CLIENTS:
            nursery.start_soon(consume, client)
        await publish()
        open_ = 0
    state = await stage.group_state(group)
    assert (state.acked, state.parked, state.claimed) == (len(acked), 0, 0)
    assert state.retried > 5


@pytest.mark.parametrize("seed", range(20))
def test_queues_are_shared_fairly_and_stay_where_they_are(seed: int) -> None:
    dice = random.Random(seed)
    queues = list(range(dice.randrange(1, 9)))
    owners: dict[int, str] = {}
    for _ in range(30):
        members = dice.sample(("a", "b", "c", "d"), dice.randrange(1, 5))
        busy = {queue: owner for queue, owner in owners.items() if owner in members and dice.random() < 0.3}
        shared = share(queues, owners, busy, members)
        assert set(shared) == set(queues)
        assert all(shared[queue] == owner for queue, owner in busy.items()), "in hands, and taken away"
        if not busy:
            shares = [list(shared.values()).count(member) for member in members]
            assert max(shares) - min(shares) <= 1
            again = share(queues, shared, {}, members)
            assert again == shared, "nothing moves without a reason"
            kept = sum(owners.get(queue) == owner for queue, owner in shared.items())
            most = sum(min(list(owners.values()).count(m), max(shares)) for m in members)
            assert kept >= most - len(members), "what may stay stays"
        owners = shared

"""A coordinator combines, lets claims wait without asking the store, gives back what nobody takes, ends lost leases."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from typing import Any, cast

import pytest
import trio
import trio.testing
from attrs import evolve

from support.hand_time import HandTime
from support.waiting import until
from tarry.service.engine.consume import coordinator
from tarry.service.engine.consume.coordinator import Coordinator
from tarry.service.engine.consume.turns import Turns
from tarry.service.engine.state.directory import Directory
from tarry.service.engine.state.doorbells import Doorbell
from tarry.service.errors import Busy
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.errors import GroupGone, Locked, Unavailable
from tarry.store.groups import claims
from tarry.store.records import Claim, ClaimRequest, Draft, Gather, Group, Publication, Settled, Settlement, Topic, Turn
from tarry.store.store import Store

LEASE = 60_000


class Counter(HandTime):
    """A coordinator over a real embedded store, with every turn noted."""

    def __init__(self, store: Store, topic: Topic, group: Group) -> None:
        super().__init__()
        self.store = store
        self.topic = topic
        self.group = group
        self.turns: list[tuple[int, int]] = []
        self.away = False
        self.locked = False
        """A user's transaction holds every claim."""
        self.held = False
        """Another transaction is working on the group."""
        self.place: tuple[int, int] = (0, 1)
        """Of this node, and how many they are."""
        self.spoilt: set[int] = set()
        """Numbers of claims with which every turn fails."""
        self.refused = 0
        self.gate: trio.Event | None = None
        self.line: trio.Event | None = None
        """Turns stand in line for the group until then."""
        self.timers: list[tuple[int, int]] = []
        self.bell = Doorbell[Any]()
        self.coordinator = Coordinator(group, cast(Directory, self), self.clock, cast(Turns, self), self.bell)

    def group_by_id(self, id_: int) -> Group:
        return self.group

    async def take(self, group: Group, gather: Gather, _present: Collection[str]) -> Turn:
        if self.line is not None:
            gather()
            await self.line.wait()
        settlements, requests, now = gather()
        if self.away:
            raise Unavailable("away")
        if self.held:
            self.refused += 1
            raise Locked("somebody is working on it")
        self.turns.append((len(settlements), len(requests)))
        if self.spoilt.intersection(settlement.key.number for settlement in settlements):
            raise IndexError("bytearray index out of range")
        if self.locked:
            return Turn(tuple(Settled(locked=True) for _ in settlements), tuple(None for _ in requests))
        turn = await self.store.turn(group, settlements, requests, now, place=self.place)
        if self.gate is not None:
            await self.gate.wait()
        return turn

    def tell(self, _group: Group, _settlements: Sequence[Settlement], turn: Turn) -> None:
        self.timers += [timer for settled in turn.settled if settled for timer in settled.timers]

    async def publish(self, count: int, *, tag: str | None = None, told: bool = True) -> None:
        draft = Draft(topic=self.topic, queue=self.topic.queues[0], body=b"1", tag=tag)
        await self.store.publish([Publication((draft,) * count)], self.clock.now())
        if told:
            self.bell.ring()

    async def claim(
        self, size: int = 10, wait: int = 0, lease: int = LEASE, tags: frozenset[str] | None = None
    ) -> Claim | None:
        return await self.coordinator.claim(ClaimRequest("client", size, lease, tags), wait)

    async def claimed(self, size: int = 10, **wish: Any) -> Claim:
        """As `claim`, where there is something."""
        claim = await self.claim(size, **wish)
        assert claim is not None
        return claim

    def ask(self, nursery: trio.Nursery, size: int = 10, wait: int = 0) -> list[Claim | None]:
        """Somebody asks in a task of his own; what he is given will be in the list."""
        got: list[Claim | None] = []

        async def ask() -> None:
            got.append(await self.claim(size, wait))

        nursery.start_soon(ask)
        return got

    async def settle(self, claim: Claim, verb: Any = "ack", *ids: Any, **more: Any) -> Settled:
        settled = await self.coordinator.settle(Settlement(claim.key, verb, *ids, **more))
        assert settled is not None
        return settled


@pytest.fixture
async def counter(store: Store, nursery: trio.Nursery) -> AsyncIterator[Counter]:
    topic = await store.write(catalogue.add_topic, TopicDraft("orders"), 1)
    group = await store.add_group(topic, "billing", 1)
    counter = Counter(store, topic, group)
    await counter.clock.take()
    nursery.start_soon(counter.coordinator.run)
    yield counter
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("wait", [0, 1000])
async def test_who_finds_nothing_in_the_nodes_own_queues_is_given_of_the_others(counter: Counter, wait: int) -> None:
    counter.topic = await counter.store.write(catalogue.add_topic, TopicDraft("wide", queues=2), 1)
    counter.group = await counter.store.add_group(counter.topic, "billing", 1)
    await counter.publish(2)  # in the first queue
    counter.place = (1, 2)
    claim = await counter.claimed(wait=wait)
    assert len(claim.messages) == 2
    assert counter.turns == [(0, 1), (0, 1)], "its own queue, and then all"
    assert await counter.claim() is None


async def test_claims_and_acks_that_wait_go_together(counter: Counter) -> None:
    await counter.publish(100)
    async with trio.open_nursery() as consumers:
        answers = [counter.ask(consumers) for _ in range(8)]
    claims = [claim for got in answers for claim in got if claim is not None]
    assert sum(requests for _, requests in counter.turns) == 8
    assert len(counter.turns) <= 2
    ids = [message.id for claim in claims for message in claim.messages]
    assert len(ids) == len(set(ids)) == 80
    counter.turns.clear()
    async with trio.open_nursery() as consumers:
        for claim in claims:
            consumers.start_soon(counter.settle, claim, "ack")
    assert sum(settlements for settlements, _ in counter.turns) == 8
    assert len(counter.turns) <= 2


async def test_who_comes_while_a_turn_stands_in_line_is_of_it(counter: Counter) -> None:
    """At its own time: what failed meanwhile rests from then on."""
    await counter.publish(30)
    held, failed = await counter.claimed(size=1), await counter.claimed(size=1)
    counter.turns.clear()
    counter.line = trio.Event()
    async with trio.open_nursery() as consumers:
        first = counter.ask(consumers, size=5)
        await trio.testing.wait_all_tasks_blocked()
        counter.ms += 700
        second = counter.ask(consumers, size=5)
        consumers.start_soon(counter.settle, held, "ack")
        consumers.start_soon(counter.coordinator.settle, Settlement(failed.key, "fail", retry_after=1000))
        await trio.testing.wait_all_tasks_blocked()
        assert counter.turns == []
        counter.line.set()
    assert counter.turns == [(2, 2)]
    assert [len(claim.messages) for claim in first + second if claim] == [5, 5]
    assert [due for due, _ in counter.timers] == [counter.ms + 1000]


@pytest.mark.parametrize("wrong", ["away", "held"])
async def test_who_came_while_a_turn_stood_in_line_hears_what_becomes_of_it(
    counter: Counter, autojump_clock: trio.testing.MockClock, wrong: str
) -> None:
    await counter.publish(1)
    held = await counter.claimed()
    counter.line = trio.Event()
    setattr(counter, wrong, True)
    heard: list[type[Exception]] = []

    async def hear(ask: Callable[..., Awaitable[object]], *args: object) -> None:
        try:
            await ask(*args)
        except (Busy, Unavailable) as error:
            heard.append(type(error))

    counter.bell.ring()
    async with trio.open_nursery() as waiting:
        waiting.start_soon(hear, counter.settle, held)
        await trio.testing.wait_all_tasks_blocked()
        waiting.start_soon(hear, counter.claim)
        await trio.testing.wait_all_tasks_blocked()
        counter.line.set()
    assert heard == [Unavailable if wrong == "away" else Busy] * 2


async def test_an_empty_queue_is_asked_once(counter: Counter) -> None:
    for _ in range(20):
        assert await counter.claim() is None
    assert len(counter.turns) == 1


async def test_after_a_while_an_empty_queue_is_asked_again(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another server may have published, and nobody has told."""
    monkeypatch.setattr(coordinator, "_SURE", 0.0)
    assert await counter.claim() is None
    await counter.publish(1, told=False)
    await counter.claimed()
    assert len(counter.turns) == 2


async def test_after_a_while_a_full_group_is_asked_again(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another server may have settled what it had in hand."""
    monkeypatch.setattr(coordinator, "_SURE", 0.0)
    counter.group = evolve(counter.group, concurrency=1)
    await counter.publish(2)
    claim = await counter.claimed()
    assert await counter.claim() is None
    await counter.store.turn(counter.group, [Settlement(claim.key, "ack")], [], counter.clock.now())
    assert await counter.claim() is not None


async def test_a_waiting_claim_costs_nothing_until_there_may_be_something(counter: Counter) -> None:
    async with trio.open_nursery() as waiting:
        got = counter.ask(waiting, wait=60_000)
        await until(lambda: counter.turns)
        turns = len(counter.turns)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert len(counter.turns) == turns
        await counter.publish(1)
    assert got[0] is not None
    assert len(got[0].messages) == 1


async def test_a_wait_that_is_over_gets_nothing(counter: Counter) -> None:
    assert await counter.claim(wait=1) is None
    await counter.publish(1)
    await counter.claimed()  # what comes later is not claimed for somebody who has left


async def test_a_wait_that_is_over_while_a_turn_runs_gets_that_turns_answer(counter: Counter) -> None:
    counter.gate = trio.Event()
    with trio.fail_after(5):
        async with trio.open_nursery() as asking:
            got = counter.ask(asking, wait=1)
            await until(lambda: counter.turns)
            await trio.sleep(0.005)  # the wait itself is a millisecond of real time
            counter.gate.set()
    assert got == [None]


async def test_a_trickle_is_claimed_in_handfuls(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "_PACE", 3600)
    await counter.publish(1)
    first = await counter.claimed()  # who comes after a rest does not wait
    await counter.publish(1)
    assert await counter.claim(wait=10) is None
    assert (await counter.settle(first)).acked == 1, "acks are not held up"


async def test_more_that_waits_is_claimed_without_a_pause(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "_PACE", 3600)
    await counter.publish(20)
    assert await counter.claim(10) is not None
    assert await counter.claim(10) is not None


async def claim_and_go(counter: Counter) -> trio.Event:
    """Somebody asks, and is gone before the turn that is to serve him goes on behind the gate, which is returned."""
    await counter.publish(1)
    counter.gate = gate = trio.Event()
    async with trio.open_nursery() as asking:
        asking.start_soon(counter.claim)
        await until(lambda: counter.turns)
        asking.cancel_scope.cancel()
    return gate


async def test_a_claim_for_a_client_that_has_gone_comes_back_uncounted(counter: Counter) -> None:
    gate = await claim_and_go(counter)
    gate.set()
    await until(lambda: counter.timers)
    ((due, entry),) = counter.timers
    assert due == counter.ms, "at once"
    await counter.store.promote([entry], counter.clock.now())
    counter.bell.ring()
    assert (await counter.claimed()).messages[0].attempt == 1


async def leave_a_claim(counter: Counter, trouble: str) -> None:
    """A claim is granted to somebody who has gone, and cannot be given back now."""
    gate = await claim_and_go(counter)
    setattr(counter, trouble, True)
    gate.set()


async def pass_time(counter: Counter, seconds: int) -> None:
    """On a clock that jumps: no second before the store has done what was asked of it in the one before."""
    for _ in range(seconds):
        counter.ms += 1000
        await trio.sleep(1)


@pytest.mark.parametrize("trouble", ["held", "away", "locked"])
async def test_what_nobody_took_is_given_back_however_long_that_takes(
    counter: Counter, autojump_clock: trio.testing.MockClock, trouble: str
) -> None:
    await leave_a_claim(counter, trouble)
    await pass_time(counter, 20)
    assert counter.timers == []
    assert len(counter.turns) < 30
    setattr(counter, trouble, False)
    await pass_time(counter, 2)
    ((due, entry),) = counter.timers
    await counter.store.promote([entry], counter.clock.now())
    counter.bell.ring()
    claim = await counter.claimed()
    assert claim.messages[0].attempt == 1, "it was not counted"
    assert due <= counter.ms


async def test_what_could_not_be_given_back_by_the_end_of_its_lease_is_lost_once(
    counter: Counter, autojump_clock: trio.testing.MockClock
) -> None:
    await leave_a_claim(counter, "held")
    began = counter.ms
    await pass_time(counter, LEASE // 1000 + 5)
    counter.held = False
    await pass_time(counter, 2)
    assert [due for due, _ in counter.timers] == [began + LEASE + counter.group.ladder.rungs[0]]
    assert not counter.coordinator._leases


async def test_a_lease_that_runs_out_goes_to_the_ladder(counter: Counter) -> None:
    await counter.publish(2)
    claim = await counter.claimed(lease=1)
    counter.ms += 1
    counter.bell.ring()
    await counter.claim()  # wakes the coordinator, which looks at its leases
    await until(lambda: counter.timers)
    first_rung = counter.group.ladder.rungs[0]
    assert [due for due, _ in counter.timers] == [claim.lease_until + first_rung] * 2
    assert (await counter.settle(claim)).lost


async def test_an_extended_lease_is_not_ended(counter: Counter) -> None:
    await counter.publish(1)
    claim = await counter.claimed(lease=50)
    assert (await counter.settle(claim, "extend", lease=LEASE)).lease_until == counter.ms + LEASE
    counter.ms += 51
    await counter.publish(1)
    assert await counter.claim() is not None
    assert (await counter.settle(claim)).acked == 1
    assert counter.timers == []


async def test_a_store_that_is_away_is_told_to_those_who_wait(counter: Counter) -> None:
    await counter.publish(1)
    counter.away = True
    with pytest.raises(Unavailable):
        await counter.claim()
    counter.away = False
    assert await counter.claim() is not None


async def test_a_desk_that_stops_sends_claims_home_and_goes_on_settling(counter: Counter) -> None:
    await counter.publish(1)
    claim = await counter.claimed()
    async with trio.open_nursery() as waiting:
        waiting.start_soon(counter.claim, 1, 60_000)
        await trio.testing.wait_all_tasks_blocked(0.01)
        counter.coordinator.stop()
    await counter.publish(1)
    assert await counter.claim() is None
    assert (await counter.settle(claim)).acked == 1


async def test_a_lease_is_ended_when_the_users_transaction_that_acks_of_it_is_over(
    counter: Counter, autojump_clock: trio.testing.MockClock
) -> None:
    await counter.publish(1)
    claim = await counter.claimed(lease=50)
    counter.locked = True
    counter.ms += 51
    assert (await counter.settle(claim)).locked
    counter.ms += 1000
    assert (await counter.settle(claim, "extend", lease=1)).locked
    assert counter.timers == []
    counter.locked = False
    counter.ms += 1000
    await counter.settle(claim)
    assert len(counter.timers) == 1


async def test_a_claim_by_tag_does_not_go_home_while_there_is_more(counter: Counter) -> None:
    await counter.publish(claims.SCAN + 1, tag="blue")
    await counter.publish(1, tag="red")
    claim = await counter.claimed(tags=frozenset({"red"}))
    assert [message.tag for message in claim.messages] == ["red"]
    assert len(counter.turns) == 2
    assert await counter.claim(tags=frozenset({"red"})) is None


async def test_a_full_group_waits_until_something_is_settled(counter: Counter) -> None:
    counter.group = evolve(counter.group, concurrency=2)
    await counter.publish(5)
    first = await counter.claimed()
    assert len(first.messages) == 2
    assert await counter.claim() is None
    async with trio.open_nursery() as waiting:
        got = counter.ask(waiting, wait=60_000)
        await trio.testing.wait_all_tasks_blocked(0.01)
        asked = len(counter.turns)
        for _ in range(5):
            await counter.publish(1)
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert len(counter.turns) == asked, "what is published cannot be handed out: nobody asks for it"
        await counter.coordinator.settle(Settlement(first.key, "ack", (0,)))
    assert got[0] is not None
    assert len(got[0].messages) == 1


async def test_a_higher_limit_wakes_who_waits(counter: Counter) -> None:
    counter.group = evolve(counter.group, concurrency=1)
    await counter.publish(3)
    assert await counter.claim() is not None
    async with trio.open_nursery() as waiting:
        got = counter.ask(waiting, wait=60_000)
        await trio.testing.wait_all_tasks_blocked(0.01)
        counter.group = evolve(counter.group, concurrency=None)
        counter.bell.look_again()
    assert got[0] is not None
    assert len(got[0].messages) == 2


@pytest.mark.parametrize(("published", "left"), [(1, 0), (4, 2)])
async def test_a_claim_that_comes_during_a_turn_hears_what_that_turn_left(
    counter: Counter, published: int, left: int
) -> None:
    """It does not wait for messages, but whether there are any is not known before the turn is over."""
    await counter.publish(published)
    counter.gate = trio.Event()
    with trio.fail_after(30):
        async with trio.open_nursery() as asking:
            first = counter.ask(asking, 2)
            await until(lambda: counter.turns)
            second = counter.ask(asking, 2)
            await trio.testing.wait_all_tasks_blocked(0.01)
            counter.gate.set()
    counts = sorted(0 if claim is None else len(claim.messages) for claim in first + second)
    assert counts == sorted([published - left, left])


async def test_a_group_that_is_held_is_waited_for_a_while(
    counter: Counter, autojump_clock: trio.testing.MockClock
) -> None:
    await counter.publish(2)
    first = await counter.claimed(1)
    counter.held = True
    told: list[str] = []

    async def ask(what: str, *args: Any) -> None:
        with pytest.raises(Busy):
            await (counter.settle if what == "ack" else counter.claim)(*args)
        told.append(what)

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "claim", 1)
        nursery.start_soon(ask, "poll", 1, 500)
        nursery.start_soon(ask, "ack", first)
    assert told[0] == "poll"
    assert 0.5 < trio.current_time() - began < 5
    settled: list[Settled | None] = []

    async def ack_in_time() -> None:
        settled.append(await counter.settle(first))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ack_in_time)
        await trio.sleep(1)
        assert not settled
        counter.held = False
    assert [one.acked for one in settled if one] == [1]
    await counter.claimed(1)  # nothing was claimed for who was told


async def test_a_lease_that_ends_while_the_group_is_held_is_ended_afterwards(counter: Counter) -> None:
    await counter.publish(1)
    claim = await counter.claimed(1, lease=1_000)
    counter.held = True
    counter.ms += 1_000
    counter.coordinator.watch(claim.key, counter.ms)
    await until(lambda: counter.refused)
    with trio.fail_after(10):
        counter.held = False
        while not counter.timers:
            counter.ms += 100
            counter.bell.ring()
            counter.coordinator.watch(claim.key, counter.ms)  # the clock is stepped by hand, and wakes nobody
            await trio.sleep(0.01)
    assert len(counter.timers) == 1


def pause(counter: Counter, *, paused: bool = True) -> None:
    counter.group = evolve(counter.group, paused=paused)
    counter.bell.look_again()


async def test_a_group_that_is_paused_is_asked_nothing(counter: Counter) -> None:
    await counter.publish(3)
    pause(counter)
    assert await counter.claim() is None
    assert await counter.claim(wait=1) is None
    assert counter.turns == []
    pause(counter, paused=False)
    assert len((await counter.claimed()).messages) == 3


@pytest.mark.parametrize("comes", ["before", "while it waits"])
async def test_who_waits_while_a_group_is_paused_is_served_when_it_is_resumed(counter: Counter, comes: str) -> None:
    if comes == "before":
        await counter.publish(1)
    pause(counter)
    with trio.fail_after(5):
        async with trio.open_nursery() as waiting:
            got = counter.ask(waiting, wait=60_000)
            await trio.testing.wait_all_tasks_blocked(0.01)
            if comes != "before":
                await counter.publish(1)
                await trio.testing.wait_all_tasks_blocked(0.01)
            assert (got, counter.turns) == ([], [])
            pause(counter, paused=False)
    assert got[0] is not None


async def test_who_does_not_wait_goes_home_when_a_group_is_paused(
    counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """He was there before, for the next turn of a trickle."""
    monkeypatch.setattr(coordinator, "_PACE", 3600)
    await counter.publish(1)
    assert await counter.claim() is not None
    await counter.publish(1)
    with trio.fail_after(5):
        async with trio.open_nursery() as asking:
            got = counter.ask(asking)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert got == []
            pause(counter)
    assert got == [None]


async def test_a_paused_group_is_settled_and_its_leases_run_out(counter: Counter) -> None:
    """Who waits gets nothing of such a turn."""
    await counter.publish(3)
    first, second = await counter.claimed(1), await counter.claimed(1)
    pause(counter)
    async with trio.open_nursery() as waiting:
        waiting.start_soon(counter.claim, 1, 60_000)
        await trio.testing.wait_all_tasks_blocked(0.01)
        turns = len(counter.turns)
        assert (await counter.settle(first)).acked == 1
        counter.ms += LEASE
        counter.coordinator.watch(second.key, counter.ms)
        await until(lambda: counter.timers)
        waiting.cancel_scope.cancel()
    assert [asked for _, asked in counter.turns[turns:]] == [0, 0]
    assert await counter.claim() is None


async def test_a_turn_that_was_refused_while_a_group_is_paused_keeps_nobody(counter: Counter) -> None:
    counter.held = True
    await counter.publish(1)
    with trio.fail_after(5):
        async with trio.open_nursery() as asking:
            got = counter.ask(asking)
            await until(lambda: counter.refused)
            pause(counter)
    assert got == [None]


async def test_a_wait_that_is_over_while_a_group_is_paused_gets_nothing(
    counter: Counter, mock_clock: trio.testing.MockClock
) -> None:
    """Also his whose last turn was to be gone on with."""
    pause(counter)
    with trio.fail_after(5):
        async with trio.open_nursery() as asking:
            got = counter.ask(asking, wait=50)
            await trio.testing.wait_all_tasks_blocked()
            (waiting,) = counter.bell.asking
            waiting.cut = True
            mock_clock.jump(0.05)
    assert got == [None]


async def test_a_claim_that_is_spoilt_takes_no_neighbour_along(counter: Counter) -> None:
    await counter.publish(9)
    claims = [await counter.claimed(1) for _ in range(8)]
    counter.spoilt = {claims[3].key.number}
    acked: dict[int, object] = {}

    async def ack(number: int) -> None:
        try:
            acked[number] = await counter.settle(claims[number])
        except IndexError as error:
            acked[number] = error

    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(ack, number)
        await trio.testing.wait_all_tasks_blocked()
        assert await counter.claim(1) is not None, "who asks neither"
    assert isinstance(acked.pop(3), IndexError)
    assert list(acked.values()) == [Settled(acked=1, ended=True)] * 7
    # Its lease is over, which nobody waits for: it is tried again, and not all the time.
    turns = len(counter.turns)
    counter.ms += LEASE
    await counter.publish(1)
    counter.bell.wake.set()
    with trio.fail_after(10):
        while len(counter.turns) < turns + 3:
            await counter.claim(1, wait=20)
            counter.bell.ring()
            await trio.sleep(0.001)
    alone = [turn for turn in counter.turns[turns:] if turn[0]]
    assert len(alone) <= 3, alone
    counter.spoilt.clear()
    counter.ms += LEASE
    counter.bell.wake.set()
    await until(lambda: counter.timers)


async def test_when_the_group_is_removed_who_waits_goes_home_at_once(counter: Counter, nursery: trio.Nursery) -> None:
    """Also while a turn is under way; what comes later is not waited for."""
    await counter.publish(1)
    claim = await counter.claimed()
    gate = counter.gate = trio.Event()
    home: list[str] = []

    async def ask(name: str) -> None:
        counter.bell.look_again()
        assert await counter.claim(wait=3_600_000) is None
        home.append(name)

    nursery.start_soon(ask, "of the turn")
    await until(lambda: len(counter.turns) == 2)
    nursery.start_soon(ask, "behind it")
    await until(lambda: counter.bell.asking)
    counter.bell.retire()
    await until(lambda: home)
    assert home == ["behind it"]
    gate.set()
    await until(lambda: len(home) == 2)
    assert await counter.claim(wait=3_600_000) is None
    with pytest.raises(GroupGone):
        await counter.settle(claim)

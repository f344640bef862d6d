"""Clients that live, die and go, over a whole node whose clock is moved by hand; no ordering key in two hands."""

import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from support import nodes
from support.embedded import embedded
from support.failing import failing
from support.hand_time import HandTime
from support.running import running
from tarry.service import tasks
from tarry.service.engine.consume.coordinator import Coordinator
from tarry.service.errors import Overloaded
from tarry.service.making import begin
from tarry.service.metrics import Metrics
from tarry.service.node import Node
from tarry.service.settings import Settings
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.errors import Unavailable
from tarry.store.groups import clients, holdings
from tarry.store.records import Claim, ClaimKey, ClaimRequest, Draft, Group, Publication, ReadRequest, Settled
from tarry.store.store import Store

MINUTE = 60_000


class Town(HandTime):
    """A node on an embedded store, and short words for what clients do."""

    group: Group

    def __init__(self, path: Path, client_timeout: int = 15_000) -> None:
        super().__init__()
        self.step = 5_000
        settings = Settings(client_timeout=client_timeout, ladder=(1000,) * 50)
        self.server = begin(embedded(path), settings, Metrics(), clock=self.clock)

    @property
    def node(self) -> Node:
        return self.server.node

    async def begin(self, *, ordered: bool, queues: int = 1) -> None:
        topic, _ = await self.node.catalogue.put_topic(TopicDraft("orders", queues=queues, ordered=ordered))
        self.group = await self.node.directory.group(topic, "billing")

    async def publish(self, *keys: str) -> None:
        topic = self.group.topic
        for key in keys:
            queue = self.node.intake.choose_queue(topic, key)
            draft = Draft(topic=topic, queue=queue, body=key.encode(), ordering_key=key)
            await self.node.intake.publish(Publication((draft,)))

    async def claim(self, client: str, size: int = 10, wait: int = 0, lease: int = MINUTE) -> Claim | None:
        return await nodes.claim(self.node, self.group, client, size, wait, lease)

    async def claimed(self, client: str, size: int = 10, lease: int = MINUTE) -> Claim:
        """As `claim`, where there is something."""
        claim = await self.claim(client, size, lease=lease)
        assert claim is not None
        return claim

    def poll(self, client: str, nursery: trio.Nursery) -> list[Claim | None]:
        """It waits in a task of its own; what it is given will be in the list."""
        got: list[Claim | None] = []

        async def poll() -> None:
            got.append(await self.claim(client, wait=600_000))

        nursery.start_soon(poll)
        return got

    async def ack(self, claim: Claim, ids: list[int] | None = None) -> Settled:
        return await self.node.groups.settle(nodes.name_of(claim), "ack", ids=ids)

    async def pass_time(self, ms: int) -> None:
        """Time passes, and what the service does every second is done, often enough for it to be no leap."""
        while ms:
            step = min(ms, self.step)
            self.ms, ms = self.ms + step, ms - step
            for _ in range(2):  # one turn may have been under way
                self.node.pending.wake.set()
                await self.node.dispatcher.turned()
            await tasks.look_after_clients(self.node)

    async def clients(self) -> tuple[str, ...]:
        return (await self.node.groups.state(self.group)).clients


@pytest.fixture
async def town(tmp_path: Path) -> AsyncIterator[Town]:
    town = Town(tmp_path / "tarry.db")
    async with running(town.server):
        yield town


async def test_a_dead_clients_claims_end_at_once(town: Town) -> None:
    await town.begin(ordered=False)
    await town.publish("a", "b")
    assert await town.node.liveness.renew("ann") == town.ms + 15_000
    claim = await town.claimed("ann")
    await town.pass_time(14_999)
    assert (await town.node.groups.settle(nodes.name_of(claim), "ack", ids=[claim.messages[0].id])).acked == 1
    await town.pass_time(1)
    assert (await town.ack(claim)).lost, "an ack is no sign of life"
    await town.pass_time(1001)
    again = await town.claimed("bob")
    assert [(m.body, m.attempt) for m in again.messages] == [(b"b", 2)]
    assert await town.clients() == ("bob",)
    assert await town.node.store.read(clients.all_watched) == {}


async def test_how_long_a_client_lives_is_a_setting(tmp_path: Path) -> None:
    """Of one that renews, and of one that only has a share in the queues of an ordered topic."""
    town = Town(tmp_path / "short.db", client_timeout=2_000)
    town.step = 500
    async with running(town.server):
        await town.begin(ordered=True)
        assert await town.node.liveness.renew("ann") == town.ms + 2_000
        await town.publish("a")
        claim = await town.claimed("ann")
        assert await town.claim("cid") is None
        await town.pass_time(1_999)
        assert set(await town.clients()) == {"ann", "cid"}
        await town.pass_time(1)
        assert (await town.ack(claim)).lost
        assert await town.clients() == ("ann",), "whose queue nobody has asked for yet"


async def test_a_client_that_never_renews_lives_by_its_lease(town: Town) -> None:
    await town.begin(ordered=False)
    await town.publish("a")
    claim = await town.claimed("ann")
    await town.pass_time(MINUTE - 1)
    assert (await town.ack(claim)).acked == 1


@pytest.mark.parametrize("sign", ["renew", "claim", "poll"])
async def test_signs_of_life(town: Town, sign: str, nursery: trio.Nursery) -> None:
    await town.begin(ordered=False)
    await town.publish("a")
    await town.node.liveness.renew("ann")
    claim = await town.claimed("ann", lease=10 * MINUTE)
    for _ in range(4):
        if sign == "renew":
            await town.node.liveness.renew("ann")
        elif sign == "claim":
            assert await town.claim("ann") is None
        else:
            nursery.start_soon(town.claim, "ann", 1, 600_000)
            await trio.testing.wait_all_tasks_blocked(0.01)
        await town.pass_time(14_000)
    assert (await town.ack(claim)).acked == 1


async def test_deregistering_ends_its_claims_and_its_polls(town: Town) -> None:
    await town.begin(ordered=False)
    await town.publish("a", "b")
    claim = await town.claimed("ann", 1)
    other = await town.claimed("bob", 1)
    async with trio.open_nursery() as polling:
        answers = town.poll("ann", polling)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert await town.node.liveness.deregister("ann") == (False, 1)
    assert answers == [None]
    assert (await town.ack(claim)).lost
    assert (await town.ack(other)).acked == 1
    await town.node.liveness.renew("ann")
    assert await town.node.liveness.deregister("ann") == (True, 0)
    assert await town.node.liveness.deregister("ann") == (False, 0)


async def test_liveness_survives_a_restart(tmp_path: Path) -> None:
    town = Town(tmp_path / "other.db")
    store = Store(town.server._store.backend)
    await store.write(clients.renew, {"ann": town.ms - 90_000}, ["ann"])
    topic = await store.write(catalogue.add_topic, TopicDraft("orders"), town.ms)
    town.group = await store.add_group(topic, "billing", town.ms)
    await store.publish([Publication((Draft(topic=topic, queue=topic.queues[0], body=b"1"),))], town.ms)
    (held,) = (await store.turn(town.group, [], [ClaimRequest("ann", 1, 10 * MINUTE)], town.ms)).claims
    assert held is not None
    async with running(town.server):
        await town.pass_time(14_999)
        assert (await store_open(town)) == 1, "it could not renew while the server was away"
        await town.pass_time(1)
        assert (await store_open(town)) == 0


async def store_open(town: Town) -> int:
    return len(await town.node.store.read(holdings.open_claims, ["ann"]))


async def test_the_roster(town: Town, nursery: trio.Nursery) -> None:
    """Who renews, who holds a claim, who waits; by name, with what each holds."""
    await town.begin(ordered=True, queues=2)
    await town.publish("a", "b", "c", "d", "e", "f")
    began = town.ms
    await town.node.liveness.renew("bob")
    await town.pass_time(1_000)
    await town.node.liveness.renew("bob")
    held = {name: await town.claimed(name, 1) for name in ("bob", "ann")}
    await town.node.liveness.renew("zoe")

    town.poll("dan", nursery)
    await trio.testing.wait_all_tasks_blocked(0.01)
    ann, bob, dan, zoe = await town.node.clients.page("", 10)
    assert (ann.name, ann.registered_at, ann.renewed_at, ann.alive) == ("ann", None, None, None)
    assert (bob.name, bob.registered_at, bob.renewed_at, bob.alive) == ("bob", began, began + 1_000, True)
    assert (dan.name, dan.alive, dan.holds) == ("dan", None, ())
    assert (zoe.name, zoe.alive, zoe.holds) == ("zoe", True, ())
    numbers: set[int] = set()
    for one in (ann, bob):
        (mine,) = one.holds
        assert (mine.group.name, mine.claims, mine.owner) == ("billing", 1, True)
        assert town.group.topic.queues[mine.queue].id == held[one.name].key.queue_id
        numbers.add(mine.queue)
    assert numbers == {0, 1}
    assert [one.name for one in await town.node.clients.page("ann", 2)] == ["bob", "dan"]
    await town.node.groups.settle(nodes.name_of(held["ann"]), "fail", retry_after=0)
    await town.pass_time(10)
    again = await town.claimed("ann", 1)
    assert again.key.queue_id in {queue.id for queue in town.group.retry_queues}
    (ann, *_) = await town.node.clients.page("", 1)
    (mine,) = ann.holds
    assert (mine.claims, mine.owner) == (1, True), "what comes back is told with the queue it was of"


@pytest.mark.parametrize("goes", ["dies", "deregisters", "lives on", "never renews"])
async def test_offsets_of_a_broadcast_client_go_with_it(town: Town, goes: str) -> None:
    topic, _ = await town.node.catalogue.put_topic(TopicDraft("news", kind="broadcast"))
    group = await town.node.directory.group(topic, "screens")

    async def read() -> list[bytes]:
        return [m.body for m in (await nodes.read_on(town.node, ReadRequest(group, "ann", 10), 0)).messages]

    if goes != "never renews":
        await town.node.liveness.renew("ann")
    assert await read() == []
    await town.node.intake.publish(Publication((Draft(topic=topic, queue=topic.queues[0], body=b"1"),)))
    if goes == "deregisters":
        assert await town.node.liveness.deregister("ann") == (True, 0)
    await town.pass_time(14_999)
    if goes == "lives on":
        await town.node.liveness.renew("ann")
    await town.pass_time(1)
    assert (await town.node.groups.state(group)).clients == (("ann",) if goes in ("lives on", "never renews") else ())
    assert await read() == ([b"1"] if goes in ("lives on", "never renews") else [])


async def test_renewals_are_written_together(town: Town) -> None:
    writes: list[int] = []

    class Counting(Store):
        async def write(self, function: Any, *args: Any, **kwargs: Any) -> Any:
            if function in (clients.renew, clients.renew_free):
                writes.append(len(args[0]))
            return await super().write(function, *args, **kwargs)

    town.node.liveness._store = Counting(town.node.store.backend)
    await town.begin(ordered=False)
    names = [f"c{number}" for number in range(50)]
    async with trio.open_nursery() as many:
        for name in names:
            many.start_soon(town.node.liveness.renew, name)
    assert sum(writes) == 50
    assert len(writes) <= 2
    writes.clear()
    for _ in range(60):
        for name in names:
            await town.node.liveness.renew(name)
            await town.claim(name)
        await town.pass_time(500)
    assert set(writes) == {50}
    assert 10 <= len(writes) <= 12, "every three seconds, in one transaction"


async def test_a_dead_clients_queues_are_free_at_once(town: Town) -> None:
    await town.begin(ordered=True)
    await town.publish("a", "a", "b")
    await town.node.liveness.renew("ann")
    await town.claimed("ann")
    assert await town.claim("bob") is None
    await town.publish("c")
    await town.pass_time(15_000)
    hers = await town.claimed("bob")
    assert [m.body for m in hers.messages] == [b"c"], "the keys of the dead rest first"
    await town.ack(hers)
    await town.pass_time(1001)
    back = await town.claimed("bob")
    assert [(m.body, m.attempt) for m in back.messages] == [(b"a", 2), (b"b", 2)]


async def test_who_waits_gets_the_queue_of_one_that_stops_asking(town: Town) -> None:
    """Without renewals: its share ends 15 s after it last asked."""
    await town.begin(ordered=True)
    await town.publish("a")
    claim = await town.claimed("ann")
    async with trio.open_nursery() as polling:
        answers = town.poll("bob", polling)
        await trio.testing.wait_all_tasks_blocked(0.01)
        await town.ack(claim)
        await town.publish("b")
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert not answers, "one queue, and it is ann's"
        await town.pass_time(15_001)
    assert answers[0] is not None


@attrs.define
class _Consumer:
    name: str
    claims: list[Claim] = attrs.field(factory=list[Claim])
    silent_until: int = 0
    dead: bool = False


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
async def test_no_key_is_in_two_hands_whoever_dies_or_rests(town: Town, seed: int) -> None:
    """Clients join, leave, are paused for longer than they are taken to live, and are killed."""
    dice = random.Random(seed)
    await town.begin(ordered=True, queues=5)
    keys = [f"k{number}" for number in range(12)]
    hands: dict[str, int] = {}
    """By key: the token of the last claim that had it, until that was acked."""
    done: dict[str, list[int]] = {key: [] for key in keys}
    crew = [_Consumer(f"c{number}") for number in range(3)]
    published = 0

    async def work(consumer: _Consumer) -> None:
        for claim in consumer.claims:
            by_key: dict[str, list[int]] = {}
            for message in [message for one in claim.ranges for message in one.messages]:
                by_key.setdefault(message.body.decode(), []).append(message.offset)
            if not (await town.ack(claim)).lost:
                for key, offsets in by_key.items():
                    assert hands.pop(key) == claim.key.token, "acked, and in another's hands"
                    done[key] += offsets
        consumer.claims.clear()
        await town.node.liveness.renew(consumer.name)
        for _ in range(dice.randrange(1, 4)):
            got = await town.claim(consumer.name, dice.randrange(1, 6))
            if got is None:
                break
            consumer.claims.append(got)
            keys = await town.node.store.backend.read(lambda tx: tx.fetch("claim.of_clients", ClaimKey, [*names]))
            still_open = {key.token for key in keys}
            for message in [message for one in got.ranges for message in one.messages]:
                key = message.body.decode()
                taken = hands.get(key, got.key.token)
                assert taken == got.key.token or taken not in still_open, f"{key} is in two hands"
                hands[key] = got.key.token
                assert message.offset > max(done[key], default=-1), "out of order"

    names = [consumer.name.encode() for consumer in crew]
    for step in range(120):
        if step < 80:
            batch = [dice.choice(keys) for _ in range(dice.randrange(6))]
            await town.publish(*batch)
            published += len(batch)
        consumer = dice.choice(crew)
        fate = dice.randrange(20)
        if consumer.silent_until <= town.ms:
            await work(consumer)
            if fate == 0 and len(crew) > 1:
                crew.remove(consumer)  # killed, with what it holds
            elif fate in (1, 2):
                consumer.silent_until = town.ms + 40_000  # paused
            elif fate == 3:
                await town.node.liveness.deregister(consumer.name)
                consumer.claims.clear()
        if fate == 4:
            crew.append(_Consumer(f"n{step}"))
            names.append(crew[-1].name.encode())
        await town.pass_time(dice.choice([10, 500, 2500]))
    last = _Consumer("last")
    names.append(b"last")
    for _ in range(200):
        await town.pass_time(5_000)
        await work(last)
        if sum(len(offsets) for offsets in done.values()) == published:
            break
    assert sum(len(offsets) for offsets in done.values()) == published
    assert all(offsets == sorted(set(offsets)) for offsets in done.values())


@pytest.mark.parametrize("error", [Unavailable, Overloaded])
async def test_a_burial_that_cannot_end_the_claims_at_once_is_finished_later(
    town: Town, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """Their leases are over all the same, and the sweep finds it."""
    await town.begin(ordered=False)
    await town.publish("a")
    await town.node.liveness.renew("ann")
    claim = await town.claimed("ann", lease=10 * MINUTE)
    with monkeypatch.context() as away:
        away.setattr(Coordinator, "settle", failing(error("not now")))
        await town.pass_time(15_000)
    assert await town.node.store.read(clients.all_watched) == {}
    ((key, lease_until),) = await town.node.store.read(holdings.over, town.ms, 10)
    assert key == claim.key
    await town.node.groups.watch(key, lease_until)
    with trio.fail_after(20):
        while await store_open(town):
            await trio.sleep(0.001)
    await town.pass_time(2_000)
    with trio.fail_after(20):
        while (again := await town.claim("bob")) is None:  # what fell due is on its way
            await trio.sleep(0.001)
    assert [(m.body, m.attempt) for m in again.messages] == [(b"a", 2)]

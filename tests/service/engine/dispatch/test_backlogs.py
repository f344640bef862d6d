"""Of the shards that other nodes have it is known which have a backlog that is to come in order, and when it is
through."""

from functools import partial

import attrs
import pytest

from tarry.service.clock import Clock
from tarry.service.engine.cluster.ownership import Ownership
from tarry.service.engine.dispatch.backlogs import Backlogs
from tarry.service.engine.state.coverage import Coverage
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.ids import SHARDS, shard_of
from tarry.store.ports import Transaction
from tarry.store.records import Draft, Publication, Topic
from tarry.store.store import Store
from tarry.store.timers import timers
from tarry.store.timers.order import Orders

NOW = 1_795_000_000_000
PATIENCE = 300


@attrs.define
class World:
    """A node that has no shard, and a store with an ordered topic and another."""

    store: Store
    topics: dict[str, Topic]
    ownership: Ownership = attrs.field(factory=Ownership)
    ms: int = NOW
    coverage: Coverage = attrs.field(init=False)
    backlogs: Backlogs = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        clock = Clock(self.store.now)
        self.coverage = Coverage(clock, self.ownership, shared=True)
        self.backlogs = Backlogs(self.store, self.coverage, self.ownership)

    async def publish(self, topic: str, *dues: int) -> list[int]:
        """Accepted an hour before, when none of it was due."""
        one = self.topics[topic]
        drafts = tuple(Draft(topic=one, queue=one.queues[0], body=b"1", deliver_at=NOW + due) for due in dues)
        (receipts,) = await self.store.publish([Publication(drafts)], NOW - 3_600_000)
        assert isinstance(receipts, list)
        return [one.id for one in receipts]

    async def look(self, until: int = 0) -> set[int]:
        """The shards with a backlog."""
        await self.backlogs.look(NOW + until)
        return {shard for shard in range(SHARDS) if self.coverage.has_backlog(shard)}

    async def promote(self, *ids: int) -> None:
        await self.store.promote_some(ids, self.ms, whole=True)


@pytest.fixture
async def world(store: Store) -> World:
    drafts = {"log": TopicDraft("log", queues=1, ordered=True), "orders": TopicDraft("orders")}
    topics = {name: await store.write(catalogue.add_topic, draft, NOW) for name, draft in drafts.items()}
    return World(store, topics)


async def test_nothing_is_known_before_the_first_look(world: World) -> None:
    assert all(world.coverage.has_backlog(shard) for shard in range(SHARDS))
    world.ownership.held = frozenset({3})
    assert not world.coverage.has_backlog(3)
    assert await world.look() == set()


async def test_one_look_tells_that_nothing_waits_in_most_shards(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    (id_,) = await world.publish("log", -500)
    asked: list[int] = []
    due_messages = timers.due_messages

    async def noting(tx: Transaction, shard: int, *args: int) -> list[timers.Scan]:
        asked.append(shard)
        return await due_messages(tx, shard, *args)

    monkeypatch.setattr(timers, "due_messages", noting)
    assert await world.look() == {shard_of(id_)}
    assert set(asked) == {shard_of(id_)}


async def test_a_shard_has_a_backlog_until_it_is_through(world: World) -> None:
    ids = await world.publish("log", -500, -400, -300, 5)
    shard = shard_of(ids[0])
    assert await world.look() == {shard}
    await world.promote(*ids[:2])
    assert await world.look() == {shard}
    await world.promote(ids[2])
    assert await world.look() == set()
    await world.publish("log", -10)
    assert await world.look() == set(), "it is swept from now on"


async def test_what_fell_due_since_is_waited_for_too(world: World) -> None:
    first, second, _ = await world.publish("log", -500, 500, 1_500)
    assert await world.look() == {shard_of(first)}
    world.ms += 1_000
    await world.promote(first)
    assert await world.look(1_000) == {shard_of(first)}
    await world.promote(second)
    assert await world.look(1_000) == set()


async def test_what_is_swept_again_is_not_waited_for(world: World) -> None:
    """A node that has loaded what was overdue looks back farther than before: what it sees is no backlog."""
    first, _ = await world.publish("log", -500, -300)
    assert await world.look() == {shard_of(first)}
    assert await world.look(-400) == {shard_of(first)}
    assert await world.look(-500) == set()


async def test_what_was_moved_is_waited_for(world: World) -> None:
    (id_,) = await world.publish("log", 3_600_000)
    await world.store.write(timers.reschedule, [(id_, NOW - 500)], NOW - 1_000)
    assert await world.look() == {shard_of(id_)}
    await world.promote(id_)
    assert await world.look() == set()


async def test_what_has_no_place_in_an_order_is_passed_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Page by page: behind it something may be that has."""
    monkeypatch.setattr("tarry.service.engine.dispatch.backlogs._PAGE", 7)
    (last,) = await world.publish("log", -1)
    shard = shard_of(last)
    await world.publish("orders", *range(-900, -100))
    looks = 0
    while await world.look() != {shard}:
        looks += 1
        assert looks < 20
    await world.promote(last)
    assert await world.look() == set()


async def test_a_look_reads_some_pages_and_no_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tarry.service.engine.dispatch.backlogs._PAGE", 10)
    await world.publish("orders", *range(-900, -100))
    assert len(await world.look()) > SHARDS // 2
    for _ in range(39):
        await world.look()
    assert await world.look() == set()


@pytest.mark.parametrize("why", ["aside", "released"])
async def test_who_waits_for_something_else_is_passed_over(world: World, why: str) -> None:
    ids = await world.publish("log", -500, -400)
    topic = world.topics["log"].id
    orders = {"aside": partial(Orders, aside=ids), "released": partial(Orders, rated=lambda id_: id_ == topic)}
    world.store.orders = orders[why]()
    assert await world.look() == set()


async def test_what_nobody_brings_is_passed_over_in_the_end(world: World) -> None:
    ids = await world.publish("log", -500, -400, -300)
    shard = shard_of(ids[0])
    for _ in range(PATIENCE):
        assert await world.look() == {shard}
    await world.promote(ids[0])
    for _ in range(PATIENCE + 1):
        assert await world.look() == {shard}, "somebody has brought one meanwhile"
    assert await world.look() == set()


async def test_who_waits_for_a_guard_is_passed_over(world: World) -> None:
    topic = world.topics["log"]
    draft = Draft(topic=topic, queue=topic.queues[0], body=b"1", key="k", deliver_at=NOW - 500, guard="unpaid")
    await world.store.publish([Publication((draft,))], NOW - 3_600_000)
    assert await world.look() == set()


async def test_where_another_server_has_the_database_nothing_is_known(world: World) -> None:
    (id_,) = await world.publish("log", -500)
    assert await world.look() == {shard_of(id_)}
    await world.promote(id_)
    assert await world.look() == set()
    await world.publish("log", -500)
    await world.backlogs.read_anew()
    assert await world.look() == {shard_of(id_)}

"""The loader brings every waiting row into the wheel, overdue ones first, whatever happens meanwhile."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from support.engine import Cluster, dispatcher_over, pending_from, promotion_over
from support.hand_time import HandTime
from support.waiting import until
from tarry.service.engine.cluster.ownership import Peer, whole
from tarry.service.engine.dispatch.dispatcher import Dispatcher
from tarry.service.engine.dispatch.loader import Loader
from tarry.service.engine.state.coverage import Coverage
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.errors import Refused, StoreError, Unavailable
from tarry.store.ids import shard_of
from tarry.store.records import ClaimRequest, Draft, Publication, Settlement, Topic
from tarry.store.schedules.course import Fired
from tarry.store.sqlite.backend import SQLiteBackend
from tarry.store.store import Store
from tarry.store.timers import timers
from tarry.store.timers.timers import Brought
from tarry.wheel.columns import Columns

NOW = 1_795_000_000_000
HOUR = 3_600_000


class Watched(Store):
    """A store with somebody looking over the loader's shoulder."""

    before: Callable[[int], Awaitable[None]] | None = None
    """Awaited with the end of the stretch before a look at all of it, and before a page of one shard is read."""

    async def read(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        if self.before is not None and function in (timers.near, timers.due_messages):
            await self.before(args[1] if function is timers.near else args[2])
        return await super().read(function, *args, **kwargs)


class Telling(Cluster):
    """Says when others are to be told."""

    def __init__(self, tell: Callable[[], None]) -> None:
        super().__init__()
        self.tell = tell

    def tell_soon(self) -> None:
        self.tell()


class Node(HandTime):
    """A store with rows in it and a wheel to be filled."""

    def __init__(self, store: Watched, topic: Topic, nursery: trio.Nursery) -> None:
        super().__init__(NOW)
        self.nursery = nursery
        self.store = store
        self.topic = topic
        self.backend = store.backend
        self.ownership = whole()
        self.pending = pending_from(NOW, self.clock, ownership=self.ownership)
        self.coverage = Coverage(self.clock, self.ownership, shared=True)
        self.fired: list[int] = []
        self.loader = self.loading(Cluster())

    @property
    def dispatcher(self) -> Dispatcher:
        return dispatcher_over(self.pending, promotion_over(self, self.clock), self.clock, self)[0]

    async def topics_of(self, timers: Columns, burst: int) -> dict[int, int]:
        return {}

    async def promote_some(self, entries: Sequence[int], *args: Any) -> Brought:
        self.fired += entries
        return Brought([], {}, (), {}, Fired())

    async def load(self, *, fires: bool = False) -> None:
        """The loader runs, and what is overdue is promoted meanwhile, if it `fires`; until all is loaded."""
        if fires:
            self.nursery.start_soon(self.dispatcher.run)
        self.nursery.start_soon(self.loader.run)
        await self.loader.recovered.wait()

    def fail(self, error: StoreError, times: int) -> None:
        """The next reads fail."""

        async def failing(_until: int) -> None:
            nonlocal times
            if times:
                times -= 1
                raise error

        self.store.before = failing

    def loading(self, cluster: Cluster) -> Loader:
        return Loader(self.store, self.pending, self.clock, self.ownership, self.coverage, cluster.nodes)

    async def schedule(self, dues: Sequence[int], accepted: int = NOW - 48 * HOUR) -> list[int]:
        drafts = tuple(Draft(topic=self.topic, queue=self.topic.queues[0], body=b"1", deliver_at=due) for due in dues)
        (receipts,) = await self.store.publish([Publication(drafts)], accepted)
        assert isinstance(receipts, list)
        return [receipt.id for receipt in receipts]

    def held(self) -> list[int]:
        return self.pending.wheel.advance(NOW + 1000 * HOUR)


@pytest.fixture
async def node(embedded_backend: SQLiteBackend, nursery: trio.Nursery) -> AsyncIterator[Node]:
    store = Watched(embedded_backend)
    node = Node(store, await store.write(catalogue.add_topic, TopicDraft("orders"), 1), nursery)
    await node.clock.take()
    yield node
    nursery.cancel_scope.cancel()


async def test_recovery_loads_overdue_and_the_horizon_and_no_more(node: Node) -> None:
    dues = [NOW - 30 * HOUR, NOW - 1, NOW, NOW + 1, NOW + HOUR, NOW + 3 * HOUR - 1, NOW + 3 * HOUR, NOW + 9 * HOUR]
    ids = await node.schedule(dues)
    await node.load()
    assert node.held() == ids[:6]


async def test_rescheduled_rows_and_retries_are_loaded_at_their_present_time(node: Node) -> None:
    near, far, back = await node.schedule([NOW + HOUR, NOW + 2 * HOUR, NOW + 50 * HOUR])
    await node.store.write(timers.reschedule, [(far, NOW + 40 * HOUR), (back, NOW + 60_000)], NOW - 48 * HOUR)
    group = await node.store.add_group(node.topic, "billing", 1)
    await node.store.publish(
        [Publication((Draft(topic=node.topic, queue=node.topic.queues[0], body=b"1"),))], NOW - HOUR
    )
    turn = await node.store.turn(group, [], [ClaimRequest("c", 1, 1000)], NOW - HOUR)
    assert turn.claims[0] is not None
    settling = Settlement(turn.claims[0].key, "fail", retry_after=2 * HOUR)
    turn = await node.store.turn(group, [settling], [], NOW - HOUR)
    assert turn.settled[0] is not None
    ((_, retry),) = turn.settled[0].timers
    await node.load()
    held = node.held()
    assert held[0] == back
    assert sorted(held[1:]) == sorted([near, retry])


@pytest.mark.slow
async def test_many_pages_of_all_shards_are_loaded_once_each(node: Node) -> None:
    ids: list[int] = []
    for start in range(0, 20_000, 1000):
        ids += await node.schedule([NOW - 20_000 + 2 * (start + one) for one in range(1000)])
    await node.load()
    assert node.held() == ids


async def test_what_is_overdue_fires_in_the_order_of_its_time(node: Node) -> None:
    """Whatever shards it lies in, and though some of it was moved: the dispatcher promotes while the loader reads."""
    dues = [NOW - 50_000 + 10 * number for number in range(3_000)]
    ids = await node.schedule(dues)
    moved = [(id_, NOW - 50_000 + 10 * number + 5) for number, id_ in enumerate(ids[::7])]
    await node.store.write(timers.reschedule, moved, NOW - 48 * HOUR)
    due_of = dict(zip(ids, dues, strict=True)) | dict(moved)
    await node.load(fires=True)
    while len(node.fired) < len(ids):
        await node.dispatcher.turned()
    assert [due_of[id_] for id_ in node.fired] == sorted(due_of.values())


async def test_it_tells_up_to_when_a_shard_is_read(node: Node) -> None:
    ids = await node.schedule([NOW - 20_000 + number for number in range(2_000)] + [NOW + HOUR])
    told: list[int] = []

    async def note(_until: int) -> None:
        told.append(node.coverage.loaded_until(3))

    node.store.before = note
    assert node.coverage.loaded_until(3) == 0
    await node.load()
    assert told == sorted(told)
    assert told[0] == 0
    assert NOW - 20_000 < max(told) <= NOW
    assert node.coverage.loaded_until(3) > NOW + 1000 * HOUR
    assert node.held() == ids


async def test_it_tells_when_what_was_overdue_is_read(node: Node) -> None:
    """The sweeps look back from then on, though the horizon is still being read."""
    await node.schedule([NOW - 20_000, NOW + HOUR])
    told: list[int] = []

    async def note(_until: int) -> None:
        told.append(node.coverage.overdue_until)

    node.store.before = note
    node.coverage.loading()
    await node.load()
    assert told[0] == NOW
    assert told[1:]
    assert not any(told[1:])


async def test_a_look_brings_a_stretch_of_which_little_waits(node: Node) -> None:
    """A start, and each page of the horizon, is a statement and not three for each shard."""
    ids = await node.schedule([NOW - HOUR, NOW + HOUR])
    looks: list[int] = []

    async def note(until: int) -> None:
        looks.append(until)

    node.store.before = note
    await node.load()
    assert looks == sorted(set(looks)), "one for what is overdue, one for each page"
    assert node.held() == ids


async def test_overdue_messages_fire_while_the_rest_is_loading(node: Node) -> None:
    (overdue,) = await node.schedule([NOW - HOUR])
    await node.schedule([NOW + one for one in range(5_000)])

    async def slow(until: int) -> None:
        while until > NOW and overdue not in node.fired:  # the pages of the horizon
            await trio.sleep(0.001)

    node.store.before = slow
    await node.load(fires=True)
    assert node.fired[0] == overdue


async def test_a_store_that_goes_away_while_loading_is_read_again(
    node: Node, autojump_clock: trio.testing.MockClock
) -> None:
    ids = await node.schedule([NOW - 5, NOW + 5])
    node.fail(Unavailable("away"), 3)
    await node.load()
    assert sorted(set(node.held())) == sorted(ids)


async def test_what_cannot_be_read_though_the_store_is_there_is_no_flood(
    node: Node, autojump_clock: trio.testing.MockClock
) -> None:
    node.fail(Refused("no such column"), 60)
    with capture_logs() as logs:
        await node.load()
    failed = [line["failures"] for line in logs if line["event"] == "loading_failed"]
    assert len(failed) == 6
    assert failed[0] == 1
    assert [line["failures"] for line in logs if line["event"] == "loading_goes_on"] == [60]


async def test_a_page_moves_the_horizon_before_it_is_read(node: Node) -> None:
    seen: list[bool] = []

    async def look(until: int) -> None:
        if until > NOW:
            seen.append(node.pending.horizon.covers(until - 1))

    node.store.before = look
    await node.load()
    assert seen
    assert all(seen)


async def test_what_comes_while_what_is_overdue_is_read_is_in_the_wheel_at_once(node: Node) -> None:
    """That may take minutes; and rows that were there are read all the same."""
    ids = await node.schedule([NOW - HOUR, NOW, NOW + 3 * HOUR - 1])
    missing: list[object] = []

    async def publish(until: int) -> None:
        if until <= NOW and len(ids) == 3:
            ids.extend(await node.schedule([NOW + HOUR]))
            node.pending.add(NOW + HOUR, ids[3])
            missing.extend(node.pending.wheel.missing([NOW + HOUR], [ids[3]]))

    node.store.before = publish
    await node.load()
    assert missing == []
    assert set(node.held()) == set(ids)


async def test_a_clock_that_went_back_before_recovery_began(node: Node) -> None:
    """By more than a horizon, so that no page is due yet: what was overdue at the start is read."""
    overdue, _ = await node.schedule([NOW - 1, NOW])
    node.ms -= 4 * HOUR
    await node.load()
    assert node.held() == [overdue]


async def test_shards_that_come_are_loaded_and_told_and_those_that_go_forgotten(node: Node) -> None:
    told: list[list[int]] = []
    node.ownership.held = frozenset()
    shares = node.ownership
    node.loader = node.loading(Telling(lambda: told.append(shares.to_tell)))
    ids = await node.schedule([NOW - HOUR + one for one in range(40)] + [NOW + HOUR + one for one in range(200)])
    soon = await node.schedule([NOW + 1_000 + one for one in range(40)])
    shares.see("a", [Peer("b", frozenset(range(16)), leaving=False)])
    await node.load()
    own = set(shares.held)
    assert len(own) == 8
    assert told == [sorted(own)]
    wheel = node.pending.wheel
    assert len(wheel) == len([id_ for id_ in [*ids, *soon] if shard_of(id_) in own])

    shares.see("a", [])
    await until(lambda: len(told) == 2)
    assert told[1] == list(range(16))
    assert len(wheel) == len(ids) + len(soon)

    shares.told(told[1])
    other = Peer("b", frozenset(range(16)), leaving=False)
    shares.see("a", [other])
    shares.told(shares.to_tell)
    assert len(wheel) == len(ids) + len(soon), "nothing is forgotten before the row has said so, and a look after that"
    shares.see("a", [other])
    await until(lambda: shares.held == own)
    far = [id_ for id_ in ids[40:] if shard_of(id_) not in own]
    await until(lambda: len(wheel) <= len(ids) + len(soon) - len(far))
    assert set(node.held()) == {*ids, *soon} - set(far), "what is due or due soon stays"


async def test_what_comes_for_a_shard_while_it_is_loaded_is_in_the_wheel(node: Node) -> None:
    shares = node.ownership
    shares.held = frozenset()
    shares.see("a", [])
    late: list[int] = []

    async def publish(until: int) -> None:
        if until > NOW and not late:
            late.extend(await node.schedule([NOW + HOUR + one for one in range(32)]))
            for place, id_ in enumerate(late):
                node.pending.add(NOW + HOUR + place, id_)

    node.store.before = publish
    await node.load()
    assert set(node.held()) == set(late)


async def test_all_is_read_again_when_another_server_has_the_database(node: Node) -> None:
    kept = await node.schedule([NOW + HOUR + one for one in range(40)])
    await node.load()
    lost = [id_ + 1 for id_ in kept]
    for place, id_ in enumerate(lost):  # nobody has their rows any more
        node.pending.add(NOW + HOUR + place, id_)
    for place, id_ in enumerate(kept[:20]):  # their cancels are lost
        node.pending.cancel(NOW + HOUR + place, id_)
    await node.loader.reload()
    assert len(node.pending.wheel) == len(kept)
    assert sorted(node.held()) == sorted(kept)

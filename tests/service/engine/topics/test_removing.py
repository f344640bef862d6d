"""What clients of a removed topic or group hear, and that nothing of it stays in the service."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from support import nodes
from support.embedded import embedded
from support.running import running
from support.stores import SQLiteTables
from support.waiting import until
from tarry.service.engine.state import directory as directory_module
from tarry.service.engine.topics.ranking import TopicPageStart
from tarry.service.errors import TopicConflict, UnknownClaim, UnknownGroup, UnknownTopic
from tarry.service.making import begin
from tarry.service.metrics import Metrics
from tarry.service.node import Node
from tarry.service.settings import Settings
from tarry.store.catalogue import TopicDraft
from tarry.store.errors import TopicGone
from tarry.store.records import Draft, Group, Publication, ReadRequest, Topic

HOUR = 3_600_000


class Town:
    """A node, and another server's store beside it."""

    def __init__(self, path: Path) -> None:
        self.metrics = Metrics()
        self.server = begin(embedded(path), Settings(), self.metrics)
        self.tables = SQLiteTables(path)

    @property
    def node(self) -> Node:
        return self.server.node

    async def begin(self, kind: str = "cluster", groups: str = "g") -> tuple[Topic, Group]:
        topic, _ = await self.node.catalogue.put_topic(TopicDraft("orders", kind=kind))  # type: ignore[arg-type]
        group, _ = await self.node.catalogue.put_group(topic, groups, None)
        return topic, group

    async def publish(self, topic: Topic, delay: int | None = None) -> None:
        at = None if delay is None else self.node.clock.now() + delay
        await self.node.intake.publish(
            Publication((Draft(topic=topic, queue=topic.queues[0], body=b"1", deliver_at=at),))
        )

    def count(self, table: str) -> int:
        return int(self.tables.rows(f"SELECT COUNT(*) FROM `{table}`")[0][0])

    async def cleared(self) -> None:
        """Until the remover has come to the end of a group."""
        await until(lambda: not self.tables.rows("SELECT 1 FROM removed WHERE group_id > 0"))


@pytest.fixture
async def town(tmp_path: Path) -> AsyncIterator[Town]:
    town = Town(tmp_path / "tarry.db")
    async with running(town.server):
        yield town
    town.tables.close()


async def test_a_removed_group_is_gone_at_once(town: Town, nursery: trio.Nursery) -> None:
    topic, group = await town.begin()
    await town.publish(topic)
    claim = await nodes.claim(town.node, group, "a", 1, 0, HOUR)
    assert claim is not None
    ended = trio.Event()

    async def poll() -> None:
        assert await nodes.claim(town.node, group, "b", 1, HOUR, HOUR) is None
        ended.set()

    nursery.start_soon(poll)
    await until(lambda: town.node.groups._coordinators[group.id]._bell.asking)
    assert 'group="g"' in town.metrics.text().decode()
    await town.node.remover.remove_group(group)
    with trio.fail_after(5):
        await ended.wait()
    with pytest.raises(UnknownClaim):
        await town.node.groups.settle(nodes.name_of(claim), "ack")
    with pytest.raises(UnknownGroup):
        await town.node.directory.group(topic, "g", create=False)
    with pytest.raises(UnknownGroup):
        await town.node.remover.remove_group(group)
    assert await nodes.claim(town.node, group, "c", 1, 0, HOUR) is None, "who had looked it up before"
    assert town.node.groups._coordinators == {}
    assert 'group="g"' not in town.metrics.text().decode()
    await town.cleared()
    assert town.count("claim") == town.count("delivery") == town.count("cursor") == 0
    again = await town.node.directory.group(topic, "g")
    assert again.id != group.id
    assert (await nodes.claim(town.node, again, "a", 1, 0, HOUR)) is not None, "it begins at the earliest"


async def test_a_removed_topic_is_gone_at_once(town: Town, nursery: trio.Nursery) -> None:
    topic, group = await town.begin()
    await town.publish(topic)
    await town.publish(topic, HOUR)
    with pytest.raises(TopicConflict, match=r"1 that wait for their time, and 1 unsettled \(g: 1\)"):
        await town.node.remover.remove_topic(topic, force=False)
    pulled = trio.Event()

    async def pull() -> None:
        assert (await town.node.readers.pull(topic.queues[0], 1, 1, HOUR)).messages == []
        pulled.set()

    nursery.start_soon(pull)
    await until(lambda: town.node.signals.listeners.awaited)
    await town.node.remover.remove_topic(topic, force=True)
    with trio.fail_after(5):
        await pulled.wait()
        assert (await town.node.readers.pull(topic.queues[0], 1, 1, HOUR)).messages == [], "who had looked it up before"
    with pytest.raises(TopicGone):
        await town.publish(topic)
    with pytest.raises(TopicGone):
        await town.publish(topic, HOUR)
    with pytest.raises(UnknownTopic):
        await town.node.directory.topic("orders", create=False)
    assert (await town.node.ranking.page("name", TopicPageStart(), 10)).topics == ()
    assert 'topic="orders"' not in town.metrics.text().decode()
    again = await town.node.directory.topic("orders")
    assert again.id != topic.id
    await town.cleared()
    await until(lambda: not town.count("message") + town.count("delay"))
    assert town.node.directory.groups_of(again) == []
    assert await nodes.claim(town.node, group, "a", 1, 0, HOUR) is None


async def test_a_server_that_sees_many_come_and_go_keeps_little_of_them(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_module, "_REMEMBERED", 3)
    directory, cleaner = town.node.directory, town.node.cleaner
    for _ in range(10):
        topic, group = await town.begin()
        await town.publish(topic)
        claim = await nodes.claim(town.node, group, "a", 1, 0, HOUR)
        assert claim is not None
        await town.node.groups.settle(nodes.name_of(claim), "ack")
        await cleaner.clean()
        assert {key[1] for key in cleaner._notes.starts} == town.node.store._expected.keys() == {group.id}
        await town.node.remover.remove_topic(topic, force=True)
        await directory.refresh()
    for kept in (
        cleaner._notes.starts,
        town.node.store._expected,
        town.node.signals.doorbells._of_topic,
        directory._of_topic,
    ):
        assert len(kept) == 0
    assert len(directory._removed_topics) == len(directory._removed_groups) == 3


async def test_clients_of_a_broadcast_topic_go_home(town: Town, nursery: trio.Nursery) -> None:
    _, group = await town.begin("broadcast")
    ended = trio.Event()

    async def poll() -> None:
        answer = await nodes.read_on(town.node, ReadRequest(group, "a", 1), HOUR)
        assert answer.messages == ()
        ended.set()

    nursery.start_soon(poll)
    await until(lambda: town.node.signals.listeners.awaited)
    await town.node.remover.remove_group(group)
    await town.cleared()
    with trio.fail_after(5):
        await ended.wait()
    assert town.count("reader") == 0


async def test_what_another_server_removes_is_forgotten_here(town: Town, tmp_path: Path) -> None:
    topic, group = await town.begin()
    await town.publish(topic)
    assert await nodes.claim(town.node, group, "a", 1, 0, HOUR) is not None
    now = town.node.clock.now()
    await town.node.store.remove_topic(topic, now, force=True)
    await town.node.directory.refresh()
    assert town.node.groups._coordinators == {}
    assert town.node.directory.some(1000) == []
    assert town.node.directory.group_by_id(group.id) is None
    assert 'topic="orders"' not in town.metrics.text().decode()
    with pytest.raises(UnknownTopic):
        await town.node.directory.topic("orders", create=False)

"""What a node tells the others, so that they need not look."""

import math
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from support import nodes
from support.embedded import embedded
from support.running import running
from tarry.service.engine.state import directory
from tarry.service.making import begin
from tarry.service.metrics import Metrics
from tarry.service.node import Node
from tarry.service.notices import Heard, Notices, Subject
from tarry.service.settings import Settings
from tarry.store.catalogue import TopicDraft
from tarry.store.records import Draft, Group, Publication, Topic
from tarry.store.stream.positions import Position


class Told(Notices):
    """Takes note, in place of a Redis."""

    def __init__(self) -> None:
        self.told: list[tuple[Subject, int]] = []

    def tell(self, subject: Subject, id_: int) -> None:
        self.told.append((subject, id_))

    async def run(self, heard: Heard) -> None:
        del heard
        await trio.sleep_forever()

    def take(self) -> set[tuple[Subject, int]]:
        told, self.told = set(self.told), []
        return told


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
async def node(told: Told, tmp_path: Path) -> AsyncIterator[Node]:
    async with running(begin(embedded(tmp_path / "tarry.db"), Settings(), Metrics(), told)) as server:
        yield server.node


async def made(node: Node, *, ordered: bool = False) -> tuple[Topic, Group]:
    topic, _ = await node.catalogue.put_topic(TopicDraft("orders", ordered=ordered))
    group, _ = await node.catalogue.put_group(topic, "billing", None)
    return topic, group


async def publish(node: Node, topic: Topic) -> None:
    await node.intake.publish(Publication((Draft(topic=topic, queue=topic.queues[0], body=b"1", ordering_key="k"),)))


async def handle(node: Node, group: Group) -> None:
    claim = await nodes.claim(node, group, "ann", 1, 1_000, 60_000)
    assert claim is not None
    await node.groups.settle(nodes.name_of(claim), "ack")


async def test_a_queue_that_has_grown(node: Node, told: Told) -> None:
    topic, _ = await made(node)
    await publish(node, topic)
    assert told.take() == {("grown", topic.queues[0].id)}


@pytest.mark.parametrize(
    ("ordered", "limit"),
    [
        pytest.param(False, None, id="it makes no room, and is nobody's business"),
        pytest.param(False, 1, id="it makes room"),
        pytest.param(True, None, id="a queue may change hands"),
    ],
)
async def test_an_ack(node: Node, told: Told, ordered: bool, limit: int | None) -> None:
    topic, group = await made(node, ordered=ordered)
    if limit is not None:
        group = await node.catalogue.limit_group(group, limit)
        assert ("catalogue", topic.id) in told.take()
    await publish(node, topic)
    told.take()
    await handle(node, group)
    assert told.take() == ({("group", group.id)} if ordered or limit else set())


async def test_a_seek(node: Node, told: Told) -> None:
    topic, group = await made(node)
    await node.operations.seek(group, list(topic.queues), Position("earliest"), dry_run=False)
    assert told.take() == {("group", group.id)}


async def test_what_is_changed_and_removed(node: Node, told: Told) -> None:
    topic, group = await made(node)
    assert told.take() == set()  # who asks for what is new finds it
    await node.catalogue.put_topic(TopicDraft("orders", queues=8))
    assert told.take() == {("catalogue", topic.id)}
    await node.catalogue.put_group(topic, "billing", None, block=False)
    assert told.take() == {("catalogue", topic.id)}
    await node.remover.remove_group(group)
    assert told.take() == {("catalogue", topic.id)}
    await node.remover.remove_topic(topic, force=True)
    assert told.take() == {("catalogue", topic.id)}


async def test_a_change_elsewhere_is_read_at_once(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only ten seconds later."""
    monkeypatch.setattr(directory, "_EVERY", math.inf)
    topic, _ = await made(node)
    assert await node.store.remove_topic(topic, 1, force=True)  # as another node does
    node.directory.note_change(topic.id)
    await node.directory.refresh_in_time()
    assert node.directory.topic_by_id(topic.id) is None

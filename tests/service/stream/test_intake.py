"""How publishes are written together where other servers publish, too."""

from pathlib import Path

import pytest
import trio

from tarry.service.metrics import Metrics
from tarry.service.node import Node
from tarry.service.serve import begin
from tarry.service.settings import Settings
from tarry.store.catalogue import TopicDraft
from tarry.store.records import Draft, Publication
from tarry.store.sqlite.backend import SQLiteBackend
from tarry.store.store import Store


@pytest.fixture
async def node(tmp_path: Path, nursery: trio.Nursery) -> Node:
    server = begin(Store(SQLiteBackend(tmp_path / "tarry.db")), Settings(), Metrics())
    nursery.start_soon(server.run)
    await server.ready.wait()
    return server.node


@pytest.mark.parametrize(
    ("nodes", "queues", "key", "writers"),
    [(1, 1, None, 2), (2, 1, None, 1), (2, 2, None, 2), (3, 2, None, 1), (2, 2, "k", 1), (1, 1, "k", 2)],
)
async def test_one_batch_at_a_time_where_others_draw_from_the_same_row(
    node: Node, nodes: int, queues: int, key: str | None, writers: int
) -> None:
    topic, _ = await node.catalogue.put_topic(TopicDraft("orders", queues=queues))
    node.intake._place = lambda: (0, nodes)
    queue = node.intake.choose_queue(topic, key)
    await node.intake.publish(Publication((Draft(topic, queue, b"1", ordering_key=key),)))
    assert node.intake._publishing._writers() == writers

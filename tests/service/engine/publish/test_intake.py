"""How publishes are written together where other servers publish, too."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.embedded import embedded
from support.running import running
from tarry.service.making import begin
from tarry.service.metrics import Metrics
from tarry.service.node import Node
from tarry.service.settings import Settings
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.errors import Unavailable
from tarry.store.records import Draft, Publication
from tarry.store.store import Store


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running(begin(embedded(tmp_path / "tarry.db"), Settings(), Metrics())) as server:
        yield server.node


@pytest.mark.parametrize(
    ("nodes", "queues", "key", "writers"),
    [(1, 1, None, 2), (2, 1, None, 1), (2, 2, None, 2), (3, 2, None, 1), (2, 2, "k", 1), (1, 1, "k", 2)],
)
async def test_one_batch_at_a_time_where_others_draw_from_the_same_row(
    node: Node, nodes: int, queues: int, key: str | None, writers: int
) -> None:
    topic, _ = await node.catalogue.put_topic(TopicDraft("orders", queues=queues))
    node.intake._nodes._place = (0, nodes)
    queue = node.intake.choose_queue(topic, key)
    await node.intake.publish(Publication((Draft(topic=topic, queue=queue, body=b"1", ordering_key=key),)))
    assert node.intake._publishing._writers() == writers
    later = Draft(topic=topic, queue=queue, body=b"2", ordering_key=key, deliver_at=node.clock.now() + 60_000)
    await node.intake.publish(Publication((later,)))
    assert node.intake._publishing._writers() == 2, "what is for later goes to no queue"


@pytest.mark.parametrize("again", [False, True])
async def test_what_waited_while_another_server_took_the_database_is_not_written_to_another_topic(
    node: Node, tmp_path: Path, again: bool
) -> None:
    """The topic's numbers are another topic's there, and one of its name has others, if somebody has made it `again`;
    one that is there as it was is written to."""
    kept, _ = await node.catalogue.put_topic(TopicDraft("kept"))
    lost, _ = await node.catalogue.put_topic(TopicDraft("lost"))
    first, second = node.store.backend, embedded(tmp_path / "second.db")
    there = Store(second)
    for name in ("kept", "other"):
        made = await there.write(catalogue.add_topic, TopicDraft(name), 1)
    assert (made.id, made.queues[0].id) == (lost.id, lost.queues[0].id)
    if again:
        await there.write(catalogue.add_topic, TopicDraft("lost"), 1)
    node.store.backend = second
    try:
        await node.directory.read_anew()
        with pytest.raises(Unavailable, match="no topic 'lost' as it was"):
            await node.intake.publish(Publication((Draft(topic=lost, queue=lost.queues[0], body=b"1"),)))
        (answer,) = await node.intake.publish_each([Publication((Draft(topic=lost, queue=lost.queues[0], body=b"1"),))])
        assert isinstance(answer, Unavailable)
        with pytest.raises(Unavailable, match="no topic 'lost' as it was"):  # beside others, of a row that nobody holds
            await node.intake._publish_free([[Publication((Draft(topic=lost, queue=lost.queues[0], body=b"1"),))]])
        assert isinstance(
            await node.intake.publish(Publication((Draft(topic=kept, queue=kept.queues[0], body=b"2"),))), list
        )
        ends = await there.read(catalogue.queue_ends, [kept.queues[0].id, made.queues[0].id])
        assert ends == {kept.queues[0].id: 1, made.queues[0].id: 0}
    finally:
        node.store.backend = first
        await second.aclose()

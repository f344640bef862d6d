"""A hole is closed when it is as wide as writers leave them, and never when it is wider: readers wait there."""

from support.stores import Stage
from tarry.store.records import Topic
from tarry.store.stream import stretches
from tarry.store.stream.sealing import HOLE_AGE, WIDEST, wide_holes

FAR = 5_000_000


def write_at(stage: Stage, topic: Topic, offset: int) -> None:
    """A row of another program's."""
    columns = "nonce, `key`, ordering_key, tag, headers, content_type, body, accepted_at, deliver_at, streamed_at"
    stage.tables.rows(
        f"INSERT INTO message (queue_id, `offset`, id, {columns}) SELECT queue_id, {offset}, id + 4096, {columns}"
        f" FROM message WHERE queue_id = {topic.queues[0].id} AND `offset` = 0"
    )
    stage.now += HOLE_AGE + 1


async def offsets(stage: Stage, topic: Topic) -> list[int]:
    """What a reader sees."""
    return [message.offset for message in await stage.store.read(stretches.pull, topic.queues[0], 0, 1000)]


async def test_a_row_far_away_is_not_sealed_up_to(stage: Stage, topic: Topic) -> None:
    queue = topic.queues[0].id
    await stage.publish(*(stage.draft(topic) for _ in range(3)))
    write_at(stage, topic, FAR)
    for at_once in (False, True):
        sealed = await stage.store.seal(queue, stage.now, at_once=at_once)
        assert (sealed.end, sealed.moved, sealed.more, sealed.gap) == (3, False, False, (3, FAR - 1))
    assert await stage.store.backend.read(wide_holes) == [("orders", 0, 3, FAR - 1)]
    assert stage.count("message") == 4, "no tombstone"
    assert await offsets(stage, topic) == [0, 1, 2]
    await stage.publish(stage.draft(topic))
    assert await offsets(stage, topic) == [0, 1, 2, 3], "what is written before the hole is read"
    stage.tables.rows(f"DELETE FROM message WHERE `offset` = {FAR}")
    sealed = await stage.store.seal(queue, stage.now)
    assert (sealed.end, sealed.more, sealed.gap) == (4, False, None)
    assert await stage.store.backend.read(wide_holes) == []


async def test_a_hole_as_wide_as_it_may_be_is_closed(stage: Stage, topic: Topic) -> None:
    await stage.publish(stage.draft(topic))
    write_at(stage, topic, 12)  # eleven offsets are missing before it
    sealed = await stage.store.seal(topic.queues[0].id, stage.now, widest=10)
    assert (sealed.end, sealed.gap) == (1, (1, 11))
    sealed = await stage.store.seal(topic.queues[0].id, stage.now, widest=11)
    assert (sealed.end, sealed.gap) == (13, None)
    assert await offsets(stage, topic) == [0, 12]
    assert stage.count("message", "id < 0") == 11
    assert WIDEST == 100_000, "as docs/reference/configuration.md has it"

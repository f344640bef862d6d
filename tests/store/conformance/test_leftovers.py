"""One look tells where there may be something to clean: nothing that retention could take is missed (I1's upkeep)."""

from support.cleaning import DAY, LIMITS, clean, whole_round
from support.stores import HOUR, SECOND, Stage
from tarry.store.cleaning import leftovers, retention
from tarry.store.cleaning.leftovers import LeftShards
from tarry.store.ids import shard_of
from tarry.store.records import Group, Topic
from tarry.store.stream.positions import Position
from tarry.store.timers import timers
from tarry.wheel.ladder import Ladder


async def what_is_left(stage: Stage, topic: Topic, *groups: Group) -> list[str]:
    left = await stage.store.read(leftovers.find_leftovers, [topic], groups)
    names = {queue.id: "topic" for queue in topic.queues}
    names |= {queue.id: f"returns of {group.name}" for group in groups for queue in group.retry_queues}
    logs = {group.id: group.name for group in groups}
    return sorted(
        [names[id_] for id_ in left.queues]
        + [f"log of {logs[group_id]}, {names[queue_id]}" for group_id, queue_id in left.logs]
        + [f"letters of {logs[group_id]}" for group_id in left.letters]
    )


async def test_where_nothing_ever_was_there_is_nothing(stage: Stage) -> None:
    topic, group = await stage.topic_and_group(queues=3)
    await stage.schedule(topic, HOUR)
    assert await what_is_left(stage, topic, group) == []
    assert (await stage.store.read(leftovers.find_leftovers, [], [])).queues == frozenset()


async def test_each_kind_is_told_from_its_first_row(stage: Stage, topic: Topic) -> None:
    billing = await stage.group(topic, ladder=Ladder((SECOND,)))
    idle = await stage.group(topic, "idle")
    await stage.publish(stage.draft(topic))
    assert await what_is_left(stage, topic, billing, idle) == ["topic"]
    await stage.fail(billing, await stage.claim(billing))
    assert await what_is_left(stage, topic, billing, idle) == ["log of billing, topic", "topic"]
    await stage.fall_due(after=SECOND)
    expected = ["log of billing, topic", "returns of billing", "topic"]
    assert await what_is_left(stage, topic, billing, idle) == expected
    await stage.fail(billing, await stage.claim(billing))
    expected = ["letters of billing", "log of billing, returns of billing", *expected]
    assert await what_is_left(stage, topic, billing, idle) == expected
    await stage.store.seek(idle, topic.queues, Position("latest"), stage.now)
    assert await what_is_left(stage, topic, billing, idle) == sorted(["log of idle, topic", *expected])


async def test_what_is_cleaned_is_left_no_more(stage: Stage, topic: Topic) -> None:
    group = await stage.group(topic, ladder=Ladder(()))
    (receipt,) = await stage.publish(stage.draft(topic))
    await stage.fail(group, await stage.claim(group))
    assert (await clean(stage, topic, after=100 * DAY)).rows == 1
    assert (await whole_round(stage, retention.clean_dead, group_id=group.id, limits=LIMITS, limit=9)).rows == 1
    assert await what_is_left(stage, topic, group) == ["log of billing, topic"]
    await stage.publish(stage.draft(topic))
    assert await what_is_left(stage, topic, group) == ["log of billing, topic", "topic"]
    left = await stage.store.read(leftovers.find_leftovers, [topic], [group])
    assert left.logs[group.id, topic.queues[0].id] == 1, "the cleaner remembers how far it came in a log"
    assert receipt.offset == 0


async def test_more_than_a_statement_takes(stage: Stage) -> None:
    topics = [await stage.topic(f"t{number}", queues=600) for number in range(2)]
    groups = [await stage.group(topic) for topic in topics]
    await stage.publish(stage.draft(topics[1], queue=599))
    left = await stage.store.read(leftovers.find_leftovers, topics, groups)
    assert left.queues == {topics[1].queues[599].id}


async def test_of_the_shards_those_are_told_where_somebody_cancels_or_moves(stage: Stage, topic: Topic) -> None:
    """And no others: what waits is nothing to clean."""
    empty = LeftShards(frozenset(), frozenset())
    assert await stage.store.read(leftovers.find_shards) == empty
    ids = [receipt.id for receipt in await stage.schedule(topic, HOUR, HOUR, HOUR)]
    assert await stage.store.read(leftovers.find_shards) == empty
    await stage.store.cancel(ids[:1], stage.now)
    assert await stage.store.read(leftovers.find_shards) == LeftShards(frozenset([shard_of(ids[0])]), frozenset())
    await stage.store.write(timers.reschedule, [(ids[1], stage.now + DAY)], stage.now)
    left = await stage.store.read(leftovers.find_shards)
    assert left.cancelled == {shard_of(ids[0])}
    assert left.moved == {shard_of(ids[1])}

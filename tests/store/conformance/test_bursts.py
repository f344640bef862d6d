"""Of which topics many are that are due at once: a look, which leaves all as it is."""

import pytest

from support.stores import HOUR, MINUTE, SECOND, START, Stage, ids_of
from tarry.store.ids import SHARDS
from tarry.store.timers import bursts, timers
from tarry.wheel.shards import shard_of


@pytest.mark.parametrize("many", [30, 300])
async def test_the_topics_of_messages(stage: Stage, many: int) -> None:
    """Few are looked for one by one, many by the stretch of the key where they lie."""
    a, b, c = [await stage.topic(name) for name in ("a", "b", "c")]
    receipts = [
        *await stage.schedule(a, *range(MINUTE, MINUTE + many)),
        *await stage.schedule(b, *range(MINUTE, MINUTE + many)),
        *await stage.schedule(c, *range(MINUTE, MINUTE + many)),
    ]
    (other,) = ids_of(await stage.schedule(c, MINUTE + many + 500))  # nobody asks for it
    topics = dict(zip(ids_of(receipts), [topic.id for topic in (a, b, c) for _ in range(many)], strict=True))
    asked = sorted((receipt.due, receipt.id) for receipt in receipts)
    found, groups = await stage.store.read(bursts.topics_of, asked, 0)
    assert (found, groups) == (topics, {})
    assert other not in found
    found, _ = await stage.store.read(bursts.topics_of, asked, a.id)
    one_by_one = 3 * many < 200
    assert found == {id_: topic for id_, topic in topics.items() if topic != a.id or one_by_one}
    assert stage.count("delay") == 3 * many + 1


async def test_the_topics_of_what_was_moved_is_gone_or_comes_again(stage: Stage) -> None:
    topic = await stage.topic("a")
    group = await stage.group(topic, "g")
    moved, gone, stays = ids_of(await stage.schedule(topic, HOUR, HOUR, HOUR))
    await stage.store.write(timers.reschedule, [(moved, START + MINUTE)], START)
    await stage.store.cancel([gone], START)
    await stage.publish(stage.draft(topic))
    await stage.fail(group, await stage.claim(group), retry_after=SECOND)
    ((retry,),) = [stage.column("SELECT id FROM retry")]
    asked = sorted([(START + MINUTE, moved), (START + HOUR, gone), (START + HOUR, stays), (START + SECOND, ~retry)])
    found, groups = await stage.store.read(bursts.topics_of, asked, topic.id)
    assert found == {moved: topic.id, stays: topic.id}
    assert groups == {~retry: group.id}
    assert await stage.store.read(bursts.topics_of, [], 0) == ({}, {})


async def test_far_apart_in_time_is_not_read_through(stage: Stage) -> None:
    """Two stretches, with what lies between passed over."""
    topic, other = await stage.topic("a"), await stage.topic("b")
    early = ids_of(await stage.schedule(topic, *range(SECOND, SECOND + 201)))
    late = ids_of(await stage.schedule(topic, *range(HOUR, HOUR + 201)))
    between = ids_of(await stage.schedule(other, *range(MINUTE, MINUTE + 10)))
    asked = [(START + SECOND + nth, id_) for nth, id_ in enumerate(early)]
    asked += [(START + HOUR + nth, id_) for nth, id_ in enumerate(late)]
    found, _ = await stage.store.read(bursts.topics_of, asked, 0)
    assert set(found) == {*early, *late}
    assert not set(found) & set(between)


async def test_other_topics_beside_the_burst_of_a_second(stage: Stage) -> None:
    a, b = await stage.topic("a"), await stage.topic("b")
    second = (START + HOUR) // SECOND
    begin = second * SECOND - START
    await stage.schedule(a, *[begin + 3 * number for number in range(300)])
    few = ids_of(await stage.schedule(b, *range(begin, begin + 1_000, 100)))
    await stage.schedule(b, begin - 1, begin + 1_000)
    (moved,) = ids_of(await stage.schedule(b, begin + 2 * HOUR))
    await stage.store.write(timers.reschedule, [(moved, START + begin + 5)], START)
    assert await stage.store.read(bursts.topic_of_burst, second) == a.id
    found: dict[int, int] = {}
    for shard in range(SHARDS):
        some = await stage.store.read(bursts.others, second, shard, a.id, 100)
        assert all(shard_of(id_) == shard for id_ in some)
        found |= some
    assert found == dict.fromkeys(few, b.id), "neither what is due before, after, nor what was moved"
    all_of_a = [len(await stage.store.read(bursts.others, second, shard, b.id, 7)) for shard in range(SHARDS)]
    assert set(all_of_a) == {7}, "no more than the limit"


async def test_a_second_without_a_burst(stage: Stage) -> None:
    topics = [await stage.topic(name) for name in ("a", "b", "c")]
    second = (START + HOUR) // SECOND
    begin = second * SECOND - START
    assert await stage.store.read(bursts.topic_of_burst, second) == 0
    for topic in topics:
        await stage.schedule(topic, *range(begin, begin + 200))
    assert await stage.store.read(bursts.topic_of_burst, second) == 0
    assert await stage.store.read(bursts.topic_of_burst, second + 1) == 0

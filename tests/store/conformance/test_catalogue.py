"""Topics, queues and groups."""

import pytest

from support.at_once import at_once
from support.stores import MINUTE, START, Stage, bodies
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.records import Group, QueueState, Topic
from tarry.wheel.ladder import DEFAULT_RUNGS, Ladder


async def test_a_topic(stage: Stage) -> None:
    ladder = Ladder((1, 2000))
    draft = TopicDraft("orders", "broadcast", 3, ordered=True, retention=MINUTE, ladder=ladder)
    topic = await stage.store.write(catalogue.add_topic, draft, stage.now)
    assert (topic.name, topic.kind, topic.ordered, topic.retention) == ("orders", "broadcast", True, MINUTE)
    assert (topic.ladder, topic.created_at) == (ladder, START)
    assert [queue.number for queue in topic.queues] == [0, 1, 2]
    assert await stage.store.read(catalogue.find_topics, ["orders", "none"]) == [topic]
    assert await stage.store.read(catalogue.find_topics, []) == []


async def test_added_again_it_is_the_same(stage: Stage) -> None:
    topic = await stage.topic("orders", 2)
    again = await stage.store.write(
        catalogue.add_topic, TopicDraft("orders", "broadcast", 1, retention=5), stage.now + MINUTE
    )
    assert again == topic


async def test_more_queues_later(stage: Stage) -> None:
    topic, group = await stage.topic_and_group("orders", 2)
    await stage.publish(stage.draft(topic, b"a"))
    wider = await stage.topic("orders", 4)
    assert wider.queues[:2] == topic.queues
    assert [queue.number for queue in wider.queues] == [0, 1, 2, 3]
    (seen,) = await stage.store.groups([wider])
    assert seen.id == group.id
    assert len(seen.retry_queues) == 4
    await stage.publish(stage.draft(wider, b"b", queue=3))
    assert sorted(bodies(await stage.claim(seen))) == [b"a", b"b"]
    assert stage.count("cursor") == 8


async def test_a_group_made_with_a_topic_read_before_it_grew_has_all_queues(stage: Stage) -> None:
    """Another server has given the topic more queues; this one has not heard of it."""
    narrow = await stage.topic("orders", 1)
    wide = await stage.topic("orders", 3)
    group = await stage.group(narrow)
    assert group.retry_queue_of.keys() == {queue.id for queue in wide.queues}
    assert await stage.store.groups([wide]) == [group]
    await stage.publish(stage.draft(wide, b"a", queue=2))
    assert bodies(await stage.claim(group)) == [b"a"]


async def test_names_are_bytes(stage: Stage) -> None:
    names = ["orders", "Orders", "orders ", "żółw", "🐢" * 60, "a.b-c_d", "Z" * 255]
    topics = [await stage.topic(name) for name in names]
    assert len({topic.id for topic in topics}) == len(names)
    assert [t.name for t in await stage.store.read(catalogue.topics)] == sorted(names, key=str.encode)
    for topic in topics:
        assert await stage.store.read(catalogue.find_topics, [topic.name]) == [topic]


async def test_changes(stage: Stage, topic: Topic, group: Group) -> None:
    await stage.store.change_topic(topic, TopicDraft("orders", retention=5 * MINUTE, ladder=Ladder((7,))), stage.now)
    (changed,) = await stage.store.read(catalogue.find_topics, ["orders"])
    assert (changed.retention, changed.ladder) == (5 * MINUTE, Ladder((7,)))
    assert (await stage.store.groups([changed]))[0].ladder == Ladder((7,))
    await stage.store.write(catalogue.change_group, group, Ladder(()))
    assert (await stage.store.groups([changed]))[0].ladder == Ladder(())
    await stage.store.write(catalogue.change_group, group, None)
    await stage.store.change_topic(topic, TopicDraft("orders"), stage.now)
    (plain,) = await stage.store.read(catalogue.find_topics, ["orders"])
    assert (plain.retention, plain.ladder) == (None, None)
    assert (await stage.store.groups([plain]))[0].ladder == Ladder(DEFAULT_RUNGS)


@pytest.mark.parametrize("ladder", [Ladder(()), Ladder((0,)), Ladder(DEFAULT_RUNGS), Ladder((315_360_000_000,) * 64)])
async def test_any_ladder(stage: Stage, ladder: Ladder) -> None:
    topic = await stage.topic(ladder=ladder)
    assert topic.ladder == ladder
    group = await stage.group(topic, ladder=ladder)
    assert group.ladder == ladder


async def test_or_behind_the_latest(stage: Stage) -> None:
    topic = await stage.topic(queues=2)
    await stage.publish(*(stage.draft(topic, b"before", queue=i % 2) for i in range(5)))
    group = await stage.group(topic, latest=True)
    assert await stage.claim_some(group) is None
    await stage.publish(stage.draft(topic, b"after", queue=1))
    assert bodies(await stage.claim(group)) == [b"after"]
    state = await stage.group_state(group)
    assert {q.lag for q in state.queues} == {0}
    assert sorted(stage.column("SELECT origin FROM `cursor`")) == [0, 0, 2, 3]


async def test_a_group_added_again_stays_where_it_is(stage: Stage, topic: Topic, group: Group) -> None:
    await stage.publish(*(stage.draft(topic, b"%d" % i) for i in range(4)))
    await stage.claim(group, 2)
    again = await stage.group(topic, latest=True, ladder=Ladder((1,)))
    assert again == group
    assert bodies(await stage.claim(again)) == [b"2", b"3"]


async def test_groups_of_topics(stage: Stage) -> None:
    one, two, three = [await stage.topic(name) for name in ("one", "two", "three")]
    added = [await stage.group(topic, name) for topic in (one, two) for name in ("b", "a", "B")]
    got = await stage.store.groups([one, two, three])
    assert sorted(g.id for g in got) == sorted(g.id for g in added)
    assert [g.name for g in got if g.topic == one] == ["B", "a", "b"]
    assert await stage.store.groups([]) == []
    queues = [queue for g in got for queue in g.queue_ids]
    assert len({q for q in queues if q not in {one.queues[0].id, two.queues[0].id}}) == 6


async def test_the_limits_of_a_topic(stage: Stage) -> None:
    limited = await stage.store.write(catalogue.add_topic, TopicDraft("orders", max_pending=7, max_rate=10**6), 1)
    assert (limited.max_pending, limited.max_rate, limited.limited) == (7, 10**6, True)
    for draft in (
        TopicDraft("orders", max_pending=10**12),
        TopicDraft("orders", release_rate=3),
        TopicDraft("orders", max_rate=1),
        TopicDraft("orders"),
    ):
        await stage.store.change_topic(limited, draft, 2)
        for (found,) in (
            await stage.store.read(catalogue.find_topics, ["orders"]),
            (await stage.store.read(catalogue.topic_page, 0, 9, stage.store.ladder))[0],
            await stage.store.read(catalogue.topics_by_name, "", 9),
        ):
            assert (found.max_pending, found.max_rate) == (draft.max_pending, draft.max_rate)
            assert found.release_rate == draft.release_rate
            assert found.limited == (draft.release_rate is None and draft != TopicDraft("orders"))


async def test_a_group_is_paused_until_it_is_resumed(stage: Stage, topic: Topic) -> None:
    """It is written down; what is changed of it otherwise changes nothing of that, and the group beside it is none."""
    group, other = await stage.group(topic), await stage.group(topic, "mail")
    assert await stage.store.read(catalogue.paused_groups) == []
    for paused in (True, True, False, False):
        await stage.store.write(catalogue.pause_group, group, paused=paused)
        await stage.store.write(catalogue.change_group, group, None)
        assert await stage.store.read(catalogue.paused_groups) == [group.id] * paused
        assert {one.id: one.paused for one in await stage.store.groups([topic])} == {group.id: paused, other.id: False}


async def test_many_come_at_once(stage: Stage) -> None:
    """Everybody who publishes to a topic that is not there makes it."""
    topics: list[Topic] = []
    groups: list[Group] = []

    async def one() -> None:
        topics.append(await stage.topic("orders", 2))
        groups.append(await stage.group(topics[-1], "billing"))

    await at_once(*[one] * 8)
    assert len(set(topics)) == 1
    assert len({group.id for group in groups}) == 1
    assert all(group.queue_ids == groups[0].queue_ids for group in groups)
    assert [stage.count(table) for table in ("topic", "queue", "consumer_group", "cursor")] == [1, 4, 1, 4]


async def test_states(stage: Stage) -> None:
    topic, other = await stage.topic("orders", 2), await stage.topic("other")
    group = await stage.group(topic)
    await stage.publish(*(stage.draft(topic, b"%d" % i, queue=i % 2) for i in range(7)))
    receipts = await stage.schedule(topic, MINUTE, MINUTE, MINUTE)
    await stage.store.cancel([receipts[0].id], stage.now)
    states = await stage.store.read(catalogue.topic_states, [topic, other])
    state = states[topic.id]
    assert (state.accepted, state.streamed, state.cancelled, state.pending) == (10, 7, 1, 2)
    assert (states[other.id].accepted, states[other.id].pending) == (0, 0)
    claim = await stage.claim(group, 3, client="c1")
    await stage.ack(group, claim, (0,))
    await stage.fail(group, claim, (1,))
    mine = await stage.group_state(group)
    assert mine.queues == (
        QueueState(0, 3, 4),
        QueueState(1, 0, 3),
        QueueState(0, 0, 0, retry=True),
        QueueState(1, 0, 0, retry=True),
    )
    assert [queue.lag for queue in mine.queues] == [1, 3, 0, 0]
    assert (mine.acked, mine.retried, mine.dead, mine.claims, mine.claimed, mine.clients) == (1, 1, 0, 1, 1, ("c1",))
    assert mine.retries == (1,) + (0,) * 15
    assert await stage.store.read(catalogue.topic_states, []) == {}
    assert await stage.store.read(catalogue.queue_ends, [topic.queues[0].id]) == {topic.queues[0].id: 4}


async def test_several_makers_count_into_one_topic(stage: Stage, topic: Topic) -> None:
    await stage.publish(stage.draft(topic))
    stage.store.tally_shard = 16
    await stage.publish(stage.draft(topic), stage.draft(topic))
    (receipt,) = await stage.schedule(topic, MINUTE)
    await stage.store.cancel([receipt.id], stage.now)
    await stage.counts(topic, accepted=4, streamed=3, cancelled=1)

"""What many groups have yet to do: as each of them alone tells it, in a few statements, and without a message read.

That the numbers are right in any history, test_counters and test_order hold.
"""

import pytest

from support.counting import counted
from support.stores import HOUR, Stage
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.cleaning import removal
from tarry.store.looking import group_counts
from tarry.store.looking.group_counts import GroupCounts, Standings
from tarry.store.records import Group, ReadRequest
from tarry.store.stream import readers
from tarry.wheel.ladder import Ladder


async def alone(stage: Stage, group: Group) -> GroupCounts:
    state = await stage.group_state(group)
    backlog = sum(queue.lag for queue in state.queues)
    return GroupCounts(backlog, state.claimed, sum(state.retries), state.dead, state.letters)


async def busy(stage: Stage) -> list[Group]:
    """Of three messages each, ever more are in hand, on the ladder and dead; then two clients of a broadcast topic."""
    topic = await stage.topic()
    groups = [
        await stage.store.add_group(topic, name, stage.now, ladder=Ladder((HOUR,))) for name in ("a", "b", "c", "d")
    ]
    short = await stage.store.add_group(topic, "e", stage.now, ladder=Ladder(()))
    await stage.publish(*(stage.draft(topic) for _ in range(3)))
    await stage.claim(groups[1], size=2)
    await stage.fail(groups[2], await stage.claim(groups[2], size=1))
    await stage.ack(groups[3], await stage.claim(groups[3]))
    await stage.fail(short, await stage.claim(short, size=2))
    draft = TopicDraft("news", kind="broadcast", queues=2)
    news = await stage.store.write(catalogue.add_topic, draft, stage.now)
    screens, unread = await stage.group(news, "screens"), await stage.group(news, "unread")
    for client in ("x", "y"):
        await stage.store.write(readers.read_on, [ReadRequest(screens, client, 1)], stage.now)
    await stage.publish(*(stage.draft(news, queue=queue) for queue in (0, 0, 1)))
    await stage.store.write(readers.read_on, [ReadRequest(screens, "x", 2)], stage.now)
    return [*groups, short, screens, unread]


async def test_each_as_it_tells_alone(stage: Stage) -> None:
    groups = await busy(stage)
    counts = await stage.store.read(group_counts.of_groups, groups)
    assert [counts[group.id] for group in groups] == [
        GroupCounts(3),
        GroupCounts(1, claimed=2),
        GroupCounts(2, retrying=1),
        GroupCounts(0),
        GroupCounts(1, dead=2, letters=2),
        GroupCounts(3),
        GroupCounts(0),
    ]
    for group in groups:
        assert counts[group.id] == await alone(stage, group), group.name
    assert await stage.store.read(group_counts.of_groups, []) == {}


async def test_which_have_some(stage: Stage) -> None:
    assert await stage.store.read(group_counts.standings) == Standings({}, {})
    groups = await busy(stage)
    a, b, c, _, e, screens, _ = (group.id for group in groups)
    backlogs = {a: 3, b: 1, c: 2, e: 1, screens: 3}
    assert await stage.store.read(group_counts.standings) == Standings(backlogs, {e: 2})


async def test_one_that_was_removed_is_missing(stage: Stage) -> None:
    first, second, *_ = await busy(stage)
    await stage.store.write(removal.remove_group, second, stage.now)
    assert (await stage.store.read(group_counts.of_groups, [first, second])).keys() == {first.id}


async def test_statements_are_few_and_read_no_message(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = await busy(stage)
    async with counted(stage.store) as one:
        await stage.store.read(group_counts.of_groups, groups[:1])
    async with counted(stage.store) as all_:
        await stage.store.read(group_counts.of_groups, groups)
        await stage.store.read(group_counts.standings)
    assert one.statements == ["claim.of_groups", "cursor.counts"]
    assert len(all_.statements) == 6
    assert {name.partition(".")[0] for name in all_.statements} == {"claim", "cursor", "queue", "reader"}
    monkeypatch.setattr(group_counts, "_TOGETHER", 2)
    in_parts = await stage.store.read(group_counts.of_groups, groups)
    monkeypatch.undo()
    assert in_parts == await stage.store.read(group_counts.of_groups, groups)


async def test_which_have_most(stage: Stage) -> None:
    """Also those that have nothing but retries; what was cancelled and what is in the stream waits no longer."""
    groups = await busy(stage)
    a, b, c, _, e, _, _ = (group.id for group in groups)
    assert sorted(await stage.store.read(catalogue.most_lagging, 10)) == sorted([a, b, c, e])
    assert await stage.store.read(catalogue.most_lagging, 2) == [a, c]
    quiet, some, most = [await stage.topic(name) for name in ("quiet", "some", "most")]
    await stage.publish(stage.draft(quiet))
    (gone,) = await stage.publish(stage.draft(quiet, delay=HOUR))
    await stage.publish(stage.draft(some, delay=HOUR))
    await stage.publish(*(stage.draft(most, delay=HOUR) for _ in range(3)))
    await stage.store.cancel([gone.id], stage.now)
    assert await stage.store.read(catalogue.most_pending, 10) == [most.id, some.id]
    assert await stage.store.read(catalogue.most_pending, 1) == [most.id]
    await stage.fall_due(after=HOUR)
    assert await stage.store.read(catalogue.most_pending, 10) == []

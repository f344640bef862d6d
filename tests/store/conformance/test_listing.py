"""All messages of a topic, page by page: each once, in the order that is told, and in a bounded number of rows."""

import pytest

from support.counting import counted
from support.stores import HOUR, MINUTE, START, Stage, ids_of
from tarry.store.looking import finding, found_pages, listing
from tarry.store.looking.found_pages import FoundPage
from tarry.store.looking.listing import Along
from tarry.store.records import Group, Topic


async def pages(
    stage: Stage, topic: Topic, limit: int, since: int | None = None, until: int | None = None
) -> list[FoundPage[Along]]:
    """From the first to the last."""
    found: list[FoundPage[Along]] = []
    place: Along | None = Along()
    while place is not None:
        found.append(await stage.store.read(found_pages.find_all, topic, since, until, place, limit))
        place = found[-1].after
        assert len(found) < 200
    return found


async def bodies(stage: Stage, topic: Topic, limit: int, **times: int) -> list[list[str]]:
    return [[(one.body or b"").decode() for one in page.messages] for page in await pages(stage, topic, limit, **times)]


async def one_by_one(stage: Stage, topic: Topic, many: int, *, queues: int = 1) -> None:
    """Into the stream a second apart, round the queues."""
    for number in range(many):
        stage.now += 1000
        await stage.publish(stage.draft(topic, b"s%d" % number, queue=number % queues))


async def test_what_waits_and_what_is_in_the_stream(stage: Stage) -> None:
    topic, other = await stage.topic(), await stage.topic("others")
    await stage.publish(*(stage.draft(topic, b"w%d" % n, HOUR - n * MINUTE) for n in range(5)))
    await stage.publish(*(stage.draft(other, b"x", MINUTE) for _ in range(7)), stage.draft(other, b"x"))
    await one_by_one(stage, topic, 5)
    assert await bodies(stage, topic, 100) == [["w4", "w3", "w2", "w1", "w0", "s4", "s3", "s2", "s1", "s0"]]
    assert await bodies(stage, topic, 4) == [
        ["w4", "w3", "s4", "s3"],
        ["w2", "w1", "s2", "s1"],
        ["w0", "s0"],
    ]
    assert await bodies(stage, topic, 1) == [
        [one] for one in ("w4", "w3", "w2", "w1", "w0", "s4", "s3", "s2", "s1", "s0")
    ]


async def test_where_one_kind_is_over_the_other_has_the_page(stage: Stage, topic: Topic) -> None:
    await stage.publish(stage.draft(topic, b"w0", HOUR))
    await one_by_one(stage, topic, 7)
    assert await bodies(stage, topic, 4) == [["w0", "s6", "s5", "s4"], ["s3", "s2", "s1", "s0"]]
    waiting = await stage.topic("waiting")
    await stage.publish(*(stage.draft(waiting, b"w%d" % n, HOUR + n) for n in range(6)))
    assert await bodies(stage, waiting, 4) == [["w0", "w1", "w2", "w3"], ["w4", "w5"]]
    assert await bodies(stage, await stage.topic("empty"), 4) == [[]]


@pytest.mark.parametrize("queues", [2, 7])
async def test_queues_are_merged_by_time(stage: Stage, queues: int) -> None:
    topic = await stage.topic(queues=queues)
    await one_by_one(stage, topic, 31, queues=queues)
    expected = [f"s{n}" for n in reversed(range(31))]
    for limit in (1, 3, 10, 31, 100):
        assert [one for page in await bodies(stage, topic, limit) for one in page] == expected, limit


async def test_a_queue_that_had_all_of_late(stage: Stage) -> None:
    """The others' heads are older than all of it: they are read once."""
    topic = await stage.topic(queues=8)
    await one_by_one(stage, topic, 8, queues=8)
    for number in range(40):
        stage.now += 1000
        await stage.publish(stage.draft(topic, b"n%d" % number, queue=3))
    expected = [f"n{n}" for n in reversed(range(40))]
    async with counted(stage.store) as count:
        assert await bodies(stage, topic, 40) == [expected, [f"s{n}" for n in reversed(range(8))]]
    assert count.statements.count("message.newest") <= 2 * (8 + 6)


async def test_more_queues_than_are_merged(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_QUEUES", 2)
    topic = await stage.topic(queues=5)
    await one_by_one(stage, topic, 10, queues=5)
    assert await bodies(stage, topic, 3) == [["s6", "s5", "s1"], ["s0"], ["s8", "s7", "s3"], ["s2"], ["s9", "s4"]]
    empty = await stage.topic("empty", queues=5)
    assert await bodies(stage, empty, 3) == [[]], "queues that never had a message take no page"


async def test_times(stage: Stage) -> None:
    topic = await stage.topic(queues=2)
    await stage.publish(*(stage.draft(topic, b"w%d" % n, HOUR + n * MINUTE) for n in range(4)))
    begin = stage.now
    await one_by_one(stage, topic, 20, queues=2)
    since, until = begin + 5_000, begin + 15_000
    streamed = [f"s{n}" for n in reversed(range(4, 14))]
    for limit in (3, 100):
        found = await bodies(stage, topic, limit, since=since, until=until)
        assert [one for page in found for one in page] == streamed, limit
    assert await bodies(stage, topic, 100, since=START + HOUR + MINUTE) == [["w1", "w2", "w3"]]
    assert await bodies(stage, topic, 100, until=begin) == [[]]


async def test_tombstones_and_what_retention_took(stage: Stage, topic: Topic) -> None:
    await one_by_one(stage, topic, 9)
    (queue,) = topic.queues
    stage.tables.rows(f"DELETE FROM message WHERE queue_id = {queue.id} AND `offset` < 3")
    stage.tables.rows(f"UPDATE message SET id = -id WHERE queue_id = {queue.id} AND `offset` IN (5, 6)")
    assert [one for page in await bodies(stage, topic, 2) for one in page] == ["s8", "s7", "s4", "s3"]


async def test_all_that_it_leads_to_is_there(stage: Stage, topic: Topic, group: Group) -> None:
    """What is on the ladder, dead or acked is in the stream all the same, each with its life."""
    receipts = await stage.publish(*(stage.draft(topic, b"%d" % n) for n in range(3)))
    claim = await stage.claim_some(group, 2)
    assert claim is not None
    await stage.fail(group, claim)
    ((page),) = await pages(stage, topic, 10)
    assert {one.id for one in page.messages} == set(ids_of(receipts))
    assert {event.what for one in page.messages for event in one.life} == {"published", "claimed", "failed", "retrying"}


async def test_the_rows_of_others_are_not_all_read(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """One message beside many of another topic: a page reads so many rows, says that there may be more, and goes on."""
    monkeypatch.setattr(finding, "_ROWS", 5)
    monkeypatch.setattr(finding, "_READS", 2)
    monkeypatch.setattr(listing, "_ROWS", 50)
    other, topic = await stage.topic("others", queues=3), await stage.topic()
    await stage.publish(*(stage.draft(other, b"x", MINUTE + n) for n in range(600)))
    await stage.publish(*(stage.draft(other, b"x", queue=n % 3) for n in range(600)))
    await stage.publish(stage.draft(topic, b"w", HOUR))
    await stage.publish(stage.draft(topic, b"s"))
    found: list[list[str]] = []
    place: Along | None = Along()
    while place is not None:
        async with counted(stage.store) as read:
            page = await stage.store.read(found_pages.find_all, topic, None, None, place, 10)
        assert read.rows <= 2 * 32 * 5 + 50 + 20, read.statements
        found.append([(one.body or b"").decode() for one in page.messages])
        place = page.after
    assert found[0] == ["s"], "what is in the stream is there at once"
    assert found[-1] == ["w"]
    assert len(found) > 2


async def test_tombstones_are_not_all_read(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_ROWS", 20)
    topic = await stage.topic()
    await one_by_one(stage, topic, 1)
    await stage.publish(*(stage.draft(topic, b"x") for _ in range(100)))
    stage.tables.rows(f"UPDATE message SET id = -id WHERE queue_id = {topic.queues[0].id} AND `offset` > 0")
    found = await bodies(stage, topic, 3)
    assert found[-1] == ["s0"]
    assert found[:-1] == [[]] * (len(found) - 1)
    assert len(found) == 6

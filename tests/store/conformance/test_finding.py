"""Finding by state and time, page by page."""

import pytest

from support.stores import HOUR, MINUTE, SECOND, Stage, ids_of
from tarry.store.looking import found_pages, standings
from tarry.store.looking.finding import PageStart, Wanted
from tarry.store.records import Group, Topic
from tarry.store.states import Findable
from tarry.store.timers import timers
from tarry.wheel.ladder import Ladder


async def found(stage: Stage, topic: Topic, wanted: Wanted, limit: int) -> list[int]:
    got: list[int] = []
    place: PageStart | None = PageStart()
    while place is not None:
        page = await stage.store.read(found_pages.find, topic, wanted, place, limit)
        assert len(page.messages) <= limit
        got += [one.id for one in page.messages]
        place = page.after
    return got


@pytest.mark.parametrize("limit", [3, 100])
async def test_what_waits_and_what_was_cancelled(stage: Stage, limit: int) -> None:
    topic, other = await stage.topic(), await stage.topic("other")
    ids = ids_of(await stage.schedule(topic, *((1 + i) * MINUTE for i in range(20))))
    await stage.schedule(other, *((1 + i) * MINUTE for i in range(20)))
    assert await found(stage, topic, Wanted("scheduled"), limit) == sorted(ids)
    await stage.store.cancel(ids[:4], stage.now)
    assert await found(stage, topic, Wanted("scheduled"), limit) == sorted(ids[4:])
    assert await found(stage, topic, Wanted("cancelled"), limit) == sorted(ids[:4])
    between = Wanted("scheduled", stage.now + 6 * MINUTE, stage.now + 8 * MINUTE)
    assert await found(stage, topic, between, limit) == ids[5:7]
    # One that was moved is found at its new time.
    await stage.store.write(timers.reschedule, [(ids[19], stage.now + 7 * MINUTE)], stage.now)
    assert await found(stage, topic, between, limit) == sorted([*ids[5:7], ids[19]])


async def test_more_than_one_read(stage: Stage, topic: Topic) -> None:
    ids: list[int] = []
    for _ in range(4):
        ids += ids_of(await stage.schedule(topic, *(i * SECOND + 1 for i in range(1000))))
    assert await found(stage, topic, Wanted("scheduled"), 1000) == sorted(ids)


@pytest.mark.parametrize("limit", [2, 5, 100])
async def test_what_is_in_the_stream(stage: Stage, limit: int) -> None:
    topic = await stage.topic(queues=3)
    ids: list[int] = []
    began = stage.now
    for i in range(15):
        ids += ids_of(await stage.publish(stage.draft(topic, queue=i % 3)))
        stage.now += SECOND
    assert sorted(await found(stage, topic, Wanted("published"), limit)) == sorted(ids)
    between = Wanted("published", began + 4 * SECOND, began + 9 * SECOND)
    assert sorted(await found(stage, topic, between, limit)) == sorted(ids[4:9])


async def stands(stage: Stage, topic: Topic, state: Findable, limit: int, *times: int) -> list[int]:
    """What is found, once each; all of it is said to stand so."""
    ids = list(dict.fromkeys(await found(stage, topic, Wanted(state, *times), limit)))
    for id_ in ids:
        one = await stage.found(id_)
        assert one.is_(state)
    return sorted(ids)


@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_what_is_in_hand_and_on_the_ladder(stage: Stage, limit: int) -> None:
    topic, other = await stage.topic(queues=2), await stage.topic("other")
    groups: list[Group] = [await stage.group(topic, name) for name in ("billing", "audit")]
    stranger = await stage.group(other)
    ids = ids_of(await stage.publish(*(stage.draft(topic, queue=i % 2) for i in range(8))))
    await stage.publish(stage.draft(other))
    await stage.claim(stranger)
    claims = [await stage.claim(groups[0], 2), await stage.claim(groups[0], 2)]
    held = [m.id for claim in claims for m in claim.messages]
    assert await stands(stage, topic, "claimed", limit) == sorted(held)
    began = stage.now
    stage.now += SECOND
    later = await stage.claim(groups[1], 4)
    assert await stands(stage, topic, "claimed", limit, began + 1) == sorted(m.id for m in later.messages)
    assert await stands(stage, topic, "retrying", limit) == []
    await stage.fail(groups[0], claims[0])
    await stage.ack(groups[0], claims[1])
    await stage.fail(groups[1], later, (1, 3), retry_after=HOUR)
    rests = {*(m.id for m in claims[0].messages), later.messages[1].id, later.messages[3].id}
    assert await stands(stage, topic, "retrying", limit) == sorted(rests)
    late = {later.messages[1].id, later.messages[3].id}
    assert await stands(stage, topic, "retrying", limit, stage.now + MINUTE, stage.now + 2 * HOUR) == sorted(late)
    in_hand = sorted({later.messages[0].id, later.messages[2].id})
    assert await stands(stage, topic, "claimed", limit) == in_hand
    # They come back, and are claimed through the retry queue.
    await stage.fall_due(after=MINUTE)
    again = await stage.claim(groups[0], 2)
    assert {m.id for m in again.messages} == {m.id for m in claims[0].messages}
    assert await stands(stage, topic, "claimed", limit) == sorted({*in_hand, *(m.id for m in again.messages)})
    assert set(ids) >= rests


@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_what_is_dead_and_parked(stage: Stage, limit: int) -> None:
    topic = await stage.topic(ladder=Ladder(()), queues=2, ordered=True)
    group = await stage.group(topic, ladder=Ladder((MINUTE,)))
    hard = await stage.group(topic, "hard")
    ids = ids_of(await stage.publish(*(stage.draft(topic, ordering_key="a") for _ in range(5))))
    claim = await stage.claim(group, 3)
    await stage.fail(group, claim)
    assert await stands(stage, topic, "retrying", limit) == ids[:1]
    assert await stands(stage, topic, "parked", limit) == ids[1:3]
    assert await stands(stage, topic, "parked", limit, stage.now + 1) == []
    assert await stands(stage, topic, "dead", limit) == []
    claim = await stage.claim(hard, 2)
    await stage.fail(hard, claim)
    assert await stands(stage, topic, "dead", limit) == ids[:1]
    dead = await found(stage, topic, Wanted("dead", stage.now, stage.now + 1), limit)
    assert dead == ids[:1]
    # The letter outlives its message.
    stage.tables.rows(f"DELETE FROM message WHERE id = {ids[0]}")
    assert await found(stage, topic, Wanted("dead"), limit) == ids[:1]
    (letter,) = (await stage.store.read(found_pages.find, topic, Wanted("dead"), PageStart(), 10)).messages
    assert (letter.id, letter.body, letter.ordering_key, letter.queue) == (ids[0], b"{}", "a", 0)
    assert [(event.what, event.group) for event in letter.life] == [("published", None), ("dead", "hard")]


@pytest.mark.slow
async def test_standings_go_on_where_a_read_ended(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standings, "_ROWS", 5)
    monkeypatch.setattr(standings, "_CLAIMS", 2)
    monkeypatch.setattr(standings, "_READS", 2)
    topic = await stage.topic(ladder=Ladder((MINUTE,)), queues=2)
    groups = [await stage.group(topic, name) for name in "abcd"]
    ids = sorted(ids_of(await stage.publish(*(stage.draft(topic, queue=i % 2) for i in range(20)))))
    claims = [(group, await stage.claim(group, 2)) for group in groups for _ in range(10)]
    assert await stands(stage, topic, "claimed", 100) == await stands(stage, topic, "claimed", 1) == ids
    for group, claim in claims:
        await stage.fail(group, claim)
    assert await stands(stage, topic, "retrying", 100) == ids
    await stage.fall_due(after=MINUTE)
    for group in groups:
        await stage.fail(group, await stage.claim(group, 20))
    assert await stands(stage, topic, "dead", 100) == ids

"""Finding by state and time, page by page, and what falls due when."""

import pytest

from support.stores import HOUR, MINUTE, SECOND, Stage, ids_of
from tarry.store.finding import Place, Wanted
from tarry.store.records import Topic


async def found(stage: Stage, topic: Topic, wanted: Wanted, limit: int) -> list[int]:
    got: list[int] = []
    place: Place | None = Place()
    while place is not None:
        page = await stage.store.find(topic, wanted, place, limit)
        assert len(page.ids) <= limit
        got += page.ids
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
    await stage.store.reschedule([(ids[19], stage.now + 7 * MINUTE)], stage.now)
    assert await found(stage, topic, between, limit) == sorted([*ids[5:7], ids[19]])


async def test_more_than_one_read(stage: Stage) -> None:
    topic = await stage.topic()
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


async def test_upcoming(stage: Stage) -> None:
    topic, other = await stage.topic(), await stage.topic("other")
    receipts = await stage.schedule(topic, 10, HOUR + 1, HOUR + 2, 3 * HOUR - 1, 4 * HOUR)
    await stage.schedule(other, 10)
    assert await stage.store.upcoming(topic, stage.now, HOUR, 4) == [1, 2, 1, 0]
    await stage.store.reschedule([(receipts[1].id, stage.now + 2 * HOUR)], stage.now)
    assert await stage.store.upcoming(topic, stage.now, HOUR, 4) == [1, 1, 2, 0]
    await stage.store.cancel([receipts[2].id], stage.now)
    assert await stage.store.upcoming(topic, stage.now + HOUR, HOUR, 4) == [1, 2, 0, 1]

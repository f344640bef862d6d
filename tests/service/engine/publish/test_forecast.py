"""What is done for the forecast: changes are added up, and all rows are counted every hour."""

import pytest

from support.hand_time import HandTime
from tarry.service.engine.publish.forecast import Forecast
from tarry.service.metrics import Metrics
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.records import Draft, Publication, Topic
from tarry.store.store import Store
from tarry.store.timers import forecast

HOUR = 3_600_000


class Town(HandTime):
    """A forecast over a real store."""

    def __init__(self, store: Store) -> None:
        super().__init__(1_795_000_020_000)
        self.store = store
        self.forecast = self.another()

    def another(self) -> Forecast:
        return Forecast(self.store, self.clock, Metrics())

    async def schedule(self, topic: Topic, *delays: int) -> None:
        drafts = tuple(
            Draft(topic=topic, queue=topic.queues[0], body=b"1", deliver_at=self.ms + delay) for delay in delays
        )
        await self.store.publish([Publication(drafts)], self.ms)

    async def count(self, topic: Topic) -> int:
        (count,) = (await self.forecast.upcoming(topic, self.ms, 50 * HOUR, 1, overdue=True)).counts
        return count


@pytest.fixture
async def town(store: Store) -> Town:
    return await Town(store).begun()


async def topic_of(town: Town) -> Topic:
    return await town.store.write(catalogue.add_topic, TopicDraft("orders"), 1)


async def test_all_rows_are_counted_every_hour(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the sake of somebody's own SQL, which tells nothing."""
    topic = await topic_of(town)
    await town.forecast.look()
    with monkeypatch.context() as untold:
        untold.setattr(forecast, "changes", lambda *_args, **_rest: [])
        await town.schedule(topic, 10 * HOUR)
    town.ms += HOUR
    await town.another().look()
    assert await town.count(topic) == 0
    town.ms += 1
    await town.another().look()
    assert await town.count(topic) == 1


async def test_what_was_changed_is_added_up(town: Town) -> None:
    assert town.forecast.rest() > 2
    await town.schedule(await topic_of(town), HOUR)
    assert await town.store.read(forecast.is_changed)
    await town.forecast.add_up()
    assert not await town.store.read(forecast.is_changed)
    assert town.forecast.rest() == 2

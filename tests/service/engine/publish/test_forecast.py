"""Whom a server believes that is asked what falls due when: the forecast, or the rows."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from support.engine import Cluster
from tarry.service.clock import Clock
from tarry.service.engine.publish import forecast as service
from tarry.service.engine.publish.forecast import Forecast
from tarry.service.metrics import Metrics
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.looking import upcoming
from tarry.store.records import Draft, Publication, Topic
from tarry.store.sqlite.backend import SQLiteBackend
from tarry.store.store import Store
from tarry.store.timers import forecast

MINUTE, HOUR = 60_000, 3_600_000


class Town:
    """A forecast over a real store, with a clock, older servers and duties that are moved by hand."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.ms = 1_795_000_020_000
        self.cluster = Cluster(level=14)
        self.clock = Clock(self.sample, monotonic=lambda: self.ms * 1_000_000)
        self.forecast = self.another()

    def another(self) -> Forecast:
        return Forecast(self.store, self.clock, Metrics(), self.cluster.nodes)

    async def sample(self) -> int:
        return self.ms

    async def schedule(self, topic: Topic, *delays: int) -> None:
        drafts = tuple(
            Draft(topic=topic, queue=topic.queues[0], body=b"1", deliver_at=self.ms + delay) for delay in delays
        )
        await self.store.publish([Publication(drafts)], self.ms)

    async def count(self, topic: Topic) -> int:
        (count,) = (await self.forecast.upcoming(topic, self.ms, 50 * HOUR, 1, overdue=True)).counts
        return count

    async def kept(self, topic: Topic) -> int:
        (count,) = (await self.store.read(upcoming.read, topic, self.ms, 50 * HOUR, 1, self.ms)).counts
        return count


@pytest.fixture
async def town(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Town]:
    monkeypatch.setattr(service, "_APART", 0.1)
    backend = SQLiteBackend(tmp_path / "tarry.db")
    await backend.migrate()
    town = Town(Store(backend))
    await town.clock.take()
    yield town
    with trio.CancelScope(shield=True):
        await backend.aclose()


async def topic_of(town: Town) -> Topic:
    return await town.store.write(catalogue.add_topic, TopicDraft("orders"), 1)


async def test_rows_of_before_are_counted_once(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await topic_of(town)
    with monkeypatch.context() as before:
        before.setattr(forecast, "changes", lambda *_args, **_rest: [])
        await town.schedule(topic, HOUR, 2 * HOUR)
    assert (town.forecast.trusted, await town.count(topic), await town.kept(topic)) == (False, 2, 0)
    town.ms += 1
    await town.forecast.look()
    assert not town.forecast.trusted, "what was there in the very millisecond may have been changed since"
    town.ms += 1
    await town.forecast.look()
    assert (town.forecast.trusted, await town.count(topic), await town.kept(topic)) == (True, 2, 2)
    # Another server that has just started does not trust what was counted before.
    other = town.another()
    town.ms += 1
    await other.look()
    assert not other.trusted
    town.ms += 1
    await other.look()
    assert other.trusted


async def test_nobody_trusts_it_beside_a_server_of_before(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await topic_of(town)
    for _ in range(2):
        await town.forecast.look()
        town.ms += 1
    assert town.forecast.trusted
    town.cluster.level, town.cluster.has_duties = 13, False
    assert not town.forecast.trusted, "at once"
    with monkeypatch.context() as before:
        before.setattr(forecast, "changes", lambda *_args, **_rest: [])
        await town.schedule(topic, HOUR)
    await town.forecast.look()
    await town.schedule(topic, HOUR)
    assert await town.count(topic) == 2
    await town.forecast.add_up()  # a server of before would not
    assert not await town.store.read(forecast.is_changed)
    town.cluster.level = 14
    assert not town.forecast.trusted, "what it did is yet to be counted"
    for _ in range(2):
        town.ms += 1
        await town.forecast.look()
    assert (town.forecast.trusted, await town.kept(topic)) == (True, 2)


async def test_who_has_the_duties_counts_every_hour(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the sake of outboxes of before, which nobody sees."""
    topic = await topic_of(town)
    for _ in range(2):
        await town.forecast.look()
        town.ms += 1
    with monkeypatch.context() as before:
        before.setattr(forecast, "changes", lambda *_args, **_rest: [])
        await town.schedule(topic, 10 * HOUR)
    town.ms += HOUR + MINUTE
    town.cluster.has_duties = False
    await town.forecast.look()
    assert await town.kept(topic) == 0
    town.cluster.has_duties = True
    await town.forecast.look()
    assert await town.kept(topic) == 1


async def test_one_of_all_adds_up(town: Town) -> None:
    await town.schedule(await topic_of(town), HOUR)
    town.cluster.has_duties = False
    await town.forecast.add_up()
    assert await town.store.read(forecast.is_changed)
    town.cluster.has_duties = True
    await town.forecast.add_up()
    assert not await town.store.read(forecast.is_changed)

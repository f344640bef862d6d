"""Limits: what is taken and not written is given back, and what is written meanwhile is counted once, or twice for a
second."""

import pytest

from support.engine import Cluster
from support.hand_time import HandTime
from tarry.service.engine.publish import limits
from tarry.service.engine.publish.limits import Limits
from tarry.service.errors import TooMany
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.records import Draft, Publication, Topic
from tarry.store.store import Store


class Town(HandTime):
    """Limits over a real store."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        self.limits = Limits(store, self.clock, Cluster().nodes)

    async def topic(self, name: str = "orders", **limits: int) -> Topic:
        return await self.store.write(catalogue.add_topic, TopicDraft(name, **limits), 1)  # type: ignore[arg-type]

    async def schedule(self, topic: Topic, count: int) -> None:
        drafts = tuple(
            Draft(topic=topic, queue=topic.queues[0], body=b"1", deliver_at=self.ms + 9_999) for _ in range(count)
        )
        await self.store.publish([Publication(drafts)], self.ms)


@pytest.fixture
async def town(store: Store) -> Town:
    return await Town(store).begun()


async def test_what_is_not_written_is_given_back(town: Town) -> None:
    topic = await town.topic(max_pending=2, max_rate=2)
    await town.limits.look(topic)
    for _ in range(5):
        town.limits.take(topic, 2, 2)
        with pytest.raises(TooMany):
            town.limits.take(topic, 1, 1)
        town.limits.landed(topic, 2, 2, written=False)
    town.limits.take(topic, 2, 2)


async def test_what_was_written_elsewhere_is_known_after_a_second(town: Town) -> None:
    topic = await town.topic(max_pending=3)
    await town.limits.look(topic)
    await town.schedule(topic, 3)
    town.ms += 999
    await town.limits.look(topic)
    assert not town.limits.is_full(topic, 1)
    town.ms += 1
    await town.limits.look(topic)
    assert town.limits.is_full(topic, 1)


async def test_what_is_being_written_while_it_reads_is_not_lost(town: Town) -> None:
    """It may be in what is read, or not yet."""
    topic = await town.topic(max_pending=3)
    await town.limits.look(topic)
    town.limits.take(topic, 2, 2)
    town.ms += 1_000
    await town.limits.look(topic)
    assert town.limits.is_full(topic, 2)
    await town.schedule(topic, 2)
    town.limits.landed(topic, 2, 2, written=True)
    for _ in range(2):
        town.ms += 1_000
        await town.limits.look(topic)
    assert not town.limits.is_full(topic, 1)
    assert town.limits.is_full(topic, 2)


async def test_of_very_many_topics_those_at_rest_are_read_anew(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_REMEMBERED", 2)
    busy = await town.topic("busy", max_pending=9)
    await town.limits.look(busy)
    town.limits.take(busy, 9, 9)
    for name in "abcd":
        topic = await town.topic(name, max_pending=1)
        await town.schedule(topic, 1)
        await town.limits.look(topic)
        assert town.limits.is_full(topic, 1)
        assert len(town.limits._known) <= 2
    assert town.limits.is_full(busy, 1)

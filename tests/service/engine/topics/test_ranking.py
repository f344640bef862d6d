"""The ranking pages through topics without a gap, whatever it is sorted by, and a page costs what it holds."""

import pytest

from support.counting import counted
from tarry.service.clock import Clock
from tarry.service.engine.state import directory as directories
from tarry.service.engine.state.directory import Directory
from tarry.service.engine.state.rates import Rates
from tarry.service.engine.topics.ranking import Ranking, Sort, TopicPageStart
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.records import Draft, Publication, Topic
from tarry.store.store import Store


class Town:
    """Topics a to m, every third of which does something."""

    def __init__(self, store: Store, directory: Directory, rates: Rates) -> None:
        self.store = store
        self.directory = directory
        self.ranking = Ranking(store, directory, rates)
        self.rates = rates

    async def all_pages(self, sort: Sort, limit: int) -> list[list[str]]:
        pages: list[list[str]] = []
        place: TopicPageStart | None = TopicPageStart()
        while place is not None:
            page = await self.ranking.page(sort, place, limit)
            pages.append([topic.name for topic, _, _ in page.topics])
            place = page.after
        return pages


@pytest.fixture
async def town(store: Store, directory: Directory, clock: Clock) -> Town:
    town = Town(store, directory, Rates(lambda: 30.0))
    for number, name in enumerate("mlkjihgfedcba"):
        topic = await directory.topic(name, create=True)
        if number % 3 == 0:
            await directory.group(topic, "g", create=True)
            draft = Draft(topic=topic, queue=topic.queues[0], body=b"1")
            await store.publish([Publication((draft,) * (1 + number))], clock.now())
            town.rates.count(topic.id, published=100 - number)
    return town


ORDERS: dict[Sort, str] = {"name": "abcdefghijklm", "rate": "mjgdabcefhikl", "backlog": "adgjmbcefhikl"}


@pytest.mark.parametrize("limit", [1, 2, 4, 13, 100])
@pytest.mark.parametrize("sort", ORDERS)
async def test_every_topic_comes_once(town: Town, sort: Sort, limit: int) -> None:
    pages = await town.all_pages(sort, limit)
    assert "".join(name for page in pages for name in page) == ORDERS[sort]
    assert all(len(page) == limit for page in pages[:-1])


async def test_what_is_told_of_a_topic(town: Town) -> None:
    page = await town.ranking.page("backlog", TopicPageStart(), 1)
    ((topic, state, activity),) = page.topics
    assert (topic.name, state.accepted, activity.backlog) == ("a", 13, 13)
    assert activity.rate.published > 0


@pytest.mark.parametrize("sort", ORDERS)
async def test_a_page_costs_a_bounded_number_of_statements(town: Town, sort: Sort) -> None:
    async with counted(town.store) as few:
        await town.ranking.page(sort, TopicPageStart(), 2)
    async with counted(town.store) as many:
        await town.ranking.page(sort, TopicPageStart(), 12)
    assert len(many.statements) <= 12
    assert len(many.statements) <= len(few.statements) + 2  # the idle ones come from elsewhere


async def _made_elsewhere(town: Town, *names: str) -> list[Topic]:
    return [await town.store.write(catalogue.add_topic, TopicDraft(name), 1) for name in names]


async def test_a_refresh_of_many_topics_reads_some_in_turn(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is new and what was removed is known at once, and everything after a few rounds."""
    monkeypatch.setattr(directories, "_PAGE", 2)
    monkeypatch.setattr(directories, "_FIRST_PAGE", 3)
    monkeypatch.setattr(directories, "_ROUND", 4)
    new, gone = await _made_elsewhere(town, "new", "gone")
    await town.directory.refresh()
    assert {new.name, gone.name} <= {topic.name for topic in town.directory.some(1000)}
    await town.store.remove_topic(gone, 2, force=True)
    first = town.directory.some(1000)[0]
    await town.store.change_topic(first, TopicDraft(first.name, retention=77), 2)
    async with counted(town.store) as count:
        await town.directory.refresh()
    assert len(count.statements) <= 20
    assert gone.name not in {topic.name for topic in town.directory.some(1000)}
    for _ in range(4):
        await town.directory.refresh()
    assert (await town.directory.topic(first.name, create=False)).retention == 77
    # Without a tombstone, as after a while: the round in turn misses it.
    (later,) = await _made_elsewhere(town, "later")
    await town.directory.refresh()
    await town.store.remove_topic(later, 2, force=True)
    await town.store.backend.write(lambda tx: tx.execute("removed.remove", later.id, 0, 0))
    for _ in range(6):
        await town.directory.refresh()
    assert later.name not in {topic.name for topic in town.directory.some(1000)}


async def test_a_group_that_another_server_made_is_looked_up_alone(town: Town) -> None:
    topic = await town.directory.topic("b", create=False)
    group = await town.store.add_group(topic, "elsewhere", 1)
    async with counted(town.store) as count:
        found = await town.directory.look_up_group(group.id)
    assert found == group
    assert len(count.statements) <= 8
    assert await town.directory.look_up_group(12345) is None

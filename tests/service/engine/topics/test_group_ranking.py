"""The groups of all topics come in pages without a gap, whatever they are sorted by, and a page costs what it holds."""

import pytest
import trio

from support.counting import counted
from tarry.service.clock import Clock
from tarry.service.engine.state.directory import Directory
from tarry.service.engine.topics.group_ranking import GroupPageStart, GroupRanking, GroupSort
from tarry.store import catalogue
from tarry.store.cleaning import removal
from tarry.store.records import ClaimRequest, Draft, Publication, Settlement, Topic
from tarry.store.store import Store
from tarry.wheel.ladder import Ladder


class Town:
    """Topics a to e. Group x of each has a backlog, y dead letters; of c there are none, and z has nothing to do."""

    def __init__(self, store: Store, directory: Directory) -> None:
        self.store = store
        self.directory = directory
        self.ranking = GroupRanking(store, directory)

    async def all_pages(self, sort: GroupSort, limit: int, topic: Topic | None = None) -> list[list[str]]:
        pages: list[list[str]] = []
        place: GroupPageStart | None = GroupPageStart()
        while place is not None:
            assert len(pages) < 20, "the pages have no end"
            page = await self.ranking.page(sort, place, limit, topic)
            pages.append([f"{group.topic.name}{group.name}" for group, _ in page.groups])
            place = page.after
        return pages


@pytest.fixture
async def town(store: Store, directory: Directory, clock: Clock) -> Town:
    for number, name in enumerate("ebdca"):
        topic = await directory.topic(name, create=True)
        messages = 0 if name == "c" else 1 + number
        if messages:
            draft = Draft(topic=topic, queue=topic.queues[0], body=b"1")
            await store.publish([Publication((draft,) * messages)], clock.now())
        for group_name in "zyx":
            latest = group_name == "z"
            group = await directory.group(topic, group_name, create=True, latest=latest, ladder=Ladder(()))
            if messages and group_name == "y":
                turn = await store.turn(group, (), [ClaimRequest("c1", messages, 60_000)], clock.now())
                (claim,) = turn.claims
                assert claim is not None
                await store.turn(group, [Settlement(claim.key, "fail")], (), clock.now())
    return Town(store, directory)


ORDERS: dict[GroupSort, str] = {
    "name": "ax ay az bx by bz cx cy cz dx dy dz ex ey ez",
    "backlog": "ax dx bx ex ay az by bz cx cy cz dy dz ey ez",
    "dead_letters": "ay dy by ey ax az bx bz cx cy cz dx dz ex ez",
}


@pytest.mark.parametrize("limit", [1, 2, 4, 15, 100])
@pytest.mark.parametrize("sort", ORDERS)
@pytest.mark.cases(5)
async def test_every_group_comes_once(town: Town, sort: GroupSort, limit: int) -> None:
    pages = await town.all_pages(sort, limit)
    assert " ".join(name for page in pages for name in page) == ORDERS[sort]
    assert all(len(page) == limit for page in pages[:-1])
    assert pages[-1]


async def test_of_one_topic(town: Town) -> None:
    topic = await town.directory.topic("d", create=False)
    assert await town.all_pages("dead_letters", 2, topic) == [["dy", "dx"], ["dz"]]


async def test_what_is_told_of_a_group(town: Town) -> None:
    page = await town.ranking.page("dead_letters", GroupPageStart(), 1)
    ((group, counts),) = page.groups
    assert (group.name, group.paused, counts.backlog, counts.dead, counts.letters) == ("y", False, 0, 5, 5)
    await town.store.write(catalogue.pause_group, group, paused=True)  # at another server
    page = await town.ranking.page("dead_letters", GroupPageStart(), 1)
    assert page.groups[0][0].paused


async def test_one_that_was_removed_elsewhere_is_left_out(town: Town) -> None:
    page = await town.ranking.page("name", GroupPageStart(), 2)
    await town.store.write(removal.remove_group, page.groups[0][0], 1)
    again = await town.ranking.page("name", GroupPageStart(), 2)
    assert [group.name for group, _ in again.groups] == ["y"]
    assert again.after == page.after, "the next page begins where it did"


@pytest.mark.parametrize("sort", ORDERS)
async def test_a_page_costs_a_bounded_number_of_statements(town: Town, sort: GroupSort) -> None:
    async with counted(town.store) as few:
        await town.ranking.page(sort, GroupPageStart(), 2)
    async with counted(town.store) as many:
        await town.ranking.page(sort, GroupPageStart(), 12)
    assert len(few.statements) <= 5
    assert many.statements == ["claim.of_groups", "cursor.counts", "consumer_group.paused"]


async def test_it_is_added_up_once_for_all_who_ask(town: Town) -> None:
    async with counted(town.store) as count, trio.open_nursery() as nursery:
        for sort in (*ORDERS, *ORDERS):
            nursery.start_soon(town.ranking.page, sort, GroupPageStart(), 2)
    assert count.statements.count("cursor.standings") == 1

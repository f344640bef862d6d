"""Group commit: what waits goes together, and only the one whose data is refused hears of it."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
import trio
import trio.testing

from tarry.service.engine.batching.combiner import Combiner
from tarry.service.errors import Overloaded
from tarry.store.errors import DuplicateKey, Locked, Refused, StoreError, Unavailable


class Database:
    """Takes batches; refuses those with a bad one in them."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self.batches: list[list[int]] = []
        self.open = trio.Event()
        self.open.set()
        self.away = False
        self.refusal: Exception = Refused("negative")

    def combined(self, *, is_open: bool = True, **terms: Any) -> Combiner[int, int]:
        """A combiner that writes to it, on these terms; where it is not open yet, all wait."""
        if not is_open:
            self.open = trio.Event()
        combiner: Combiner[int, int] = Combiner(self.write, **terms)
        self._nursery.start_soon(combiner.run)
        return combiner

    async def write(self, batch: Sequence[int]) -> list[int]:
        await self.open.wait()
        self.batches.append(list(batch))
        if self.away:
            raise Unavailable("away")
        if any(one < 0 for one in batch):
            raise self.refusal
        return [one * 10 for one in batch]


async def ask_all(combiner: Combiner[int, int], requests: Sequence[int]) -> dict[int, int | Exception]:
    answers: dict[int, int | Exception] = {}

    async def ask(request: int) -> None:
        try:
            answers[request] = await combiner.ask(request)
        except (StoreError, Overloaded, UnicodeDecodeError) as error:
            answers[request] = error

    async with trio.open_nursery() as asking:
        for request in requests:
            asking.start_soon(ask, request)
    return answers


@pytest.fixture
def database(nursery: trio.Nursery) -> Database:
    return Database(nursery)


@pytest.fixture
def combiner(database: Database) -> Combiner[int, int]:
    return database.combined()


async def test_what_waits_is_written_together(database: Database, combiner: Combiner[int, int]) -> None:
    answers = await ask_all(combiner, range(50))
    assert answers == {one: one * 10 for one in range(50)}
    assert len(database.batches) <= 2
    assert combiner.idle


async def test_a_batch_is_bounded_by_weight(database: Database) -> None:
    combiner = database.combined(is_open=False, weigh=lambda one: one, batch=10)
    async with trio.open_nursery() as asking:
        for request in (4, 4, 4, 30, 1):
            asking.start_soon(combiner.ask, request)
        await trio.testing.wait_all_tasks_blocked()
        database.open.set()
    assert sorted(map(sum, database.batches)) == sorted(sum(batch) for batch in database.batches)
    assert all(sum(batch) <= 10 or len(batch) == 1 for batch in database.batches)
    assert sorted(one for batch in database.batches for one in batch) == [1, 4, 4, 4, 30]


async def test_tasks_share_what_waits_and_none_is_forgotten(database: Database) -> None:
    combiner = database.combined(writers=lambda: 2)
    for _ in range(3):  # again after a rest
        await trio.testing.wait_all_tasks_blocked()
        database.batches = []
        database.open = trio.Event()
        async with trio.open_nursery() as asking:
            asking.start_soon(ask_all, combiner, range(300))
            await trio.testing.wait_all_tasks_blocked()
            assert combiner._count == 0  # two batches are being written
            database.open.set()
        assert sorted(map(len, database.batches)) == [150, 150]


async def test_there_may_be_one_writer_now_and_two_later(database: Database) -> None:
    writers = 1
    combiner = database.combined(writers=lambda: writers)
    for writers, many in ((1, [1, 299]), (2, [1, 1, 298]), (1, [1, 299])):  # noqa: B007  # the combiner reads it
        database.batches = []
        database.open = trio.Event()
        async with trio.open_nursery() as asking:
            for request in range(300):
                asking.start_soon(combiner.ask, request)
                if request < 2:
                    await trio.testing.wait_all_tasks_blocked()
            await trio.testing.wait_all_tasks_blocked()
            database.open.set()
        assert sorted(map(len, database.batches)) == many


class Busy:
    """Callers who ask again as soon as they have read their answer."""

    def __init__(self, nursery: trio.Nursery, takes: float, reading: float, **terms: Any) -> None:
        self._nursery, self._takes, self._reading = nursery, takes, reading
        self.batches: list[int] = []
        self.combiner: Combiner[int, int] = Combiner(self.write, **terms)
        nursery.start_soon(self.combiner.run)

    async def write(self, batch: Sequence[int]) -> Sequence[int]:
        self.batches.append(len(batch))
        await trio.sleep(self._takes)
        return batch

    def come(self, numbers: Iterable[int]) -> None:
        for one in numbers:
            self._nursery.start_soon(self._ask_on, one)

    async def _ask_on(self, one: int) -> None:
        while True:
            await self.combiner.ask(one)
            await trio.sleep(self._reading)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("callers", "halves", "sizes"),
    [(300, True, {150}), (300, False, {1, 299}), (60, True, {1, 59}), (120, True, {20, 100})],
)
async def test_of_those_who_ask_again_half_are_written_at_a_time(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, callers: int, halves: bool, sizes: set[int]
) -> None:
    """Or else one, and then all the others: the database rests while their answers are read. Few are not parted."""
    busy = Busy(nursery, 0.01, 0.005, lane=lambda one: one, halves=halves)
    busy.come([0])
    await trio.sleep(0.001)
    busy.come(range(1, callers))
    await trio.sleep(0.505)
    assert set(busy.batches[-10:]) == sizes


@pytest.mark.parametrize(("linger", "sizes"), [(False, {5}), (True, {10})])
async def test_requests_linger_for_callers_that_were_answered(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, linger: bool, sizes: set[int]
) -> None:
    """Else they go by turns, a half each, for ever."""
    busy = Busy(nursery, 0.016, 0.001, linger=lambda: linger)
    busy.come(range(5))
    await trio.sleep(0.005)
    busy.come(range(5, 10))
    await trio.sleep(0.505)
    assert set(busy.batches[-10:]) == sizes


async def test_a_lone_caller_does_not_linger(database: Database, autojump_clock: trio.testing.MockClock) -> None:
    combiner = database.combined(linger=lambda: True)
    began = trio.current_time()
    for one in range(5):
        await combiner.ask(one)
    assert trio.current_time() == began


@pytest.mark.parametrize(
    "refusal",
    [
        Refused("negative"),
        DuplicateKey("taken"),
        StoreError("matched 0 rows"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no text"),
    ],
    ids=lambda refusal: type(refusal).__name__,
)
async def test_only_the_one_that_is_wrong_hears_of_it(
    database: Database, combiner: Combiner[int, int], refusal: Exception
) -> None:
    """And its neighbours are written, whatever is wrong with it."""
    database.refusal = refusal
    answers = await ask_all(combiner, [1, 2, 3, -4, 5, 6, 7, 8])
    assert answers.pop(-4) is refusal
    assert answers == {one: one * 10 for one in (1, 2, 3, 5, 6, 7, 8)}


async def test_a_database_that_is_away_is_told_to_all_and_the_next_are_written(
    database: Database, combiner: Combiner[int, int]
) -> None:
    database.away = True
    answers = await ask_all(combiner, [1, 2])
    assert all(isinstance(answer, Unavailable) for answer in answers.values())
    database.away = False
    assert await combiner.ask(3) == 30


async def test_too_much_waiting_is_turned_away_and_nothing_of_it_written(
    database: Database, nursery: trio.Nursery
) -> None:
    combiner: Combiner[int, int] = Combiner(database.write, weigh=lambda one: one, waiting=10)
    async with trio.open_nursery() as asking:
        asking.start_soon(combiner.ask, 8)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(Overloaded):
            await combiner.ask(3)
        nursery.start_soon(combiner.run)
    assert database.batches == [[8]]


async def test_a_caller_that_is_cancelled_stops_nothing(database: Database) -> None:
    combiner = database.combined(is_open=False)
    async with trio.open_nursery() as asking:
        asking.start_soon(combiner.ask, 1)
        await trio.testing.wait_all_tasks_blocked()
        asking.cancel_scope.cancel()
    database.open.set()
    assert await combiner.ask(2) == 20
    assert [one for batch in database.batches for one in batch] == [1, 2]


async def test_a_locked_row_is_told_to_its_lane_alone(database: Database) -> None:
    database.refusal = Locked("4 is held")
    answers = await ask_all(database.combined(lane=lambda one: one), [1, 2, 3, -4, 5])
    assert answers.pop(-4) is database.refusal
    assert answers == {one: one * 10 for one in (1, 2, 3, 5)}

"""Lanes: a row that is locked, or a batch that takes long, is the affair of those who need it and of nobody else."""

import random
from collections import Counter, defaultdict
from collections.abc import Sequence

import pytest
import trio
import trio.testing

from support.simulated import on_simulated_time
from tarry.service.engine.batching import combiner as combiner_module
from tarry.service.engine.batching.combiner import Combiner
from tarry.service.errors import Busy, Overloaded
from tarry.store.errors import Locked, Refused, Unavailable

pytestmark = on_simulated_time

Request = tuple[str, int]
"""The row it needs, and a number; a negative one is refused."""

LOCK_WAIT = 1.0
PROMPT = 0.6
"""Seconds of simulated time within which a neighbour is answered: a slow batch is noticed, another writer begins."""


class Rows:
    """A database whose rows may be locked. A transaction holds the rows it has come to until its end."""

    def __init__(self) -> None:
        self.locked: set[str] = set()
        self.gaps: set[str] = set()
        """Where nothing can be inserted. Nobody can look whether that is so: it is waited for."""
        self.slow: set[str] = set()
        self.held: dict[str, trio.Lock] = defaultdict(trio.Lock)
        self.written: Counter[Request] = Counter()
        self.order: dict[str, list[int]] = defaultdict(list)
        self.waits = 0
        self.at_a_time = self.most = 0
        self.away = False
        self.takes = 0.005
        """Seconds of a batch in which nothing is slow."""

    def combiner(self, batch: int = 1000, waiting: int = 100_000, writers: int = 2) -> Combiner[Request, str]:
        return Combiner(
            self.write,
            write_free=self.write_free,
            lane=lambda request: request[0],
            batch=batch,
            waiting=waiting,
            writers=lambda: writers,
        )

    async def write(self, batch: Sequence[Request]) -> list[str]:
        return [answer or "" for answer in await self._transaction(batch, free=False)]

    async def write_free(self, batch: Sequence[Request]) -> list[str | None]:
        return await self._transaction(batch, free=True)

    async def _transaction(self, batch: Sequence[Request], *, free: bool) -> list[str | None]:
        self.at_a_time += 1
        self.most = max(self.most, self.at_a_time)
        mine: list[trio.Lock] = []
        try:
            left: set[str] = set()
            for row in sorted({row for row, _ in batch}):
                if row in self.gaps:
                    self.waits += 1
                    await trio.sleep(LOCK_WAIT)
                    raise Locked("somebody holds the gap")
                if row in self.locked or (free and self.held[row].locked()):
                    if free:
                        left.add(row)
                        continue
                    self.waits += 1
                    await trio.sleep(LOCK_WAIT)
                    raise Locked("somebody holds it")
                with trio.move_on_after(LOCK_WAIT):
                    await self.held[row].acquire()
                    mine.append(self.held[row])
                    continue
                self.waits += 1
                raise Locked("somebody holds it")
            await trio.sleep(0.7 if self.slow & {row for row, _ in batch} else self.takes)
            if self.away:
                raise Unavailable("away")
            if any(number < 0 for row, number in batch if row not in left):
                raise Refused("negative")
            for row, number in batch:
                if row not in left:
                    self.written[row, number] += 1
                    self.order[row].append(number)
            return [None if row in left else f"{row}{number}" for row, number in batch]
        finally:
            self.at_a_time -= 1
            for lock in mine:
                lock.release()


class Asking:
    """Requests under way; what became of each, and how long it took."""

    def __init__(self, combiner: Combiner[Request, str], nursery: trio.Nursery) -> None:
        self.answers: dict[Request, str | Exception] = {}
        self.took: dict[Request, float] = {}
        self.came: dict[str, list[int]] = defaultdict(list)
        """By row: the order in which they asked."""
        self.combiner = combiner
        self._nursery = nursery

    def ask(self, row: str, number: int) -> None:
        self._nursery.start_soon(self._ask, (row, number))

    async def _ask(self, request: Request) -> None:
        began = trio.current_time()
        self.came[request[0]].append(request[1])
        try:
            answer: str | Exception = await self.combiner.ask(request)
        except (Busy, Refused, Unavailable, Overloaded, Locked) as error:
            answer = error
        assert request not in self.answers, "two answers"
        self.answers[request] = answer
        self.took[request] = trio.current_time() - began


@pytest.fixture
def rows() -> Rows:
    return Rows()


def asking_of(combiner: Combiner[Request, str], nursery: trio.Nursery) -> Asking:
    """Of one that is at work from now on."""
    nursery.start_soon(combiner.run)
    return Asking(combiner, nursery)


@pytest.fixture
def asking(rows: Rows, nursery: trio.Nursery) -> Asking:
    return asking_of(rows.combiner(), nursery)


async def test_neighbours_of_a_locked_row_go_on(rows: Rows, asking: Asking) -> None:
    rows.locked.add("a")
    for number in range(20):
        asking.ask("a", number)
    await trio.sleep(0.01)  # they are in a batch by now, and nobody else is
    for number in range(100):
        began = trio.current_time()
        assert await asking.combiner.ask(("b", number)) == f"b{number}"
        assert trio.current_time() - began < PROMPT
    assert not asking.answers
    await trio.sleep(5)
    assert {type(answer) for answer in asking.answers.values()} == {Busy}
    assert max(asking.took.values()) <= LOCK_WAIT + 3.5
    assert rows.waits <= 2, "a row known to be locked is not waited for again"
    rows.locked.clear()
    assert await asking.combiner.ask(("a", 99)) == "a99"
    assert rows.written == Counter({("a", 99): 1} | {("b", number): 1 for number in range(100)})
    await trio.testing.wait_all_tasks_blocked()
    assert asking.combiner.idle


async def test_who_waits_in_a_locked_lane_is_written_when_it_is_free(rows: Rows, asking: Asking) -> None:
    rows.locked.add("a")
    for number in range(5):
        asking.ask("a", number)
    await trio.sleep(LOCK_WAIT + 0.5)
    assert not asking.answers
    rows.locked.clear()
    await trio.sleep(0.5)
    assert asking.answers == {("a", number): f"a{number}" for number in range(5)}
    assert sorted(rows.order["a"]) == [0, 1, 2, 3, 4]


@pytest.mark.slow
@pytest.mark.parametrize("gaps", [1, 5])
async def test_neighbours_of_a_gap_that_somebody_holds_go_on(rows: Rows, nursery: trio.Nursery, gaps: int) -> None:
    """What is aside looks for locked rows, and cannot see this one: it is met once together, then alone."""
    rows.gaps = {f"m{number}" for number in range(gaps)}
    combiner = rows.combiner()
    asking = Asking(combiner, nursery)

    async def insist(row: str) -> None:
        for number in range(1, 10_000):
            asking.ask(row, number)
            await trio.sleep(0.05)

    for row in sorted(rows.gaps):
        nursery.start_soon(insist, row)
    neighbours = [f"{letter}{number}" for letter in "az" for number in range(20)]
    for row in neighbours:
        asking.ask(row, 0)
    await trio.testing.wait_all_tasks_blocked()
    nursery.start_soon(combiner.run)  # one batch has something of each
    await trio.sleep(2 * LOCK_WAIT + gaps * LOCK_WAIT / 2 + PROMPT)  # on their way, aside, and each alone
    assert {(row, 0) for row in neighbours} <= asking.answers.keys()
    for number in range(1, 200):  # until long after they are aside no more
        for row in neighbours:
            asking.ask(row, number)
        await trio.sleep(0.1)
    late = {request: took for request, took in asking.took.items() if request[0] in neighbours and request[1] > 0}
    assert len(late) == 199 * len(neighbours)
    assert max(late.values()) < PROMPT
    told = [answer for request, answer in asking.answers.items() if request[0] in rows.gaps]
    assert {type(answer) for answer in told} == {Busy}
    assert len(told) > 50 * gaps
    assert rows.most <= 6
    rows.gaps.clear()
    assert await combiner.ask(("m0", 0)) == "m00"


async def test_neighbours_of_a_slow_lane_go_on(rows: Rows, asking: Asking) -> None:
    rows.slow.add("a")
    for number in range(1000):
        asking.ask("a", number)
        if number == 0:
            await trio.sleep(0.001)
    await trio.sleep(0.3)
    for number in range(20):
        began = trio.current_time()
        await asking.combiner.ask(("b", number))
        assert trio.current_time() - began < PROMPT
    assert len(asking.answers) < 1000
    assert rows.most <= 6


@pytest.mark.parametrize(("slow", "callers"), [(1, 1), (1, 5), (3, 5)])
async def test_neighbours_with_many_callers_are_parted_from_a_slow_lane(
    rows: Rows, asking: Asking, nursery: trio.Nursery, slow: int, callers: int
) -> None:
    """They always have something that waits, and would be in each batch with it."""
    rows.takes = 0.02  # they ask again at once, for many seconds: each batch that is not slow costs the test a turn
    rows.slow = {f"a{number}" for number in range(slow)}
    neighbours = [f"b{number}" for number in range(6)]
    late: Counter[tuple[str, int]] = Counter()
    answers: Counter[str] = Counter()

    async def insist(row: str, number: int) -> None:
        while True:
            began = trio.current_time()
            await asking.combiner.ask((row, number))
            late[row, number] += trio.current_time() - began > 0.3
            answers[row] += 1

    for row in [*rows.slow, *neighbours]:
        for number in range(callers if row in rows.slow else 5):
            nursery.start_soon(insist, row, number)
    # Who is in a slow batch with whom is chance (trio shuffles): most are parted by the fourth, a few by the sixth.
    await trio.sleep(7)
    late.clear()
    answers.clear()
    await trio.sleep(5)
    assert not any(late[row, number] for row in neighbours for number in range(5)), "they were parted"
    assert min(answers[row] for row in neighbours) > 0.3 * 5 * 5 / rows.takes, "none of five has most of its turns"
    assert rows.most <= 6
    rows.slow.clear()
    await trio.sleep(2)
    answers.clear()
    await trio.sleep(1)
    assert min(answers.values()) > 0.25 * callers / rows.takes


async def test_suspects_of_which_nothing_is_heard_are_forgotten(
    rows: Rows, asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(combiner_module, "_REMEMBERED", 10)
    rows.slow = {f"a{number}" for number in range(50)}
    combiner = asking.combiner
    for number in range(3):
        async with trio.open_nursery() as round_:
            for row in rows.slow:
                round_.start_soon(combiner.ask, (row, number))
        assert len(combiner._lanes) == 10
    rows.slow.clear()
    for row in [f"a{number}" for number in range(50)]:
        await combiner.ask((row, 3))
    assert combiner._lanes == {}
    assert combiner._remembered == {}


async def test_when_all_is_slow_all_go_on_together(rows: Rows, asking: Asking, nursery: trio.Nursery) -> None:
    """To part lanes costs transactions: it is the database then, and not one of them."""
    rows.slow = {f"a{number}" for number in range(100)}
    answered = 0

    async def insist(row: str) -> None:
        nonlocal answered
        while True:
            await asking.combiner.ask((row, 1))
            answered += 1

    for row in rows.slow:
        nursery.start_soon(insist, row)
    await trio.sleep(20)
    assert answered > len(rows.slow) * 20 / 0.7 / 2.5


async def test_a_deep_lane_does_not_keep_others_from_the_next_batch(rows: Rows, nursery: trio.Nursery) -> None:
    asking = asking_of(rows.combiner(batch=10, writers=1), nursery)
    for number in range(1000):
        asking.ask("a", number)
    await trio.sleep(0.02)
    assert await asking.combiner.ask(("b", 1)) == "b1"
    assert len(asking.answers) < 100
    await trio.sleep(10)
    assert rows.order["a"] == asking.came["a"]


async def test_what_is_aside_takes_a_share_of_the_room_only(rows: Rows, nursery: trio.Nursery) -> None:
    rows.locked.add("a")
    asking = asking_of(rows.combiner(waiting=100), nursery)
    asking.ask("a", 0)
    await trio.sleep(LOCK_WAIT + 0.1)
    for number in range(1, 200):
        asking.ask("a", number)
    await trio.testing.wait_all_tasks_blocked()
    assert asking.combiner._count == 25
    assert await asking.combiner.ask(("b", 1)) == "b1"
    await trio.sleep(5)
    assert {type(answer) for answer in asking.answers.values()} == {Busy}


async def test_at_a_stop_nobody_waits_for_a_locked_row(rows: Rows, asking: Asking) -> None:
    rows.locked.add("a")
    asking.ask("a", 0)
    await trio.sleep(LOCK_WAIT + 0.1)
    assert not asking.answers
    asking.combiner.hurry()
    await trio.sleep(0.5)
    assert isinstance(asking.answers["a", 0], Busy)
    assert asking.combiner.idle


@pytest.mark.parametrize("seed", range(60))
async def test_any_history(seed: int) -> None:
    """Rows are locked and freed, some are slow, some data is refused: each request has one answer, and it is true."""
    dice = random.Random(seed)
    rows = Rows()
    names = [f"row{number}" for number in range(dice.choice([1, 2, 5, 30, 300]))]
    combiner = rows.combiner(batch=dice.choice([1, 10, 1000]), writers=dice.choice([1, 2]))
    never = {name for name in names if dice.random() < 0.5}
    """Rows that are never locked or slow: their neighbours are not to be felt for long."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(combiner.run)
        asking = Asking(combiner, nursery)
        number = 0
        for _ in range(dice.randrange(20, 120)):
            for _ in range(dice.choice([1, 1, 3, 30])):
                number += 1
                asking.ask(dice.choice(names), -number if dice.random() < 0.02 else number)
            others = [name for name in names if name not in never]
            if others and dice.random() < 0.2:
                dice.choice([rows.locked, rows.slow, rows.gaps]).symmetric_difference_update(dice.sample(others, 1))
            await trio.sleep(dice.choice([0, 0.001, 0.02, 0.3]))
        rows.locked.clear()
        rows.slow.clear()
        rows.gaps.clear()
        await trio.sleep(120)
        assert combiner.idle
        assert combiner._count == 0
        nursery.cancel_scope.cancel()
    assert len(asking.answers) == number, "somebody waits for ever"
    for request, answer in asking.answers.items():
        if isinstance(answer, str):
            assert answer == f"{request[0]}{request[1]}"
        assert rows.written[request] == isinstance(answer, str), "the answer is not what happened"
        if isinstance(answer, Refused):
            assert request[1] < 0, "refused for somebody else's data"
    told = {request[0] for request, answer in asking.answers.items() if isinstance(answer, Busy | Locked)}
    assert told.isdisjoint(never), "told of a row that was never locked"
    assert rows.most <= 6 + 1 + 2

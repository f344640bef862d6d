"""Messages wait for their guard: what it says is done, what it cannot say is held, and nothing is done without it."""

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import pytest
import trio
import trio.lowlevel

from support.simulated import on_simulated_time
from tarry.service.clock import Clock
from tarry.service.engine.dispatch.guard_telling import GuardTelling
from tarry.service.engine.dispatch.guarded_promotion import GuardedPromotion
from tarry.service.engine.dispatch.guardroom import BATCH, YOUNG, GuardRoom
from tarry.service.guards.question import Answers, NoAnswer
from tarry.store.errors import Unavailable
from tarry.store.timers.guarded import Guarded

pytestmark = on_simulated_time


class Telling:
    """Takes note of what is said of the guard."""

    def __init__(self, world: "World") -> None:
        self.world = world

    def holds(self, name: str, why: str, waiting: int) -> None:
        self.world.told.append(why)

    def answers(self, name: str, waiting: int) -> None:
        self.world.well += 1


class Time:
    """The world's."""

    def __init__(self, world: "World") -> None:
        self.world = world

    def now(self) -> int:
        return self.world.now

    @property
    def in_doubt(self) -> bool:
        return self.world.doubted


class World:
    """A guard, and a store of messages by id; the key of each is its number."""

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        """Due times by id."""
        self.now = 100
        self.paid: set[int] = set()
        self.poison: set[int] = set()
        """Of these nothing can be said, and a question with one of them fails."""
        self.unclear: set[int] = set()
        self.away: str | None = None
        self.takes = 0.01
        self.locked: set[int] = set()
        self.store_away = False
        self.doubted = False
        self.slow_store = 0.0
        self.asked: list[list[int]] = []
        self.sent: list[int] = []
        self.ended: list[int] = []
        self.told: list[str] = []
        self.well = 0
        self.room = GuardRoom(
            "unpaid", self, cast(GuardedPromotion, self), cast(GuardTelling, Telling(self)), cast(Clock, Time(self))
        )

    def put(self, *ids: int, due: int = 0) -> None:
        for id_ in ids:
            self.rows[id_] = due
            self.room.put(id_)

    async def read(self, ids: Sequence[int]) -> list[Guarded]:
        await trio.lowlevel.checkpoint()
        if self.store_away:
            raise Unavailable("away")
        return [Guarded(id_, self.rows[id_], "unpaid", str(id_)) for id_ in ids if id_ in self.rows]

    async def ask(self, keys: Sequence[str]) -> Answers:
        ids = [int(key) for key in keys]
        self.asked.append(ids)
        await trio.sleep(self.takes)
        if self.away is not None:
            raise NoAnswer(self.away, of_all=True)
        if self.poison & set(ids):
            raise NoAnswer("poison", of_all=False)
        said = {str(id_): id_ not in self.paid for id_ in ids if id_ not in self.unclear}
        return Answers(said, {str(id_): "two rows" for id_ in ids if id_ in self.unclear})

    async def promote(self, answers: Mapping[int, bool], fresh: Callable[[], bool]) -> set[int]:
        await trio.sleep(self.slow_store)
        if self.store_away:
            raise Unavailable("away")
        left = set(answers) if not fresh() else self.locked & set(answers)
        for id_ in answers.keys() - left:
            if self.rows.pop(id_, None) is not None:
                (self.sent if answers[id_] else self.ended).append(id_)
        return left


@pytest.fixture
def world(nursery: trio.Nursery) -> World:
    world = World()
    nursery.start_soon(world.room.run)
    return world


async def test_what_it_says_is_done(world: World) -> None:
    world.paid = {2}
    world.put(1, 2, 3)
    assert len(world.room) == 3
    await trio.sleep(1)
    assert (world.sent, world.ended, len(world.room)) == ([1, 3], [2], 0)
    assert world.asked == [[1, 2, 3]], "together"
    assert world.told == []


async def test_batches_are_bounded(world: World) -> None:
    world.put(*range(2 * BATCH + 1))
    await trio.sleep(1)
    assert [len(asked) for asked in world.asked] == [BATCH, BATCH, 1]


async def test_away_is_held_and_goes_on(world: World) -> None:
    world.away = "no server"
    world.put(1, 2)
    await trio.sleep(100)
    assert (world.sent, len(world.room), world.room.holds) == ([], 2, "no server")
    assert (world.room.why_held(1), world.room.why_held(3)) == ("no server", None)
    assert set(world.told) == {"no server"}
    assert 10 <= len(world.asked) <= 20, "with pauses that grow, 10 s at the longest"
    world.away = None
    await trio.sleep(11)
    assert (sorted(world.sent), world.room.holds, world.well) == ([1, 2], None, 1)


async def test_one_that_nothing_can_be_said_of_holds_up_no_other(world: World) -> None:
    world.poison = {7}
    world.put(*range(20))
    await trio.sleep(5)
    assert sorted(world.sent) == [id_ for id_ in range(20) if id_ != 7]
    assert (7 in world.room, world.room.holds) == (True, "message 7: poison")
    asked = len(world.asked)
    world.put(*range(100, 120))
    await trio.sleep(1)
    assert len(world.sent) == 39
    assert all(some == [7] or 7 not in some for some in world.asked[asked:]), "it is asked for alone by now"
    assert world.well == 0
    world.poison = set()
    await trio.sleep(11)
    assert (7 in world.sent, world.well) == (True, 1), "it is told when nothing is held any more"


async def test_where_it_answers_nobody_it_is_left_alone(world: World) -> None:
    world.poison = set(range(1000))
    world.put(*range(1000))
    await trio.sleep(60)
    assert world.sent == []
    assert len(world.room) == 1000
    assert len(world.asked) < 60
    world.poison = set()
    await trio.sleep(20)
    assert len(world.sent) == 1000, "soon after it is mended"


async def test_two_rows_are_held(world: World) -> None:
    world.unclear = {2}
    world.put(1, 2)
    await trio.sleep(30)
    assert world.sent == [1]
    assert (2 in world.room, world.room.holds) == (True, "message 2: two rows")
    assert (world.room.why_held(1), world.room.why_held(2)) == (None, "two rows")
    assert set(world.told) == {"message 2: two rows"}
    world.unclear = set()
    await trio.sleep(11)
    assert (world.sent, world.room.holds) == ([1, 2], None)


async def test_an_answer_that_is_old_is_asked_for_anew(world: World) -> None:
    world.slow_store = YOUNG + 1
    world.put(1)
    await trio.sleep(20)
    assert world.sent == []
    assert len(world.asked) > 1
    world.paid, world.slow_store = {1}, 0.0
    await trio.sleep(10)
    assert (world.sent, world.ended) == ([], [1])


async def test_what_somebody_holds_keeps_no_other_waiting(world: World) -> None:
    world.locked = {1}
    world.put(1, 2)
    await trio.sleep(1)
    assert world.sent == [2]
    world.locked = set()
    await trio.sleep(1)
    assert world.sent == [2, 1]


async def test_gone_and_moved(world: World) -> None:
    world.away = "no server"
    world.put(1, 2, 3)
    await trio.sleep(1)
    del world.rows[1]
    world.rows[2] = world.now + 1
    world.away = None
    await trio.sleep(11)
    assert (world.sent, len(world.room)) == ([3], 0)
    world.now += 1
    world.put(2, due=world.now)
    await trio.sleep(1)
    assert world.sent == [3, 2]


async def test_what_comes_once_more_meanwhile_is_asked_for_again(world: World) -> None:
    """It was moved while it was under way, and has come back."""
    world.takes = 1
    world.put(1, due=world.now + 1)
    await trio.sleep(0.1)
    assert len(world.room) == 0
    world.rows[1] = 0
    world.room.put(1)
    await trio.sleep(0.5)
    world.room.put(1)
    await trio.sleep(3)
    assert world.sent == [1]
    assert len(world.room) == 0


@pytest.mark.parametrize("trouble", ["store_away", "doubted"])
async def test_nothing_is_done_while_the_store_is_away_or_the_time_in_doubt(world: World, trouble: str) -> None:
    setattr(world, trouble, True)
    world.put(1)
    await trio.sleep(5)
    assert (world.sent, world.asked, len(world.room)) == ([], [], 1)
    setattr(world, trouble, False)
    await trio.sleep(1)
    assert world.sent == [1]

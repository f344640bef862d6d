"""So many begin in a round of the event loop, the first and the last alternately, and nobody is left in line."""

from collections.abc import Iterable

import pytest
import trio

from tarry.service.http.server.pace import ROUND, Line, Pace


class Rounds(trio.abc.Instrument):
    """Counts them."""

    now = 0

    def after_io_wait(self, timeout: float) -> None:
        del timeout
        self.now += 1


@pytest.fixture
async def pace(nursery: trio.Nursery) -> Pace:
    pace = Pace()
    nursery.start_soon(pace.run)
    await trio.testing.wait_all_tasks_blocked()
    return pace


class Crowd:
    """Who has begun, in order, and in which round."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.rounds = Rounds()
        self.begun: list[tuple[int, int]] = []

    async def begin(self, number: int, where: Line = Line.KNOWN) -> None:
        await self.pace.turn(where)
        self.begun.append((number, self.rounds.now))

    def come(self, nursery: trio.Nursery, numbers: Iterable[int], where: Line = Line.KNOWN) -> None:
        for number in numbers:
            nursery.start_soon(self.begin, number, where)


@pytest.fixture
def crowd(pace: Pace) -> Crowd:
    return Crowd(pace)


async def test_who_comes_alone_begins_at_once(pace: Pace) -> None:
    rounds = Rounds()
    trio.lowlevel.add_instrument(rounds)
    for _ in range(3 * ROUND):
        before = rounds.now
        await pace.turn()
        assert rounds.now == before
        await trio.lowlevel.checkpoint()
    trio.lowlevel.remove_instrument(rounds)


@pytest.mark.parametrize("many", [ROUND, ROUND + 1, 10 * ROUND + 5])
async def test_so_many_begin_in_a_round(crowd: Crowd, many: int) -> None:
    trio.lowlevel.add_instrument(crowd.rounds)
    came: list[int] = []

    async def come(number: int) -> None:
        came.append(number)
        await crowd.begin(number)

    async with trio.open_nursery() as nursery:
        for number in range(many):
            nursery.start_soon(come, number)
    trio.lowlevel.remove_instrument(crowd.rounds)
    in_round = [{number for number, at in crowd.begun if at == round_} for round_ in range(crowd.rounds.now + 1)]
    # Within a round the event loop has an order of its own.
    line = came[ROUND:]
    wanted = [set(came[:ROUND])]
    while line:
        some = [line.pop(-1 if len(line) > 8 * ROUND and nth % 2 else 0) for nth in range(min(ROUND, len(line)))]
        wanted.append(set(some))
    assert [one for one in in_round if one] == wanted


@pytest.mark.slow
async def test_who_comes_after_a_crowd_does_not_wait_for_all_of_it(crowd: Crowd) -> None:
    async with trio.open_nursery() as nursery:
        crowd.come(nursery, range(40 * ROUND))
        for _ in range(2):
            await trio.lowlevel.checkpoint()
        await crowd.begin(-1)
        assert len(crowd.begun) < 5 * ROUND


async def test_nor_do_the_first_wait_for_all_who_come_after_them(crowd: Crowd) -> None:
    async with trio.open_nursery() as nursery:
        crowd.come(nursery, range(10 * ROUND))
        while {number for number, _ in crowd.begun} < set(range(10 * ROUND)):
            crowd.come(nursery, [1000 + len(crowd.begun)] * ROUND)
            await trio.lowlevel.checkpoint()
            assert len(crowd.begun) < 40 * ROUND


async def test_who_gives_up_takes_nobodys_place(crowd: Crowd) -> None:
    async with trio.open_nursery() as staying:
        with trio.CancelScope() as leaving:
            async with trio.open_nursery() as nursery:
                for number in range(3 * ROUND):
                    crowd.come(nursery if number % 2 else staying, [number])
                leaving.cancel()
    assert {number for number, _ in crowd.begun} >= set(range(0, 3 * ROUND, 2))


@pytest.mark.parametrize("where", [Line.NEW, Line.BEHIND])
async def test_who_is_known_does_not_wait_for_a_crowd_of_others(crowd: Crowd, where: Line) -> None:
    async with trio.open_nursery() as nursery:
        crowd.come(nursery, range(40 * ROUND), where)
        await trio.lowlevel.checkpoint()
        for _ in range(5):
            before = len(crowd.begun)
            await crowd.begin(-1)
            assert len(crowd.begun) <= before + 3 * ROUND
        nursery.cancel_scope.cancel()


async def test_who_has_just_come_does_not_wait_for_those_who_go_on_and_on(crowd: Crowd) -> None:
    async with trio.open_nursery() as nursery:
        crowd.come(nursery, range(40 * ROUND), Line.BEHIND)
        await trio.lowlevel.checkpoint()
        await crowd.begin(-1, Line.NEW)
        assert len(crowd.begun) <= 3 * ROUND
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("where", [Line.NEW, Line.BEHIND])
async def test_nobody_waits_for_ever_for_those_who_come_first(crowd: Crowd, where: Line) -> None:
    """More than a round takes come in each, known or new, and those behind have their part all the same."""

    async def come(line: Line) -> None:
        while True:
            await crowd.pace.turn(line)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        for _ in range(3 * ROUND):
            nursery.start_soon(come, Line.KNOWN)
            nursery.start_soon(come, Line.NEW)
        crowd.come(nursery, range(2 * ROUND), where)
        for _ in range(40):
            await trio.lowlevel.checkpoint()
        assert len(crowd.begun) == 2 * ROUND
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("where", [Line.KNOWN, Line.NEW])
async def test_the_first_of_a_crowd_have_their_turns_while_others_have_theirs(crowd: Crowd, where: Line) -> None:
    """The last of a line do not come before its first for ever, however the turns of the lines fall."""
    over = 0

    async def come(line: Line) -> None:
        nonlocal over
        while True:
            await crowd.pace.turn(line)
            over += 1

    async with trio.open_nursery() as nursery:
        crowd.come(nursery, range(20 * ROUND), where)
        await trio.lowlevel.checkpoint()
        for _ in range(20 * ROUND):
            nursery.start_soon(come, where)
        for line in set(Line) - {where}:
            for _ in range(ROUND):
                nursery.start_soon(come, line)
        while len(crowd.begun) < 20 * ROUND:
            await trio.lowlevel.checkpoint()
            assert over < 400 * ROUND
        nursery.cancel_scope.cancel()

"""So many begin in a round of the event loop, the first and the last alternately, and nobody is left in line."""

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


async def begin(
    pace: Pace, number: int, rounds: Rounds, begun: list[tuple[int, int]], where: Line = Line.KNOWN
) -> None:
    await pace.turn(where)
    begun.append((number, rounds.now))


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
async def test_so_many_begin_in_a_round(pace: Pace, many: int) -> None:
    rounds = Rounds()
    trio.lowlevel.add_instrument(rounds)
    begun: list[tuple[int, int]] = []
    came: list[int] = []

    async def come(number: int) -> None:
        came.append(number)
        await begin(pace, number, rounds, begun)

    async with trio.open_nursery() as nursery:
        for number in range(many):
            nursery.start_soon(come, number)
    trio.lowlevel.remove_instrument(rounds)
    in_round = [{number for number, at in begun if at == round_} for round_ in range(rounds.now + 1)]
    # Within a round the event loop has an order of its own.
    line = came[ROUND:]
    wanted = [set(came[:ROUND])]
    while line:
        some = [line.pop(-1 if len(line) > 8 * ROUND and nth % 2 else 0) for nth in range(min(ROUND, len(line)))]
        wanted.append(set(some))
    assert [one for one in in_round if one] == wanted


@pytest.mark.slow
async def test_who_comes_after_a_crowd_does_not_wait_for_all_of_it(pace: Pace) -> None:
    rounds, begun = Rounds(), list[tuple[int, int]]()
    async with trio.open_nursery() as nursery:
        for number in range(40 * ROUND):
            nursery.start_soon(begin, pace, number, rounds, begun)
        for _ in range(2):
            await trio.lowlevel.checkpoint()
        await begin(pace, -1, rounds, begun)
        assert len(begun) < 5 * ROUND


async def test_nor_do_the_first_wait_for_all_who_come_after_them(pace: Pace) -> None:
    rounds, begun = Rounds(), list[tuple[int, int]]()
    async with trio.open_nursery() as nursery:
        for number in range(10 * ROUND):
            nursery.start_soon(begin, pace, number, rounds, begun)
        while {number for number, _ in begun} < set(range(10 * ROUND)):
            assert rounds.now == 0  # no instrument: only those are counted who begin
            for _ in range(ROUND):
                nursery.start_soon(begin, pace, 1000 + len(begun), rounds, begun)
            await trio.lowlevel.checkpoint()
            assert len(begun) < 40 * ROUND


async def test_who_gives_up_takes_nobodys_place(pace: Pace) -> None:
    rounds, begun = Rounds(), list[tuple[int, int]]()
    async with trio.open_nursery() as staying:
        with trio.CancelScope() as leaving:
            async with trio.open_nursery() as nursery:
                for number in range(3 * ROUND):
                    (nursery if number % 2 else staying).start_soon(begin, pace, number, rounds, begun)
                leaving.cancel()
    assert {number for number, _ in begun} >= set(range(0, 3 * ROUND, 2))


@pytest.mark.parametrize("where", [Line.NEW, Line.BEHIND])
async def test_who_is_known_does_not_wait_for_a_crowd_of_others(pace: Pace, where: Line) -> None:
    rounds, begun = Rounds(), list[tuple[int, int]]()
    async with trio.open_nursery() as nursery:
        for number in range(40 * ROUND):
            nursery.start_soon(begin, pace, number, rounds, begun, where)
        await trio.lowlevel.checkpoint()
        for _ in range(5):
            before = len(begun)
            await begin(pace, -1, rounds, begun)
            assert len(begun) <= before + 3 * ROUND
        nursery.cancel_scope.cancel()


async def test_who_has_just_come_does_not_wait_for_those_who_go_on_and_on(pace: Pace) -> None:
    rounds, begun = Rounds(), list[tuple[int, int]]()
    async with trio.open_nursery() as nursery:
        for number in range(40 * ROUND):
            nursery.start_soon(begin, pace, number, rounds, begun, Line.BEHIND)
        await trio.lowlevel.checkpoint()
        await begin(pace, -1, rounds, begun, Line.NEW)
        assert len(begun) <= 3 * ROUND
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("where", [Line.NEW, Line.BEHIND])
async def test_nobody_waits_for_ever_for_those_who_come_first(pace: Pace, where: Line) -> None:
    """More than a round takes come in each, known or new, and those behind have their part all the same."""
    rounds, begun = Rounds(), list[tuple[int, int]]()

    async def come(line: Line) -> None:
        while True:
            await pace.turn(line)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        for _ in range(3 * ROUND):
            nursery.start_soon(come, Line.KNOWN)
            nursery.start_soon(come, Line.NEW)
        for number in range(2 * ROUND):
            nursery.start_soon(begin, pace, number, rounds, begun, where)
        for _ in range(40):
            await trio.lowlevel.checkpoint()
        assert len(begun) == 2 * ROUND
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("where", [Line.KNOWN, Line.NEW])
async def test_the_first_of_a_crowd_have_their_turns_while_others_have_theirs(pace: Pace, where: Line) -> None:
    """The last of a line do not come before its first for ever, however the turns of the lines fall."""
    rounds, begun, over = Rounds(), list[tuple[int, int]](), 0

    async def come(line: Line) -> None:
        nonlocal over
        while True:
            await pace.turn(line)
            over += 1

    async with trio.open_nursery() as nursery:
        for number in range(20 * ROUND):
            nursery.start_soon(begin, pace, number, rounds, begun, where)
        await trio.lowlevel.checkpoint()
        for _ in range(20 * ROUND):
            nursery.start_soon(come, where)
        for line in set(Line) - {where}:
            for _ in range(ROUND):
                nursery.start_soon(come, line)
        while len(begun) < 20 * ROUND:
            await trio.lowlevel.checkpoint()
            assert over < 400 * ROUND
        nursery.cancel_scope.cancel()

"""Whoever should know hears of a clock that jumps or was set, once."""

import pytest
import trio
import trio.testing

from support.ringing import Rung
from tarry.service.clock import AGREEING, Clock
from tarry.service.upkeep.clock_watch import ClockWatch
from tarry.store.errors import Unavailable


class Clocks:
    """A database's clock and a host's, moved by hand."""

    def __init__(self) -> None:
        self.ns = 7_000_000_000
        self.database = 1_795_000_000_000
        self.skew = 0
        self.away = False
        self.alarm = Rung()
        self.server = "one"
        self.clock = Clock(self.sample, monotonic=lambda: self.ns, server=lambda: self.server)
        self.watch = ClockWatch(self.clock, self.alarm, lambda: self.skew)

    async def sample(self) -> int:
        if self.away:
            raise Unavailable("away")
        return self.database

    async def take(self, times: int = 1) -> None:
        for _ in range(times):
            self.ns += 2_000_000_000
            self.database += 2_000
            await self.watch.take()


@pytest.fixture
async def clocks() -> Clocks:
    clocks = Clocks()
    await clocks.clock.take()
    return clocks


async def test_nothing_is_asked_for_while_the_time_is_offered(clocks: Clocks) -> None:
    clocks.clock.offer(clocks.database, "one", 0)
    clocks.away, clocks.skew = True, 9_000
    await clocks.take()
    assert clocks.alarm.told("by_ms") == [("host_clock_set", 9_000)], "the rest of the round is as ever"
    with pytest.raises(Unavailable):
        await clocks.take()


@pytest.mark.parametrize("step", [60_000, -10_000, -3_600_000])
async def test_a_jump_of_the_database_is_told_and_that_it_is_followed(clocks: Clocks, step: int) -> None:
    await clocks.take(3)
    clocks.database += step
    await clocks.take()
    assert clocks.alarm.told("by_ms") == [("clock_jumped", step)]
    await clocks.take(AGREEING - 1)
    assert clocks.alarm.told("by_ms") == [("clock_jumped", step), ("clock_followed", step)]
    await clocks.take(5)
    assert len(clocks.alarm.events) == 2


async def test_a_jump_that_is_taken_back_is_told_too(clocks: Clocks) -> None:
    clocks.database += 60_000
    await clocks.take()
    clocks.database -= 60_000
    await clocks.take(3)
    assert clocks.alarm.told("by_ms") == [("clock_jumped", 60_000), ("clock_as_before", 0)]


async def test_a_host_that_was_set_is_told_once(clocks: Clocks) -> None:
    assert clocks.watch.wrong is None
    clocks.skew = 60_000
    await clocks.take(3)
    clocks.skew = 60_900  # it drifts
    await clocks.take(3)
    assert clocks.alarm.told("by_ms") == [("host_clock_set", 60_000)]
    wrong = clocks.watch.wrong
    assert wrong is not None
    assert "ahead by 60.9 s" in wrong
    clocks.skew = -5_000
    await clocks.take(2)
    assert clocks.alarm.told("by_ms")[1:] == [("host_clock_set", -5_000)]
    clocks.skew = 900
    await clocks.take(2)
    assert clocks.watch.wrong is None
    assert len(clocks.alarm.events) == 2


async def test_it_is_told_also_while_the_store_is_away(clocks: Clocks) -> None:
    clocks.away, clocks.skew = True, 9_000
    with pytest.raises(Unavailable):
        await clocks.take()
    assert clocks.alarm.told("by_ms") == [("host_clock_set", 9_000)]


@pytest.mark.parametrize(("step", "seconds"), [(-1_000, 0), (-60_000, 0.4)])
async def test_the_clock_of_another_server_is_followed_before_it_is_written_to(
    clocks: Clocks, autojump_clock: trio.testing.MockClock, step: int, seconds: float
) -> None:
    clocks.server, clocks.database, began = "two", clocks.database + step, trio.current_time()
    await clocks.watch.follow_another()
    assert not clocks.clock.in_doubt
    assert clocks.clock.now() == clocks.database
    assert trio.current_time() - began == pytest.approx(seconds)

"""Burst pacing: a batch is through before another topic's message is due, and rests while that is on its way."""

import math
from bisect import bisect_right
from typing import cast

import trio
import trio.testing

from support.simulated import on_simulated_time
from tarry.service.engine.dispatch.pacing import BurstPacing
from tarry.service.engine.state.pending import Pending

pytestmark = on_simulated_time

BATCH = 500
PER_S = 10_000


class Bench:
    """A crowd of which so many are through in a second, and messages of a neighbour's at known times."""

    def __init__(self, *dues: float) -> None:
        self.dues = sorted(dues)
        self.pacing = BurstPacing(cast(Pending, self))
        self.began = trio.current_time()
        self.batches: list[tuple[float, float, int]] = []
        """When they began and were through, and how many went."""

    @property
    def now(self) -> float:
        return trio.current_time() - self.began

    def until_other_topic(self) -> float:
        now = self.now
        at = bisect_right(self.dues, now)
        return self.dues[at] - now if at < len(self.dues) else math.inf

    async def go(self, until: float) -> None:
        while self.now < until:
            many = await self.pacing.turn(BATCH)
            began = self.now
            await trio.sleep(many / PER_S)
            self.pacing.went(many, self.now - began)
            self.batches.append((began, self.now, many))

    def met(self, time: float) -> bool:
        """Whether a batch was on its way at that time."""
        return any(began < time < over for began, over, _ in self.batches)


async def test_a_batch_is_whole_where_nothing_falls_due() -> None:
    bench = Bench()
    await bench.go(0.5)
    assert {many for *_, many in bench.batches} == {BATCH}


async def test_what_falls_due_meets_no_batch() -> None:
    dues = [0.2 + 0.11 * one for one in range(30)]
    bench = Bench(*dues)
    await bench.go(4)
    assert not any(bench.met(due) for due in dues)
    assert not any(bench.met(due + 0.004) for due in dues), "until it is on its way"
    assert sum(many for *_, many in bench.batches) > 0.8 * 4 * PER_S


async def test_the_crowd_rests_while_a_neighbour_is_promoted_and_claims(nursery: trio.Nursery) -> None:
    bench = Bench()
    await bench.go(0.06)
    with bench.pacing.other_topic():
        with trio.move_on_after(0.005) as asked:
            await bench.pacing.turn(BATCH)
        assert asked.cancelled_caught
    over = bench.now
    assert await bench.pacing.turn(BATCH) == BATCH
    assert 0.0025 <= bench.now - over <= 0.004


async def test_one_that_was_due_while_a_batch_took_long_has_its_turn_next() -> None:
    bench = Bench(0.3)
    assert await bench.pacing.turn(BATCH) == BATCH  # how long it takes is not known yet
    await trio.sleep(0.301)
    bench.pacing.went(BATCH, 0.301)
    await bench.pacing.turn(BATCH)
    assert 0.3045 <= bench.now <= 0.306


async def test_where_neighbours_leave_no_gaps_it_goes_on_for_three_quarters_of_the_time() -> None:
    bench = Bench(*(0.001 * one for one in range(1, 5_000)))
    await bench.go(4)
    busy = sum(over - began for began, over, _ in bench.batches)
    assert 0.7 * bench.now <= busy <= 0.8 * bench.now
    longest = max(later[0] - earlier[1] for earlier, later in zip(bench.batches, bench.batches[1:], strict=False))
    assert longest <= 0.022


async def test_few_that_are_left_go_at_once() -> None:
    bench = Bench(1.0)
    bench.pacing.went(BATCH, BATCH / PER_S)
    assert await bench.pacing.turn(3) == 3
    assert bench.now == 0


async def test_a_rest_that_nobody_ended_costs_the_next_no_more_than_it_had() -> None:
    gaps = Bench().pacing
    for _ in range(2):
        gaps.went(BATCH, BATCH / PER_S)
        with gaps.other_topic():
            assert gaps.room(BATCH) == 0
            assert gaps.rests
        await trio.sleep(10)
        assert gaps.room(BATCH) == BATCH
        assert not gaps.rests

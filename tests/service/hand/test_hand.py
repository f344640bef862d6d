"""The hand fires at the due millisecond, wakes for an earlier one, and gives up on nothing."""

from collections.abc import Sequence

import trio
import trio.testing

from tarry.service.clock import Clock
from tarry.service.hand.hand import BATCH, Hand
from tarry.store.errors import Unavailable
from tarry.store.records import Promoted
from tarry.wheel.horizon import Horizon
from tarry.wheel.timing_wheel import TimingWheel

EPOCH = 1_795_000_000_000


class Bench:
    """A hand on simulated time; what it promotes is noted with the time."""

    def __init__(self) -> None:
        self.fired: list[tuple[int, int]] = []
        self.batches: list[int] = []
        self.streamed: list[Promoted] = []
        self.away_until = 0
        self.takes = 0.0
        """Seconds of a promotion."""
        self.offset = 0
        self.clock = Clock(self.sample, monotonic=lambda: round(trio.current_time() * 1e9))
        horizon = Horizon(EPOCH)
        horizon.page(EPOCH)
        self.hand = Hand(TimingWheel(EPOCH), horizon, self.clock, self.promote, self.streamed.extend)

    async def sample(self) -> int:
        return EPOCH + round(trio.current_time() * 1000) + self.offset

    async def promote(self, entries: Sequence[int], now: int) -> list[Promoted]:
        if now < self.away_until:
            raise Unavailable("away")
        self.batches.append(len(entries))
        await trio.sleep(self.takes)
        self.fired += [(entry, now - EPOCH) for entry in entries]
        return [Promoted(entry, 1, now) for entry in entries]


async def start(nursery: trio.Nursery) -> Bench:
    bench = Bench()
    bench.offset = -round(trio.current_time() * 1000)
    await bench.clock.take()
    nursery.start_soon(bench.hand.run)
    await trio.testing.wait_all_tasks_blocked()
    return bench


async def test_fires_at_the_due_millisecond(autojump_clock: trio.testing.MockClock, nursery: trio.Nursery) -> None:
    bench = await start(nursery)
    for due in (5, 17, 17, 1_000, 3_600_000, 3_600_001):
        bench.hand.add(EPOCH + due, due)
    await trio.sleep(3_700)
    assert bench.fired == [(due, due) for due in (5, 17, 17, 1_000, 3_600_000, 3_600_001)]
    assert [one.entry for one in bench.streamed] == [5, 17, 17, 1_000, 3_600_000, 3_600_001]


async def test_wakes_for_an_earlier_one(autojump_clock: trio.testing.MockClock, nursery: trio.Nursery) -> None:
    bench = await start(nursery)
    bench.hand.add(EPOCH + 900, 900)
    await trio.testing.wait_all_tasks_blocked()
    bench.hand.add(EPOCH + 300, 300)
    await trio.sleep(2)
    assert bench.fired == [(300, 300), (900, 900)]


async def test_a_cancelled_entry_does_not_fire(autojump_clock: trio.testing.MockClock, nursery: trio.Nursery) -> None:
    bench = await start(nursery)
    bench.hand.add(EPOCH + 500, 1)
    bench.hand.add(EPOCH + 500, 2)
    bench.hand.cancel(EPOCH + 500, 1)
    await trio.sleep(1)
    assert bench.fired == [(2, 500)]


async def test_past_the_horizon_is_left_to_its_page(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    bench = await start(nursery)
    bench.hand.add(bench.hand.horizon.loaded_until, 1)
    bench.hand.add(bench.hand.horizon.loaded_until - 1, 2)
    assert len(bench.hand.wheel) == 1


async def test_a_store_that_is_away_is_asked_until_it_is_back(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    bench = await start(nursery)
    bench.away_until = EPOCH + 10_000
    bench.hand.add(EPOCH + 100, 1)
    bench.hand.add(EPOCH + 9_000, 2)
    await trio.sleep(15)
    assert [entry for entry, _ in bench.fired] == [1, 2]
    assert all(10_000 <= at < 12_500 for _, at in bench.fired)


async def test_batches_are_bounded_and_come_oldest_first(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    bench = await start(nursery)
    dues = [EPOCH - 5_000 + one for one in range(3 * BATCH)]
    bench.hand.add_many(dues, list(range(3 * BATCH)))
    await trio.sleep(2)
    assert bench.batches == [BATCH] * 3
    assert [entry for entry, _ in bench.fired] == list(range(3 * BATCH))


async def test_a_clock_in_doubt_fires_nothing(autojump_clock: trio.testing.MockClock, nursery: trio.Nursery) -> None:
    bench = await start(nursery)
    bench.hand.add(EPOCH + 1_000, 1)
    bench.offset += 3_600_000
    await bench.clock.take()
    await trio.sleep(3)
    assert bench.fired == []
    bench.offset -= 3_600_000
    await bench.clock.take()
    await trio.sleep(1.5)
    assert [entry for entry, _ in bench.fired] == [1]


async def test_a_suspended_host_skips_nothing(autojump_clock: trio.testing.MockClock, nursery: trio.Nursery) -> None:
    bench = await start(nursery)
    bench.hand.add_many([EPOCH + 1_000 * one for one in range(1, 10_000)], list(range(1, 10_000)))
    await trio.sleep(0.5)
    # trio's clock stands still in a suspend, boot time and the database's go on
    asleep = 9_000_000
    before = bench.clock._monotonic
    bench.clock._monotonic = lambda: before() + asleep * 1_000_000
    bench.offset += asleep
    await trio.sleep(1_200)
    assert [entry for entry, _ in bench.fired] == list(range(1, 10_000))
    assert all(at >= 1_000 * entry for entry, at in bench.fired)


async def test_only_missing_rows_are_added_by_a_sweep(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    bench = await start(nursery)
    bench.hand.add(EPOCH + 400, 1)
    assert bench.hand.add_missing([(EPOCH + 400, 1), (EPOCH + 500, 2), (EPOCH - 9, 3)]) == 2
    await trio.sleep(1)
    assert [entry for entry, _ in bench.fired] == [3, 1, 2]


async def test_a_row_on_its_way_is_not_missing(autojump_clock: trio.testing.MockClock, nursery: trio.Nursery) -> None:
    bench = await start(nursery)
    bench.takes = 0.5
    bench.hand.add(EPOCH + 100, 1)
    await trio.sleep(0.3)
    assert bench.hand.add_missing([(EPOCH + 100, 1)]) == 0
    await trio.sleep(1)
    assert bench.hand.add_missing([(EPOCH + 100, 1)]) == 1


async def test_what_is_heard_of_is_taken_whoever_has_its_shard(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """Or else it would be in no wheel, if its owner has read that page already."""
    bench = await start(nursery)
    bench.hand.shares.held = frozenset({1})
    for entry in (1, 2, ~1, ~2):
        bench.hand.add(EPOCH + 600_000, entry)
    assert len(bench.hand.wheel) == 4
    bench.hand.cancel(EPOCH + 600_000, 2)
    bench.hand.cancel(EPOCH + 600_000, ~1)
    await trio.sleep(601)
    assert sorted(entry for entry, _ in bench.fired) == [~2, 1]


async def test_it_stops_when_what_is_under_way_is_over(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    bench = await start(nursery)
    bench.takes = 0.5
    bench.hand.add(EPOCH + 100, 1)
    bench.hand.add(EPOCH + 400, 2)
    await trio.sleep(0.3)
    await bench.hand.stop()
    assert [entry for entry, _ in bench.fired] == [1]
    await trio.sleep(5)
    assert [entry for entry, _ in bench.fired] == [1]

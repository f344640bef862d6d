"""The hand fires at the due millisecond, wakes for an earlier one, and gives up on nothing."""

from collections.abc import Sequence, Set

import pytest
import trio
import trio.testing

from support.engine import dispatcher_over, pending_from, promotion_over
from support.simulated import on_simulated_time
from tarry.service.clock import Clock
from tarry.service.engine.cluster.ownership import whole
from tarry.service.engine.dispatch.burst import BATCH
from tarry.store.errors import Unavailable
from tarry.store.ids import due_of, first_id
from tarry.store.records import Promoted
from tarry.store.schedules.course import Fired
from tarry.store.timers.timers import Brought
from tarry.wheel.columns import Columns

pytestmark = on_simulated_time

EPOCH = 1_795_000_000_000


class Bench:
    """A hand on simulated time; what it promotes is noted with the time."""

    def __init__(self) -> None:
        self.fired: list[tuple[int, int]] = []
        self.streamed_at: dict[int, int] = {}
        self.batches: list[int] = []
        self.went: list[Promoted] = []
        self.away_until = 0
        self.gone: set[int] = set()
        self.takes = 0.0
        """Seconds of a promotion."""
        self.takes_each = 0.0
        """And of each message in it."""
        self.writers = trio.CapacityLimiter(100)
        """So many promotions are on their way at a time."""
        self.piece = BATCH
        """So many are promoted at a time, of whatever is asked for."""
        self.offset = 0
        self.clock = Clock(self.sample, monotonic=lambda: round(trio.current_time() * 1e9))
        self.backend = self
        self.asked: list[int] = []
        """Seconds that were looked at."""
        self.shared = False
        self.aside: set[int] = set()
        self.rates: dict[int, int] = {}
        self.ownership = whole()
        self.begin_at(EPOCH)

    def begin_at(self, began: int) -> None:
        """Its time begins then."""
        self.pending = pending_from(began, self.clock, rates=self.rates, ownership=self.ownership)
        self.pending.horizon.page(began)
        promotion = promotion_over(self, self.clock, self)
        self.dispatcher, self.lookahead = dispatcher_over(self.pending, promotion, self.clock, self, self.aside)

    def streamed(self, promoted: Sequence[Promoted]) -> None:
        self.pending.went(promoted)
        self.went += promoted

    async def topics_of(self, timers: Columns, burst: int) -> dict[int, int]:
        """Who knows no topics: all are in one lane, in order of their time."""
        return {}

    async def others_in(self, second: int) -> tuple[int, dict[int, int]] | None:
        """Nearly all are of several topics."""
        self.asked.append(second)
        return None

    async def sample(self) -> int:
        return EPOCH + round(trio.current_time() * 1000) + self.offset

    async def promote_some(self, entries: Sequence[int], now: int, behind: Set[int], *, whole: bool = False) -> Brought:
        if now < self.away_until:
            raise Unavailable("away")
        entries, left = entries[: self.piece], entries[self.piece :]
        self.batches.append(len(entries))
        async with self.writers:
            await trio.sleep(self.takes + self.takes_each * len(entries))
        entries = [entry for entry in entries if entry not in self.gone]
        self.fired += [(entry, now - EPOCH) for entry in entries]
        self.streamed_at |= dict.fromkeys(entries, self.clock.now() - EPOCH)
        return Brought([Promoted(entry, 1, now) for entry in entries], {}, left, {}, Fired())


@pytest.fixture
async def bench(nursery: trio.Nursery) -> Bench:
    bench = Bench()
    await bench.clock.take()
    nursery.start_soon(bench.dispatcher.run)
    await trio.testing.wait_all_tasks_blocked()
    return bench


@pytest.mark.slow
async def test_fires_at_the_due_millisecond(bench: Bench) -> None:
    for due in (5, 17, 17, 1_000, 3_600_000, 3_600_001):
        bench.pending.add(EPOCH + due, due)
    await trio.sleep(3_700)
    assert bench.fired == [(due, due) for due in (5, 17, 17, 1_000, 3_600_000, 3_600_001)]
    assert [one.entry for one in bench.went] == [5, 17, 17, 1_000, 3_600_000, 3_600_001]


async def test_wakes_for_an_earlier_one(bench: Bench) -> None:
    bench.pending.add(EPOCH + 900, 900)
    await trio.testing.wait_all_tasks_blocked()
    bench.pending.add(EPOCH + 300, 300)
    await trio.sleep(2)
    assert bench.fired == [(300, 300), (900, 900)]


async def test_a_cancelled_entry_does_not_fire(bench: Bench) -> None:
    bench.pending.add(EPOCH + 500, 1)
    bench.pending.add(EPOCH + 500, 2)
    bench.pending.cancel(EPOCH + 500, 1)
    await trio.sleep(1)
    assert bench.fired == [(2, 500)]


async def test_past_the_horizon_is_left_to_its_page(bench: Bench) -> None:
    bench.pending.add(bench.pending.horizon.loaded_until, 1)
    bench.pending.add(bench.pending.horizon.loaded_until - 1, 2)
    assert len(bench.pending.wheel) == 1


async def test_a_store_that_is_away_is_asked_until_it_is_back(bench: Bench) -> None:
    bench.away_until = EPOCH + 10_000
    bench.pending.add(EPOCH + 100, 1)
    bench.pending.add(EPOCH + 9_000, 2)
    await trio.sleep(15)
    assert [entry for entry, _ in bench.fired] == [1, 2]
    assert all(10_000 <= at < 12_500 for _, at in bench.fired)


async def test_batches_are_bounded_and_come_oldest_first(bench: Bench) -> None:
    dues = [EPOCH - 5_000 + one for one in range(3 * BATCH)]
    bench.pending.add_many(dues, list(range(3 * BATCH)))
    await trio.sleep(2)
    assert bench.batches == [BATCH] * 3
    assert [entry for entry, _ in bench.fired] == list(range(3 * BATCH))


async def test_a_clock_in_doubt_fires_nothing(bench: Bench) -> None:
    bench.pending.add(EPOCH + 1_000, 1)
    bench.offset += 3_600_000
    await bench.clock.take()
    await trio.sleep(3)
    assert bench.fired == []
    bench.offset -= 3_600_000
    await bench.clock.take()
    await trio.sleep(1.5)
    assert [entry for entry, _ in bench.fired] == [1]


@pytest.mark.slow
async def test_a_suspended_host_skips_nothing(bench: Bench) -> None:
    bench.pending.add_many([EPOCH + 1_000 * one for one in range(1, 10_000)], list(range(1, 10_000)))
    await trio.sleep(0.5)
    # trio's clock stands still in a suspend, boot time and the database's go on
    asleep = 9_000_000
    before = bench.clock._monotonic
    bench.clock._monotonic = lambda: before() + asleep * 1_000_000
    bench.offset += asleep
    await trio.sleep(1_200)
    assert [entry for entry, _ in bench.fired] == list(range(1, 10_000))
    assert all(at >= 1_000 * entry for entry, at in bench.fired)


async def test_only_missing_rows_are_added_by_a_sweep(bench: Bench) -> None:
    bench.pending.add(EPOCH + 400, 1)
    assert bench.pending.add_missing([(EPOCH + 400, 1), (EPOCH + 500, 2), (EPOCH - 9, 3)]) == 2
    await trio.sleep(1)
    assert [entry for entry, _ in bench.fired] == [3, 1, 2]


async def test_a_row_on_its_way_is_not_missing(bench: Bench) -> None:
    bench.takes = 0.5
    bench.pending.add(EPOCH + 100, 1)
    await trio.sleep(0.3)
    assert bench.pending.add_missing([(EPOCH + 100, 1)]) == 0
    await trio.sleep(1)
    assert bench.pending.add_missing([(EPOCH + 100, 1)]) == 1


async def test_a_row_that_went_while_a_sweep_read_it_is_not_missing(bench: Bench) -> None:
    bench.pending.add(EPOCH + 100, 1)
    bench.pending.add(EPOCH + 300, 2)
    with bench.pending.sweep():
        await trio.sleep(0.2)
        with bench.pending.sweep():
            await trio.sleep(0.2)
        read_before = [(EPOCH + 100, 1), (EPOCH + 300, 2), (EPOCH + 350, 3)]
        assert bench.pending.add_missing(read_before) == 1
    assert bench.pending.add_missing([(EPOCH + 100, 1)]) == 1, "read after it went: it is there again"


async def test_what_is_heard_of_is_taken_whoever_has_its_shard(bench: Bench) -> None:
    """Or else it would be in no wheel, if its owner has read that page already."""
    bench.ownership.held = frozenset({1})
    for entry in (1, 2, ~1, ~2):
        bench.pending.add(EPOCH + 600_000, entry)
    assert len(bench.pending.wheel) == 4
    bench.pending.cancel(EPOCH + 600_000, 2)
    bench.pending.cancel(EPOCH + 600_000, ~1)
    await trio.sleep(601)
    assert sorted(entry for entry, _ in bench.fired) == [~2, 1]


async def test_it_stops_when_what_is_under_way_is_over(bench: Bench) -> None:
    bench.takes = 0.5
    bench.pending.add(EPOCH + 100, 1)
    bench.pending.add(EPOCH + 400, 2)
    await trio.sleep(0.3)
    await bench.dispatcher.stop()
    assert [entry for entry, _ in bench.fired] == [1]
    await trio.sleep(5)
    assert [entry for entry, _ in bench.fired] == [1]


class Crowded(Bench):
    """A hand that knows topics: an entry is of topic entry // 1,000,000."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: list[int] = []
        self.unseen_until = 0
        self.others: dict[int, int] | None = None

    async def others_in(self, second: int) -> tuple[int, dict[int, int]] | None:
        if self.others is None:
            return None
        assert second == KNOWN // 1_000
        return 1, self.others

    async def topics_of(self, timers: Columns, burst: int) -> dict[int, int]:
        if self.clock.now() < self.unseen_until:
            raise Unavailable("away")
        self.looks.append(len(timers))
        await trio.sleep(0.001)
        return {entry: entry // A for _, entry in timers if entry // A != burst}

    def order(self, topic: int) -> list[int]:
        return [entry for entry, _ in self.fired if entry // A == topic]


A, B = 1_000_000, 2_000_000
MANY = 30 * BATCH


@pytest.fixture
async def crowded(nursery: trio.Nursery) -> Crowded:
    """All due in one second, and a neighbour's of the same second and of those after it."""
    bench = Crowded()
    bench.takes = 0.1
    await bench.clock.take()
    bench.pending.add_many([EPOCH + 1_000 + one % 1_000 for one in range(MANY)], [A + one for one in range(MANY)])
    for one in range(30):
        bench.pending.add(EPOCH + 1_500 + 100 * one, B + one)
    nursery.start_soon(bench.dispatcher.run)
    await trio.testing.wait_all_tasks_blocked()
    return bench


KNOWN = EPOCH + 40_000


async def known_crowd(nursery: trio.Nursery, crowd: Sequence[int], theirs: Sequence[int]) -> Crowded:
    """A second that has been looked at, ten before it begins."""
    bench = Crowded()
    await bench.clock.take()
    bench.others = dict.fromkeys(theirs, 2)
    bench.pending.add_many([due_of(one) for one in crowd], crowd)
    for one in theirs:
        bench.pending.add(due_of(one), one)
    nursery.start_soon(bench.dispatcher.run)
    await trio.sleep(30)
    await bench.lookahead.look_ahead()
    return bench


async def test_a_neighbour_does_not_wait_behind_a_crowd(crowded: Crowded) -> None:
    await trio.sleep(8)
    late = [at - (1_500 + 100 * (entry - B)) for entry, at in crowded.fired if entry // A == 2]
    assert len(late) == 30
    assert max(late) <= 210, "a batch that was begun, and one's own"
    assert crowded.order(1) == sorted(crowded.order(1), key=lambda entry: ((entry - A) % 1_000, entry))
    assert sorted(crowded.order(1)) == [A + one for one in range(MANY)]
    assert len(crowded.pending) == crowded.pending.behind == 0


async def test_what_falls_due_by_itself_meets_no_batch_of_a_crowd(crowded: Crowded) -> None:
    """From the second after the crowd's on: of its own nothing is known here."""
    crowded.takes, crowded.takes_each, crowded.writers.total_tokens = 0.0, 0.0002, 1
    await trio.sleep(8)
    over = max(at for entry, at in crowded.streamed_at.items() if entry // A == 1)
    late = {1_500 + 100 * (entry - B): at for entry, at in crowded.streamed_at.items() if entry // A == 2}
    after = [at - due for due, at in late.items() if 2_000 < due < over]
    assert len(after) > 15, "the crowd takes longer than its second"
    assert max(after) <= 2, "to look its topic up, and to promote it"
    assert sorted(crowded.order(1)) == [A + one for one in range(MANY)]


async def test_strangers_in_a_known_second_meet_no_batch_of_its_crowd(nursery: trio.Nursery) -> None:
    theirs = [first_id(KNOWN + 300 + 100 * one) + 200 for one in range(7)]
    bench = await known_crowd(nursery, [first_id(KNOWN + one // 60) + one % 60 for one in range(60_000)], theirs)
    bench.takes_each, bench.writers.total_tokens = 0.0002, 1
    await trio.sleep(11.5)
    assert max(bench.streamed_at[one] - (40_300 + 100 * nth) for nth, one in enumerate(theirs)) <= 2


async def test_a_crowd_of_a_full_hour_is_looked_at_before_the_hour_begins(nursery: trio.Nursery) -> None:
    bench, hour = Bench(), (EPOCH // 3_600_000 + 1) * 3_600_000
    bench.offset = hour - 10_000 - EPOCH
    await bench.clock.take()
    bench.begin_at(hour - 10_000)
    crowd = [first_id(hour + one // 60) + one % 60 for one in range(60_000)]
    bench.pending.add_many([due_of(one) for one in crowd], crowd)
    nursery.start_soon(bench.dispatcher.run)
    await trio.sleep(5)
    await bench.lookahead.look_ahead()
    assert bench.asked == [hour // 1_000]


async def test_a_batch_that_would_not_fit_is_smaller_and_leaves_no_crumbs(nursery: trio.Nursery) -> None:
    """What it is cut by has its turn with the others of its topic: a batch of a few takes nearly as long as a large."""
    theirs = [first_id(KNOWN + 300 + 110 * one) + 200 for one in range(6)]
    bench = await known_crowd(nursery, [first_id(KNOWN + one // 60) + one % 60 for one in range(60_000)], theirs)
    bench.takes_each, bench.writers.total_tokens = 0.0002, 1
    await trio.sleep(11)
    cut = [many for many in bench.batches if 1 < many < BATCH]
    assert len(theirs) <= len(cut) <= 2 * (len(theirs) + 1), "two before each of theirs, and two at the ends"
    assert min(cut) >= 50


@pytest.mark.slow
async def test_the_first_of_a_crowd_that_is_known_hold_up_nobody(nursery: trio.Nursery) -> None:
    """What falls due a millisecond later is promoted beside them."""
    crowd = [first_id(KNOWN + one // 200) + one % 200 for one in range(60_000)]  # fewer in a millisecond than a batch
    theirs = first_id(KNOWN + 1) + 200
    bench = await known_crowd(nursery, crowd, [theirs])
    bench.takes = 0.1
    await trio.sleep(15)
    assert dict(bench.fired)[theirs] == 40_001
    assert [entry for entry, _ in bench.fired if entry != theirs] == crowd[: len(bench.fired) - 1]


async def test_a_second_of_many_is_in_order_before_it_begins(bench: Bench) -> None:
    """At once it would take long, and nobody would be served meanwhile."""
    for entry in range(20_000):
        bench.pending.add(EPOCH + 30_000 + entry * 7919 % 1_000, entry)
    await trio.sleep(29)
    assert bench.pending.wheel.prepare(1) == 0


async def test_what_a_promotion_leaves_goes_next_and_in_order(crowded: Crowded) -> None:
    crowded.piece = 300
    crowded.takes = 0.01
    await trio.sleep(1.1)
    crowded.away_until = EPOCH + 3_000  # in the midst of one
    here = [(EPOCH + 1_000 + one % 1_000, A + one) for one in range(MANY)]
    gone = {entry for entry, _ in crowded.fired}
    assert crowded.pending.add_missing([one for one in here if one[1] not in gone]) == 0, "what is left is on its way"
    await trio.sleep(8)
    assert crowded.order(1) == sorted(crowded.order(1), key=lambda entry: ((entry - A) % 1_000, entry))
    assert sorted(crowded.order(1)) == [A + one for one in range(MANY)]
    assert [one.entry for one in crowded.went] == [entry for entry, _ in crowded.fired]
    assert {*crowded.batches} >= {300, BATCH - 300}


async def test_a_batch_or_two_are_not_looked_up(crowded: Crowded) -> None:
    await trio.sleep(8)
    crowded.looks.clear()
    crowded.pending.add_many([EPOCH + 9_000] * 2 * BATCH, [A + one for one in range(2 * BATCH)])
    crowded.pending.add(EPOCH + 10_000, B)
    await trio.sleep(4)
    assert crowded.batches[-3:] == [BATCH, BATCH, 1]
    assert crowded.looks == []


async def test_what_waits_in_the_crowd_is_not_missing_and_counts_as_late(crowded: Crowded) -> None:
    await trio.sleep(2.5)
    assert crowded.pending.lanes
    assert 500 < crowded.pending.behind < 1_500
    assert len(crowded.pending) > 10 * BATCH
    gone = {entry for entry, _ in crowded.fired}
    here = [(EPOCH + 1_000 + one % 1_000, A + one) for one in range(MANY) if A + one not in gone]
    assert crowded.pending.add_missing(here) == 0
    assert crowded.pending.add_missing([*here, (EPOCH + 1_700, A + MANY)]) == 1
    await trio.sleep(8)
    assert sorted(crowded.order(1)) == [A + one for one in range(MANY + 1)]


async def test_it_knows_how_many_are_due_or_soon_will_be(crowded: Crowded) -> None:
    assert [crowded.pending.known(EPOCH + until) for until in (0, 999, 1_000, 2_000)] == [0, 0, MANY + 5, MANY + 15]
    for at in (1.5, 1.75, 3.5):  # the second is under way, partly in lanes; and later it is all in lanes
        await trio.sleep(at - (crowded.clock.now() - EPOCH) / 1_000)
        assert len(crowded.pending) > 2 * BATCH
        assert crowded.pending.known(EPOCH + 10_000) == len(crowded.pending)


async def test_a_store_that_is_away_when_topics_are_looked_up(crowded: Crowded) -> None:
    crowded.unseen_until = EPOCH + 5_000
    await trio.sleep(1.9)
    assert crowded.pending.add_missing([(EPOCH + 1_000 + one, A + one) for one in range(1_000)]) <= BATCH, (
        "it is on its way"
    )
    crowded.away_until = EPOCH + 7_000
    await trio.sleep(13)
    assert sorted(set(crowded.order(1))) == [A + one for one in range(MANY)]
    assert len(crowded.order(2)) == 30


async def test_a_crowd_waits_while_time_is_in_doubt(crowded: Crowded) -> None:
    await trio.sleep(2)
    crowded.offset += 3_600_000
    await crowded.clock.take()
    await trio.sleep(0.3)
    fired = len(crowded.fired)
    assert 0 < fired < MANY
    await trio.sleep(5)
    assert (len(crowded.fired), crowded.pending.behind) == (fired, 0)
    crowded.offset -= 3_600_000
    await crowded.clock.take()
    await trio.sleep(6)
    assert len(crowded.fired) == MANY + 30


async def test_a_crowd_stops_between_batches_and_lets_go_of_shards(crowded: Crowded) -> None:
    await trio.sleep(2)
    await crowded.dispatcher.stop()
    fired = len(crowded.fired)
    assert 0 < fired == sum(crowded.batches), "what was begun is over"
    await trio.sleep(5)
    assert len(crowded.fired) == fired
    before = len(crowded.pending)
    crowded.ownership.held = frozenset(range(1, 16))
    await crowded.pending.forget(frozenset({0}))
    assert len(crowded.pending) == before, "who has the shard now may not have seen it yet"
    await trio.sleep(20)
    await crowded.pending.forget(frozenset({0}))
    assert before * 14 / 16 < len(crowded.pending) < before


async def test_a_rate_holds_its_topic_back_and_no_other(nursery: trio.Nursery) -> None:
    bench = Crowded()
    bench.rates[1] = 100
    await bench.clock.take()
    bench.pending.add_many([EPOCH + 1_000] * 500, [A + one for one in range(500)])
    for one in range(40):
        bench.pending.add(EPOCH + 1_000 + 100 * one, B + one)
    nursery.start_soon(bench.dispatcher.run)
    await trio.sleep(3)
    assert 200 <= len(bench.order(1)) <= 260
    assert (bench.pending.behind, bench.pending.held_back) == (0, [1])
    assert bench.pending.held_back_of(1) == 500 - len(bench.order(1))
    assert bench.pending.held_back_of(2) == 0, "without a rate nothing is held back"
    assert all(at - (1_000 + 100 * (entry - B)) <= 5 for entry, at in bench.fired if entry // A == 2)
    waiting = [(EPOCH + 1_000, A + one) for one in range(500) if A + one not in bench.order(1)]
    assert bench.pending.add_missing(waiting) == 0
    await trio.sleep(1)
    assert 300 <= len(bench.order(1)) <= 360
    bench.rates.clear()
    await trio.sleep(0.2)
    assert bench.order(1) == [A + one for one in range(500)], "in order, each once; and all when the rate is gone"


@pytest.mark.parametrize("aside", [False, True])
async def test_a_rate_gives_back_what_was_cancelled_and_not_what_waits_aside(
    nursery: trio.Nursery, aside: bool
) -> None:
    bench = Crowded()
    bench.rates[1] = 100
    await bench.clock.take()
    bench.pending.add_many([EPOCH + 1_000] * 1_000, [A + one for one in range(1_000)])
    if aside:
        bench.aside.update(A + one for one in range(400))
    bench.gone = {A + one for one in range(400)}
    nursery.start_soon(bench.dispatcher.run)
    await trio.sleep(3)
    assert (len(bench.order(1)) > 180) == (not aside)

"""The wheel by example: the cases that have gone wrong elsewhere, and the edges."""

from __future__ import annotations

from array import array
from random import Random

import pytest

from support.effort import full, tries
from tarry.wheel.shards import outside, shard_of
from tarry.wheel.timing_wheel import TimingWheel

HOUR = 3_600_000
NOW = 1_763_694_000_000 + 1_234_567  # within an hour
HOUR_BEGAN = NOW // HOUR * HOUR
LOWEST, HIGHEST = -(2**63), 2**63 - 1


@full
@pytest.mark.parametrize("start", [NOW, NOW // HOUR * HOUR, NOW // HOUR * HOUR - 1])
@pytest.mark.parametrize("hours", [0, 1, 2, 3, 48])
@pytest.mark.parametrize("near", [-1_000, -1, 0, 1, 1_000])
@pytest.mark.parametrize("step", [1_000, HOUR, 77_777])
def test_an_exact_multiple_of_an_hour_comes_out_at_its_millisecond(
    start: int, hours: int, near: int, step: int
) -> None:
    if hours == 48:
        step = max(step, tries(9_999, 1_000))  # second by second it is as many steps as in all other cases together
    due = start + hours * HOUR + near
    wheel = TimingWheel(start)
    wheel.add(due, 7)
    hand = start
    while hand < due:
        hand = min(hand + step, due - 1)
        assert wheel.advance(hand) == []
        if hand == due - 1:
            break
    assert wheel.advance(max(start, due)) == [7]
    assert len(wheel) == 0


def test_overdue_is_ready_at_once_and_comes_first() -> None:
    wheel = TimingWheel(NOW)
    wheel.add(NOW, 3)
    wheel.add(NOW - 10 * 365 * 24 * HOUR, 1)
    wheel.add(NOW - 1, 2)
    wheel.add(NOW + 1, 4)
    assert wheel.statistics().ready == 3
    assert wheel.advance(NOW) == [1, 2, 3]
    assert wheel.next_due() == NOW + 1
    assert wheel.advance(NOW + 1) == [4]


def test_the_load_of_a_second_is_known_in_this_hour_and_the_next() -> None:
    wheel = TimingWheel(NOW)
    seconds = [(HOUR_BEGAN + hours * HOUR) // 1_000 + 3_599 for hours in range(3)]
    next_hour = seconds[1]
    assert [wheel.load(second) for second in seconds] == [0, 0, None]
    for entry_id in range(40):
        for second in seconds:
            wheel.add(second * 1_000 + entry_id, entry_id)
    assert [wheel.load(second) for second in seconds] == [40, 40, None]
    wheel.add(next_hour * 1_000, 40)
    wheel.cancel(next_hour * 1_000 + 7, 7)
    assert [wheel.load(next_hour + after) for after in (-1, 0, 1)] == [0, 40, None]
    wheel.add_many([next_hour * 1_000] * 2_500, range(100, 2_600))
    assert [wheel.load(next_hour) for _ in range(3)] == [None, None, 2_540], "a thousand are dealt each time"
    assert wheel.advance(HOUR_BEGAN + HOUR) == list(range(40))
    assert [wheel.load(second) for second in seconds] == [None, 2_540, 40], "it is this hour, and the next"


def test_an_open_second_is_handed_out_by_the_millisecond_whatever_comes_for_it_meanwhile() -> None:
    second = NOW // 1_000 * 1_000 + 5_000
    wheel = TimingWheel(NOW)
    for offset in (900, 100, 500):
        wheel.add(second + offset, offset)
    assert wheel.next_due() == second + 100
    assert wheel.advance(second + 99) == []
    assert wheel.advance(second + 100) == [100]
    wheel.add(second + 50, 50)  # overdue by now
    wheel.add(second + 300, 300)
    wheel.add(second + 900, 899)
    assert wheel.next_due() == second + 50
    assert wheel.advance(second + 499) == [50, 300]
    wheel.cancel(second + 500, 500)
    assert wheel.next_due() == second + 900
    assert wheel.advance(second + 1_000) == [899, 900]


def test_what_a_limit_holds_back_comes_in_one_order_with_what_falls_due_meanwhile() -> None:
    wheel = TimingWheel(NOW)
    for minutes in range(100):
        wheel.add(NOW + minutes * 60_000, minutes)
    assert wheel.advance(NOW + 3 * HOUR, 10) == list(range(10))
    assert wheel.statistics().ready == 90
    wheel.add(NOW + 10 * 60_000 + 1, 1_000)
    wheel.add(NOW + 1, 1_001)
    assert wheel.advance(NOW + 3 * HOUR, 3) == [1_001, 10, 1_000]
    assert wheel.advance(NOW + 3 * HOUR, 0) == []
    assert wheel.advance(NOW + 3 * HOUR) == list(range(11, 100))


def test_the_hand_never_goes_back() -> None:
    wheel = TimingWheel(NOW)
    wheel.advance(NOW + HOUR)
    wheel.add(NOW + HOUR - 1, 1)
    assert wheel.advance(NOW) == [1]
    assert wheel.statistics().hand == NOW + HOUR


@pytest.mark.parametrize("delay", [-5_000, 400, 90_000, 5 * HOUR])
def test_cancel_forgets_every_copy_and_nothing_else(delay: int) -> None:
    due = NOW + delay
    wheel = TimingWheel(NOW)
    wheel.cancel(due, 1)  # unknown: it must not kill the next
    wheel.add(due, 1)
    wheel.add(due, 1)
    wheel.add(due, 2)
    wheel.add(due + 1, 1)
    wheel.cancel(due, 1)
    wheel.cancel(due, 99)
    assert wheel.missing([due, due, due + 1], [1, 2, 1]) == [(due, 1)]
    wheel.add(due, 1)
    assert wheel.missing([due], [1]) == []
    assert wheel.advance(NOW + 6 * HOUR) == [1, 2, 1]
    assert len(wheel) == 0


def test_a_cycle_can_be_dealt_in_pieces_while_it_is_added_to_and_cancelled_from() -> None:
    start = NOW // HOUR * HOUR
    wheel = TimingWheel(start)
    dues = [start + HOUR + 10 * number for number in range(100)]
    wheel.add_many(dues, range(100))
    assert wheel.deal(0) == 100
    assert wheel.deal(30) == 70
    assert wheel.next_due() == start + HOUR  # a bound: the cycle is not dealt to the end
    wheel.cancel(dues[0], 0)  # dealt
    wheel.cancel(dues[99], 99)  # not dealt
    wheel.add(dues[0], 0)
    wheel.add(dues[50], 50)
    assert wheel.statistics().tombstones == 2
    assert wheel.deal(1_000) == 0
    assert wheel.statistics().tombstones == 0
    assert (len(wheel), wheel.statistics().dealt_ahead) == (100, 100)
    wheel.cancel(dues[0], 0)
    assert wheel.next_due() == dues[1]  # exact now
    wheel.add(dues[3] - 1, 1_000)
    assert wheel.deal(1) == 0
    assert wheel.deal(1) == 0
    expected = [1, 2, 1_000, *range(3, 51), *range(50, 99)]
    assert wheel.advance(start + 2 * HOUR) == expected


def test_a_cycle_half_dealt_can_be_swept() -> None:
    start = NOW // HOUR * HOUR
    wheel = TimingWheel(start)
    dues = [start + HOUR + 10 * number for number in range(300)]
    wheel.add_many(dues, range(300))
    wheel.deal(100)
    for number in range(290):
        wheel.cancel(dues[number], number)
    assert wheel.statistics().tombstones < 200
    assert wheel.missing(dues, range(300)) == list(zip(dues[:290], range(290), strict=True))
    assert wheel.deal(5) <= 200
    wheel.add(start + HOUR, 1_000)
    assert wheel.advance(start + 2 * HOUR) == [1_000, *range(290, 300)]


def test_what_is_added_again_after_its_cancel_was_dealt_lives() -> None:
    start = NOW // HOUR * HOUR
    wheel = TimingWheel(start)
    wheel.add_many([start + HOUR + 1] * 5, [1] * 5)
    wheel.cancel(start + HOUR + 1, 1)
    assert wheel.deal(10) == 0
    wheel.add(start + HOUR + 1, 1)
    assert wheel.advance(start + HOUR + 1) == [1]


def test_order_survives_a_sweep() -> None:
    wheel = TimingWheel(NOW)
    dues = [NOW + 2 * HOUR + number for number in range(200)]
    wheel.add_many(dues, range(200))
    for number in range(200):
        wheel.cancel(dues[number], number)
    for number in reversed(range(200)):
        wheel.add(dues[number], number)
    assert wheel.advance(NOW + 3 * HOUR) == [*range(200)]


def test_deal_is_about_the_next_cycle_only() -> None:
    wheel = TimingWheel(NOW)
    wheel.add(NOW + 3 * HOUR, 1)
    assert wheel.deal(10) == 0
    assert wheel.statistics().dealt_ahead == 0


def test_next_due_is_none_when_all_is_cancelled_and_dealt() -> None:
    start = NOW // HOUR * HOUR
    wheel = TimingWheel(start)
    wheel.add(start + HOUR + 5, 1)
    wheel.add(start + 2 * HOUR + 5, 2)
    assert wheel.deal(5) == 0
    wheel.cancel(start + HOUR + 5, 1)
    assert wheel.next_due() == start + 2 * HOUR
    wheel.cancel(start + 2 * HOUR + 5, 2)
    assert wheel.advance(start + 2 * HOUR) == []
    assert wheel.next_due() is None
    assert (len(wheel), wheel.statistics().tombstones) == (0, 0)


def test_a_step_of_a_million_years_over_empty_cycles_is_a_step() -> None:
    wheel = TimingWheel(NOW)
    year = 365 * 24 * HOUR
    wheel.add(NOW + 400_000 * year, 1)
    assert wheel.advance(NOW + 400_000 * year - 1) == []
    assert wheel.advance(NOW + 1_000_000 * year) == [1]
    wheel.add(NOW + 1_000_000 * year + 1_500, 2)
    assert wheel.next_due() == NOW + 1_000_000 * year + 1_500


def test_the_edges_of_int64() -> None:
    wheel = TimingWheel(LOWEST)
    dues = [HIGHEST, LOWEST, 0, -1, HIGHEST, LOWEST + 1]
    pair_ids = [HIGHEST, LOWEST, 0, -1, LOWEST, 1]
    for due, entry_id in zip(dues, pair_ids, strict=True):
        wheel.add(due, entry_id)
    wheel.add_many(array("q", sorted(dues)), array("q", [5] * 6))
    assert wheel.missing(dues, pair_ids) == []
    assert wheel.advance(LOWEST) == [LOWEST, 5]
    assert wheel.advance(-1) == [1, 5, -1, 5]
    wheel.cancel(HIGHEST, LOWEST)
    assert wheel.advance(HIGHEST - 1) == [0, 5]
    assert wheel.next_due() == HIGHEST
    assert wheel.advance(HIGHEST) == [5, 5, HIGHEST]
    wheel.add(LOWEST, 9)
    assert wheel.advance(HIGHEST) == [9]


@pytest.mark.parametrize("delay", [-1, 0, 1, HOUR, 2 * HOUR])
@pytest.mark.parametrize("wrong", [2**63, -(2**63) - 1])
def test_an_id_beyond_int64_is_refused_and_changes_nothing(delay: int, wrong: int) -> None:
    wheel = TimingWheel(NOW)
    wheel.add(NOW + HOUR, 1)
    with pytest.raises(OverflowError):
        wheel.add(NOW + delay, wrong)
    with pytest.raises(OverflowError):
        wheel.add_many([NOW + delay], [wrong])
    wheel.add(NOW + delay, 2)
    assert len(wheel) == 2
    assert wheel.advance(NOW + delay)[-1:] == [2]


def test_columns_of_unlike_length_and_negative_limits_are_refused() -> None:
    wheel = TimingWheel(NOW)
    with pytest.raises(ValueError, match="2 due times for 1 ids"):
        wheel.add_many([1, 2], [1])
    with pytest.raises(ValueError, match="negative"):
        wheel.advance(NOW, -1)
    assert len(wheel) == 0


def test_the_columns_given_are_copied() -> None:
    dues, pair_ids = array("q", [NOW - 2, NOW + 1, NOW + 2 * HOUR]), array("q", [1, 2, 3])
    wheel = TimingWheel(NOW)
    wheel.add_many(dues, pair_ids)
    for number in range(3):
        dues[number] = pair_ids[number] = 0
    assert wheel.advance(NOW + 3 * HOUR) == [1, 2, 3]


@pytest.mark.parametrize("delay", [-HOUR, 2_000, 2 * HOUR])
def test_a_million_timers_may_name_one_second(delay: int) -> None:
    """With ten thousand: a slot that is too large to look cancels up in."""
    chance = Random(1)
    second = (NOW + delay) // 1_000 * 1_000
    wheel = TimingWheel(NOW)
    pairs = [(second + chance.randrange(1_000), entry_id) for entry_id in range(10_000)]
    wheel.add_many([due for due, _ in pairs[:9_000]], range(9_000))
    for due, entry_id in pairs[9_000:]:
        wheel.add(due, entry_id)
    cancelled = pairs[::3]
    for due, entry_id in cancelled:
        wheel.cancel(due, entry_id)
        wheel.cancel(due, entry_id)
    for due, entry_id in cancelled[::2]:
        wheel.add(due, entry_id)
    alive = sorted((set(pairs) - set(cancelled)) | set(cancelled[::2]))
    assert set(wheel.missing([due for due, _ in pairs], range(10_000))) == set(pairs) - set(alive)
    if second > NOW:
        assert wheel.advance(alive[0][0] - 1) == []
    taken: list[int] = []
    for millisecond in range(-1, 1_001, 7):
        taken += wheel.advance(second + millisecond, 60)
    while more := wheel.advance(second + 1_000, 500):
        taken += more
    assert taken == [entry_id for _, entry_id in alive]
    assert len(wheel) == 0


@pytest.mark.parametrize("second", [NOW + 2_000, NOW + HOUR], ids=["this hour", "the next"])
def test_a_second_of_many_is_put_in_order_in_pieces_while_it_is_added_to_and_cancelled_from(second: int) -> None:
    chance = Random(1)
    wheel = TimingWheel(second - 30_000)
    pairs = [(second + chance.randrange(1_000), number * 7_919 % 20_011) for number in range(20_000)]
    for due, entry_id in pairs[:19_000]:
        wheel.add(due, entry_id)
    while wheel.deal(1_000):
        pass
    pieces = 0
    while wheel.prepare(1_000):
        pieces += 1
        if pieces == 10:
            for due, entry_id in pairs[:100]:
                wheel.cancel(due, entry_id)
            wheel.add(*pairs[7])
    assert pieces >= 19, "a piece is no more than what was asked for"
    for added, cancelled in zip(pairs[19_000:], pairs[18_000:19_000], strict=True):
        wheel.add(*added)
        wheel.cancel(*cancelled)
    assert wheel.prepare(1) > 0, "what came later is to be put in order, too"
    alive = sorted([pairs[7], *pairs[100:18_000], *pairs[19_000:]])
    assert list(wheel.advance_columns(second + 999, 100_000)) == alive
    assert wheel.prepare(1_000) == len(wheel) == 0


def test_many_of_one_millisecond_come_out_with_their_times() -> None:
    chance = Random(2)
    second = NOW + 2_000
    wheel = TimingWheel(NOW)
    pairs = [(second + chance.choice((0, 1, 1, 5, 6, 400, 999)), number) for number in range(5_000)]
    wheel.add_many([due for due, _ in pairs], [entry_id for _, entry_id in pairs])
    taken: list[tuple[int, int]] = []
    while some := list(wheel.advance_columns(second + 999, 700)):
        taken += some
    assert taken == sorted(pairs)


@pytest.mark.parametrize("pieces", [0, 3, 12, 99], ids=lambda pieces: f"{pieces} pieces in order")
@pytest.mark.parametrize("ascending", [False, True])
@pytest.mark.parametrize("more", [False, True])
def test_in_a_second_of_many_it_is_known_what_is_missing(ascending: bool, pieces: int, more: bool) -> None:
    """Wherever the second is on its way into order, and whatever is cancelled or comes meanwhile."""
    chance = Random(pieces)
    second = NOW // 1_000 * 1_000 + 5_000
    wheel = TimingWheel(second - 4_000)
    pairs = sorted((second + chance.randrange(1_000), chance.randrange(10_000)) for _ in range(9_000))
    if ascending:
        wheel.add_many([due for due, _ in pairs], [entry_id for _, entry_id in pairs])
    else:
        for due, entry_id in chance.sample(pairs, len(pairs)):
            wheel.add(due, entry_id)
    alive = set(pairs)
    for _ in range(pieces):
        wheel.prepare(1_000)
    for pair in chance.sample(pairs, 1_000):
        wheel.cancel(*pair)
        alive.discard(pair)
    if more:  # which is not in order with the others
        for pair in chance.sample(pairs, 500) + [(second + chance.randrange(1_000), 20_000 + n) for n in range(500)]:
            wheel.add(*pair)
            alive.add(pair)
    asked = {*pairs, *alive, *((due, entry_id + 1) for due, entry_id in pairs[:2_000]), (second + 3, -5), (second, 1)}
    rows = chance.sample(sorted(asked), len(asked))
    missing = wheel.missing([due for due, _ in rows], [entry_id for _, entry_id in rows])
    assert missing == [pair for pair in rows if pair not in alive]


def test_rescheduling_all_day_leaves_no_more_behind_than_there_is() -> None:
    wheel = TimingWheel(NOW)
    for number in range(50_000):
        due = NOW + 3 * HOUR + number % 1_000
        wheel.add(due, 1)
        wheel.cancel(due, 1)
    wheel.add(NOW + 3 * HOUR, 1)
    assert len(wheel) < 200
    assert wheel.statistics().tombstones < 200
    assert wheel.advance(NOW + 4 * HOUR) == [1]


@pytest.mark.parametrize("seed", range(3))
def test_thousands_of_entries_of_every_origin_come_out_in_order(seed: int) -> None:
    chance = Random(seed)
    wheel = TimingWheel(NOW)
    pending: set[tuple[int, int]] = set()
    hand, taken, expected = NOW, list[int](), list[int]()
    for turn in range(60):
        page = [(hand + chance.randrange(-HOUR, 4 * HOUR), turn * 1_000 + number) for number in range(500)]
        if turn % 3 == 0:
            page.sort()
        if turn % 3 == 1:
            # In order of due time, while ids descend: rescheduled messages keep their ids.
            page = sorted((due, 1_000_000 - entry_id) for due, entry_id in page)
        wheel.add_many([due for due, _ in page], [entry_id for _, entry_id in page])
        pending.update(page)
        for due, entry_id in chance.sample(sorted(pending), 50):
            wheel.cancel(due, entry_id)
            pending.discard((due, entry_id))
        wheel.deal(chance.randrange(400))
        hand += chance.choice((1, 1_000, 59_999, HOUR))
        due_now = sorted(pair for pair in pending if pair[0] <= hand)
        pending.difference_update(due_now)
        expected += [entry_id for _, entry_id in due_now]
        while more := wheel.advance(hand, 100):
            taken += more
        assert taken == expected
        assert wheel.missing([due for due, _ in pending], [entry_id for _, entry_id in pending]) == []


def test_statistics_and_repr_show_what_it_holds() -> None:
    wheel = TimingWheel(NOW)
    for delay in (-1, 0, 1_000, HOUR, 5 * HOUR):
        wheel.add(NOW + delay, 1)
    wheel.cancel(NOW + 5 * HOUR, 8)
    wheel.deal(10)
    statistics = wheel.statistics()
    assert (statistics.hand, statistics.entries, statistics.ready) == (NOW, 5, 2)
    assert (statistics.tombstones, statistics.cycles, statistics.dealt_ahead) == (1, 2, 1)
    assert repr(wheel) == f"<TimingWheel hand={NOW} entries=5 far_cycles=2>"


@pytest.mark.parametrize("near", [0, HOUR - 30_000])
def test_shards_are_forgotten_in_pieces_while_the_hand_goes_on(near: int) -> None:
    """Also when an hour begins meanwhile."""
    start = NOW // HOUR * HOUR + near
    wheel = TimingWheel(start)
    dues = [start + 20_000 + 997 * number for number in range(12_000)]
    entries = [number if number % 5 else ~number for number in range(12_000)]
    wheel.add_many(dues, entries)
    fired: list[int] = []
    hand = start
    for _ in wheel.forget({3, 4}, start + 60_000):
        hand += 7_000
        fired += wheel.advance(hand)
        wheel.deal(100)
    shards = [(entry if entry >= 0 else -1 - entry) % 16 for entry in entries]
    early = {entry for due, entry in zip(dues, entries, strict=True) if due <= hand}
    others = {entry for entry, shard in zip(entries, shards, strict=True) if shard not in (3, 4)}
    assert {entry for entry in fired if entry in others} == early & others
    assert len(wheel) == len(others - early)
    assert set(wheel.advance(dues[-1])) == others - early


def test_a_shard_is_the_low_bits_of_an_entry_or_of_its_complement() -> None:
    assert [shard_of(entry) for entry in (0, 15, 16, 35, ~0, ~15, ~16, ~35, LOWEST, HIGHEST)] == [
        0,
        15,
        0,
        3,
        0,
        15,
        0,
        3,
        15,
        15,
    ]
    dice = Random(1)
    for entries in (
        [dice.randrange(HIGHEST) for _ in range(100)],
        [dice.randrange(LOWEST, HIGHEST) for _ in range(100)],
    ):
        expected = [shard_of(entry) not in (1, 15) for entry in entries]
        assert [bool(one) for one in outside(array("q", entries), {1, 15})] == expected


def test_a_crowd_behind_empty_seconds_is_put_in_order_too() -> None:
    wheel = TimingWheel(HOUR_BEGAN)
    at = HOUR_BEGAN + 300_000
    for entry in range(5_000, 0, -1):
        wheel.add(at + 5, entry)
    assert wheel.prepare(1_000) == 0, "it is far"
    assert wheel.advance(at - 30_000, 10) == []
    assert wheel.prepare(1_000) > 0, "nothing lies between, and the hand is near"
    while wheel.prepare(1_000):
        pass
    assert wheel.advance(at + 5, 10_000) == list(range(1, 5_001))


@pytest.mark.parametrize("cancelled", [7, 3_000])
def test_what_comes_and_what_is_cancelled_once_it_is_in_order(cancelled: int) -> None:
    """One comes and one goes: as many as were put in order, and not the same."""
    wheel = TimingWheel(HOUR_BEGAN)
    at = HOUR_BEGAN + 20_000
    for entry in range(3_000, 0, -1):
        wheel.add(at, entry)
    while wheel.prepare(1_000):
        pass
    wheel.add(at, 0)
    assert wheel.prepare(10) == 0, "what came has its place, behind the others"
    wheel.cancel(at, cancelled)
    assert wheel.advance(at, 10_000) == [one for one in range(3_001) if one != cancelled]

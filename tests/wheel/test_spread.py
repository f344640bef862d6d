"""The spread: messages placed in a window lie evenly, beside what is there, and a key chooses the same place again."""

import random
from collections import Counter

import pytest

from support.effort import full, tries
from tarry.wheel.spread import Spread

NOW = 1_700_000_000_000
SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000


def place(spread: Spread, since: int, until: int, many: int, seed: int = 1) -> Counter[int]:
    """By second."""
    chance = random.Random(seed)
    found = Counter[int]()
    for _ in range(many):
        at = spread.place(since, until, chance.getrandbits(64))
        assert since <= at < until
        found[at // SECOND] += 1
    return found


MANY = tries(4_000, 20_000)


@full
@pytest.mark.parametrize("width", [SECOND, 59 * SECOND, 61 * SECOND, 37 * MINUTE, HOUR, 3 * HOUR + 5])
@pytest.mark.parametrize("offset", [0, 1, 999, 30 * SECOND, 59 * MINUTE + 1])
def test_many_lie_evenly(offset: int, width: int) -> None:
    since = NOW + offset
    until = since + width
    found = place(Spread(), since, until, MANY)
    seconds = (until - 1) // SECOND - since // SECOND + 1
    assert len(found) == min(seconds, MANY)
    assert max(found.values()) - min(found.values()) <= 1


@pytest.mark.slow
@full
def test_what_is_there_is_gone_round() -> None:
    rate = tries(10, 100)  # a second
    spread = Spread()
    hour = NOW // HOUR
    spread.learn(hour, [60 * rate if minute < 30 else 0 for minute in range(60)], NOW, lambda _: None)
    found = place(spread, hour * HOUR, (hour + 1) * HOUR, 30 * 60 * rate - 1)
    assert all(second // 60 % 60 >= 30 for second in found)
    more = place(spread, hour * HOUR, (hour + 1) * HOUR, 60 * 60 * rate // 10 + 1)
    assert sum(many for second, many in more.items() if second // 60 % 60 < 30) == pytest.approx(180 * rate, abs=2)


@pytest.mark.slow
def test_a_second_that_is_known_to_be_full_is_gone_round() -> None:
    spread = Spread()
    hour = NOW // HOUR
    seconds = [0] * 60
    seconds[7] = 600
    spread.learn(hour, [600, *[0] * 59], NOW, lambda _: seconds)
    begin = hour * HOUR
    assert spread.load(begin + 7 * SECOND) == 600
    found = place(spread, begin, begin + MINUTE, 59 * 600)
    assert set(found.values()) == {600}
    assert begin // SECOND + 7 not in found


@pytest.mark.slow
def test_a_key_comes_to_its_place_again() -> None:
    chance = random.Random(3)
    for _ in range(200):
        since = NOW + chance.randrange(HOUR)
        until = since + chance.randrange(1, 5 * HOUR)
        number = chance.getrandbits(64)
        spreads = [Spread(), Spread()]
        for spread in spreads:
            place(spread, NOW, NOW + 2 * HOUR, 50)
        assert spreads[0].place(since, until, number) == spreads[1].place(since, until, number)


def test_different_keys_lie_apart() -> None:
    places = {Spread().place(NOW, NOW + 8 * HOUR, random.Random(i).getrandbits(64)) for i in range(1000)}
    assert len(places) > 990


def test_what_was_placed_here_and_is_counted_since_is_counted_once() -> None:
    spread = Spread()
    begin = NOW // HOUR * HOUR
    place(spread, begin, begin + MINUTE, 600)
    spread.learn(begin // HOUR, [600, *[0] * 59], NOW, lambda _: None)
    assert {spread.load(begin + i * SECOND) for i in range(60)} == {10}
    spread.learn(begin // HOUR, [1200, *[0] * 59], NOW, lambda _: None)
    assert {spread.load(begin + i * SECOND) for i in range(60)} == {20}


def test_what_is_known_and_for_how_long() -> None:
    spread = Spread()
    hour = NOW // HOUR
    since, until = hour * HOUR + 5, (hour + 2) * HOUR
    assert spread.unknown(since, until, NOW) == [hour, hour + 1]
    spread.learn(hour, [0] * 60, NOW, lambda _: None)
    assert spread.unknown(since, until, NOW) == [hour + 1]
    assert spread.unknown(since, until, NOW + 1) == [hour, hour + 1]
    spread.learn(hour, [60] * 60, NOW, lambda _: None)
    spread.forget(NOW + HOUR)
    assert spread.load(NOW) == 0

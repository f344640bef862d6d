"""Release rates: a bound in every stretch of time, shared by nodes, and given back what was not used."""

import random
from itertools import pairwise
from typing import cast

from tarry.service.clock import Clock
from tarry.service.engine.cluster.ownership import Ownership
from tarry.service.engine.state.releases import Releases


class Time:
    def __init__(self) -> None:
        self.ms = 1_000_000
        self.rates = {1: 10, 2: 1000}
        self.part = 1.0
        self.releases = Releases(self.rates, cast(Ownership, self), cast(Clock, self))

    def monotonic(self) -> int:
        return self.ms


def test_in_no_stretch_of_time_more_than_the_rate_and_a_burst() -> None:
    time, dice = Time(), random.Random(7)
    went: dict[int, list[int]] = {1: [], 2: []}
    for _ in range(3_000):
        time.ms += dice.randrange(0, 200)
        for topic, times in went.items():
            many = min(time.releases.room(topic), dice.randrange(0, 2_000))
            if many > 0:
                time.releases.spend(topic, many)
                times += [time.ms] * many
    for topic, times in went.items():
        rate = time.rates[topic]
        for first in range(0, len(times), 37):
            for last in range(first, min(len(times), first + 3_000), 101):
                seconds = (times[last] - times[first]) / 1000
                assert last - first + 1 <= rate * (seconds + 0.5) + 1
        assert len(times) > 0.9 * rate * (times[-1] - times[0]) / 1000, "and what may go goes"


def test_a_slow_rate_lets_one_go_at_a_time() -> None:
    time = Time()
    time.rates.clear()
    time.rates |= {1: 1}
    gone = []
    for _ in range(100):
        time.ms += 50
        if time.releases.room(1) > 0:
            time.releases.spend(1, 1)
            gone.append(time.ms)
    assert [b - a for a, b in pairwise(gone)] == [1000] * (len(gone) - 1)
    assert len(gone) == 5


def test_shares_and_what_is_given_back() -> None:
    time = Time()
    time.part = 0.25
    time.releases.spend(2, time.releases.room(2))
    time.ms += 100
    assert time.releases.room(2) == 25
    time.releases.spend(2, 25)
    time.releases.spend(2, -5)
    assert time.releases.room(2) == 5
    assert time.releases.room(3) > 1_000_000
    assert (time.releases.bounds(2), time.releases.bounds(3)) == (True, False)
    time.rates.clear()
    time.rates |= {}
    assert not time.releases
    assert time.releases.room(2) > 1_000_000
    time.releases.spend(2, 5)

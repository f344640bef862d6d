"""The demo's day, and the plan made of it."""

from collections import Counter
from datetime import UTC, datetime, timedelta

from tarry.service.demo.flights import load_day
from tarry.service.demo.replay import Squeeze, planned_failures


def test_the_day_is_the_one_that_its_readme_tells_of() -> None:
    day = load_day()
    assert len(day) == len({flight.key for flight in day}) == 1014
    assert sum(flight.cancelled for flight in day) == 35
    assert sum(flight.late is not None for flight in day) == 493
    assert sum(flight.tailnum is None for flight in day) == 9
    assert day == sorted(day, key=lambda flight: (flight.planned, flight.key))
    assert (day[0].planned, day[-1].planned) == (
        datetime(2013, 11, 27, 10, 0, tzinfo=UTC),  # 05:00 in New York
        datetime(2013, 11, 28, 4, 59, tzinfo=UTC),
    )
    assert max(flight.late for flight in day if flight.late) == timedelta(minutes=408)


def test_the_day_is_squeezed() -> None:
    day = load_day()
    squeeze = Squeeze.over(day, begins=1_000_000, length=30_000)
    assert squeeze.at(day[0].planned) == 1_000_000
    assert squeeze.at(day[-1].planned) == 1_030_000


def test_some_fail_and_a_handful_dies() -> None:
    fails = Counter(planned_failures(flight, 16) for flight in load_day() if not flight.cancelled)
    assert set(fails) == {0, 1, 2, 3, 17}
    assert 50 < fails[1] + fails[2] + fails[3] < 150
    assert 2 <= fails[17] <= 8

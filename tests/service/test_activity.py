"""What a server did each second: counted where it belongs, and forgotten after five minutes."""

import pytest

from support.hand_time import HandSeconds
from tarry.service.activity import BAND, BANDS, BOUNDS, SECONDS, Activity


@pytest.fixture
def clock() -> HandSeconds:
    return HandSeconds()


@pytest.fixture
def activity(clock: HandSeconds) -> Activity:
    return Activity(clock)


def test_whole_seconds_oldest_first(clock: HandSeconds, activity: Activity) -> None:
    activity.count("published", 2)
    clock.now += 0.9
    activity.count("published", 1)
    assert activity.rates()["published"] == [0] * SECONDS, "the second under way is not told"
    clock.now += 2.1
    activity.count("acked", 5)
    clock.now += 1
    rates = activity.rates()
    assert rates["published"][-4:] == [3, 0, 0, 0]
    assert rates["acked"][-4:] == [0, 0, 0, 5]
    assert {len(column) for column in rates.values()} == {SECONDS}


def test_what_is_old_goes(clock: HandSeconds, activity: Activity) -> None:
    activity.count("dead", 1)
    clock.now += SECONDS
    assert activity.rates()["dead"][0] == 1
    clock.now += 1
    assert sum(activity.rates()["dead"]) == 0


def test_it_keeps_no_more_than_it_shows(clock: HandSeconds, activity: Activity) -> None:
    for _ in range(3 * SECONDS):
        clock.now += 1
        activity.count("published", 1)
        activity.late([0.001])
    assert len(activity._counts) == SECONDS + 1
    assert len(activity._late) == BANDS + 1
    assert sum(activity.rates()["published"]) == SECONDS


def test_lateness_by_its_bound(clock: HandSeconds, activity: Activity) -> None:
    activity.late([0.0, 0.001, 0.0011, 60.0, 60.1])
    clock.now += BAND
    columns = activity.lateness()
    assert columns[-1] == [0] * (len(BOUNDS) + 1)
    before = columns[-2]
    assert (before[0], before[1], before[-2], before[-1]) == (2, 1, 1, 1)
    assert len(columns) == BANDS

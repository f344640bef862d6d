"""The demo's book-keeping finds every kind of wrong."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tarry.service.demo.flights import Flight
from tarry.service.demo.ledger import Entry, Lateness, Ledger

RUNGS = (100, 200)
DUE = 1_000_000


def entry(id_: str, fails: int = 0, **more: Any) -> Entry:
    flight = Flight(f"F{id_}", None, datetime(2013, 11, 27, tzinfo=UTC), None, cancelled=False, body={})
    return Entry(flight, id_, DUE, fails, **more)


@pytest.fixture
def good() -> Entry:
    return entry("1")


@pytest.fixture
def failing() -> Entry:
    return entry("2", fails=1)


@pytest.fixture
def ledger(good: Entry, failing: Entry) -> Ledger:
    """Of a day on which all went well."""
    ledger = Ledger([good, failing, entry("3", fails=3), entry("4", fate="cancelled")], RUNGS)
    assert not ledger.see("1", 1, DUE + 5, DUE)
    assert ledger.see("2", 1, DUE + 6, DUE)
    assert not ledger.see("2", 2, DUE + 106, DUE)
    for attempt, at in ((1, 7), (2, 107), (3, 307)):
        assert ledger.see("3", attempt, DUE + at, DUE)
    ledger.bury(["3"])
    return ledger


def test_a_good_day(ledger: Ledger) -> None:
    assert ledger.faults() == []
    assert ledger.open() == 0
    assert ledger.counts() == {
        "published": 4,
        "rescheduled": 0,
        "delivered": 2,
        "cancelled": 1,
        "retried": 3,
        "dead": 1,
        "too_late": 0,
        "redelivered": 0,
        "early": 0,
        "lost": 0,
    }


def test_early(ledger: Ledger, good: Entry) -> None:
    good.due = DUE + 10
    good.sightings[0] = good.sightings[0].__class__(1, DUE + 5, DUE + 10, failed=False)
    assert ledger.faults() == ["F1: handed out 5 ms early"]
    assert ledger.counts()["early"] == 1


def test_early_on_a_rung(ledger: Ledger, failing: Entry) -> None:
    failing.sightings.pop()
    ledger.see("2", 2, DUE + 105, DUE)
    assert ledger.faults() == ["F2: attempt 2 came 1 ms early"]


def test_lost(ledger: Ledger, good: Entry) -> None:
    good.sightings.clear()
    assert ledger.open() == 1
    assert ledger.counts()["lost"] == 1
    assert ledger.faults() == ["F1: lost: seen 0 times, and its end was not"]


def test_cancelled_and_delivered_all_the_same(ledger: Ledger) -> None:
    ledger.see("4", 1, DUE + 5, DUE)
    assert ledger.faults() == ["F4: cancelled, and handed out 1 times"]


def test_the_same_attempt_twice(ledger: Ledger) -> None:
    ledger.see("1", 1, DUE + 9, DUE)
    assert ledger.faults() == ["F1: an attempt was handed out twice: [1, 1]"]
    assert ledger.faults(doubtful_until=DUE + 9) == [], "its server may have died before it heard of the first"


def test_again_after_a_lost_lease_is_no_fault(ledger: Ledger) -> None:
    ledger.see("1", 2, DUE + 6000, DUE)
    assert ledger.faults() == []
    assert ledger.counts()["redelivered"] == 1


def test_a_grave_too_many_and_one_too_few(ledger: Ledger) -> None:
    ledger.bury(["1", "9"])
    assert ledger.faults() == [
        "F1: 1 times among the dead letters, not 0",
        "F3: 0 times among the dead letters, not 1",
        "a dead letter that nobody published: 9",
    ]


def test_a_stranger(ledger: Ledger) -> None:
    ledger.see("9", 1, DUE, DUE)
    assert ledger.faults() == ["a message that nobody published was handed out: 9"]


def test_another_time_than_promised(ledger: Ledger, good: Entry) -> None:
    good.due = DUE - 50
    assert ledger.faults() == [f"F1: handed out as due at {DUE}, not {DUE - 50}"]


def test_a_complaint(ledger: Ledger) -> None:
    ledger.complain("F1: too late 3 ms before it was due")
    assert ledger.faults() == ["F1: too late 3 ms before it was due"]


def test_lateness_is_of_first_hand_outs_and_by_nearest_rank(ledger: Ledger) -> None:
    assert ledger.lateness((0, 1)) == (Lateness(3, 6, 7, 7), Lateness(0, 0, 0, 0))
    assert ledger.lateness((DUE, DUE))[1].count == 3
    assert Lateness.of(range(1, 101)) == Lateness(100, 50, 99, 100)

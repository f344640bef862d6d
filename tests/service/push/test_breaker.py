"""The breaker: when it opens, when it probes, when it closes."""

import pytest

from tarry.service.push.breaker import Breaker


def opened(chance: float = 0.0) -> Breaker:
    breaker = Breaker(lambda: chance)
    for message in range(5):
        assert not breaker.open
        breaker.failed(message, 100.0)
    assert breaker.open
    return breaker


def test_it_opens_after_five_messages_in_a_row() -> None:
    breaker = opened()
    assert (breaker.opened_at, breaker.probe_at, breaker.left(100.0), breaker.left(100.4)) == (100.0, 101.0, 1000, 600)


def test_a_message_that_always_fails_does_not_open_it() -> None:
    breaker = Breaker(lambda: 0)
    for at in range(100):
        breaker.failed(7, at)
    assert not breaker.open


@pytest.mark.parametrize("between", ["sent", "refused"])
def test_they_are_in_a_row(between: str) -> None:
    breaker = Breaker(lambda: 0)
    for message in range(20):
        breaker.failed(message, 0)
        if message % 4 == 3:
            breaker.sent() if between == "sent" else breaker.refused(0)
    assert not breaker.open


def test_rests_are_doubled_up_to_a_minute() -> None:
    breaker, rests, now = opened(), [], 100.0
    for _ in range(8):
        rests.append(breaker.probe_at - now)
        now = breaker.probe_at
        breaker.failed(1, now)
    assert rests == [1, 2, 4, 8, 16, 32, 60, 60]
    assert breaker.opened_at == 100.0


def test_who_was_under_way_already_is_no_probe() -> None:
    breaker = opened()
    breaker.failed(9, 100.5)
    breaker.refused(100.5)
    assert breaker.probe_at == 101.0
    breaker.refused(101.0)
    assert (breaker.open, breaker.probe_at) == (True, 103.0)


def test_a_rest_is_longer_by_a_quarter_at_most() -> None:
    assert opened(1.0).probe_at == 101.25


def test_what_was_sent_closes_it() -> None:
    breaker = opened()
    assert breaker.sent()
    assert not breaker.open
    assert not breaker.sent()
    assert breaker.left(0) == 0
    for message in range(5):
        breaker.failed(message, 200.0)
    assert breaker.probe_at == 201.0, "it begins anew"

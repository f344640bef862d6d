"""Rates count the last minute, forget what is older, and cost nothing for a topic that rests."""

import pytest

from support.hand_time import HandSeconds
from tarry.service.engine.state.rates import Rate, Rates


@pytest.fixture
def seconds() -> HandSeconds:
    return HandSeconds()


@pytest.fixture
def rates(seconds: HandSeconds) -> Rates:
    return Rates(seconds)


def test_a_steady_stream(seconds: HandSeconds, rates: Rates) -> None:
    for _ in range(300):
        rates.count(1, published=10)
        rates.count(1, delivered=4)
        seconds.now += 1
    assert rates.of(1).published == pytest.approx(10, rel=0.02)
    assert rates.of(1).delivered == pytest.approx(4, rel=0.02)
    assert rates.of(2) == Rate()


def test_of_one_moment(seconds: HandSeconds, rates: Rates) -> None:
    """What is older than a minute is forgotten."""
    rates.count(1, published=50)
    assert rates.of(1).published == 50
    seconds.now += 10
    assert rates.of(1).published == 5
    seconds.now += 44
    assert rates.of(1).published > 0
    seconds.now += 10
    assert rates.of(1) == Rate()

"""Rates count the last minute, forget what is older, and cost nothing for a topic that rests."""

import pytest

from support.hand_time import HandSeconds
from tarry.service.engine.state.rates import Rate, Rates


def test_a_steady_stream() -> None:
    seconds = HandSeconds()
    rates = Rates(seconds)
    for _ in range(300):
        rates.count(1, published=10)
        rates.count(1, delivered=4)
        seconds.now += 1
    assert rates.of(1).published == pytest.approx(10, rel=0.02)
    assert rates.of(1).delivered == pytest.approx(4, rel=0.02)
    assert rates.of(2) == Rate()


def test_just_begun() -> None:
    seconds = HandSeconds()
    rates = Rates(seconds)
    rates.count(1, published=50)
    assert rates.of(1).published == 50
    seconds.now += 10
    assert rates.of(1).published == 5


def test_what_is_older_than_a_minute_is_forgotten() -> None:
    seconds = HandSeconds()
    rates = Rates(seconds)
    rates.count(1, published=50)
    seconds.now += 54
    assert rates.of(1).published > 0
    seconds.now += 10
    assert rates.of(1) == Rate()

"""A client that was silent for longer than it is taken to live: what it holds may be another's by then."""

from typing import Any

import pytest

from support.claimed import TERMS, a_claim, a_message
from tarry.client.consumption import Consumption
from tarry.client.records import Claim
from tarry.client.stock import Stock
from tarry.client.transport import ThreadTransport


def claim_of(name: str, *ids: str, **rest: Any) -> Claim:
    return a_claim(name, *map(a_message, ids), **rest)


@pytest.fixture
def stock() -> Stock:
    """Told at 0 that it lives for 15 s, with one claim of three messages."""
    stock = Stock(TERMS)
    stock.note_alive(0.0, 15.0)
    stock.add(claim_of("one", "1", "2", "3"), 1.0, 0.5)
    return stock


def taken(stock: Stock, now: float) -> list[str]:
    ids: list[str] = []
    while (pair := stock.take(now)) is not None:
        ids.append(pair[1].id)
    return ids


def test_the_server_says_how_often(stock: Stock) -> None:
    assert stock.sign_every == 5.0
    stock.note_alive(1.0, 3.0)
    assert stock.sign_every == 1.0


def test_without_a_sign_nothing_is_held_back() -> None:
    stock = Stock(TERMS)
    stock.add(claim_of("one", "1"), 1.0)
    assert taken(stock, 50.0) == ["1"]


def test_signs_and_claims_keep_it_alive(stock: Stock) -> None:
    stock.note_alive(14.0)
    assert stock.take(28.9) is not None
    assert stock.take(29.0) is None
    stock.note_alive(20.0)
    assert stock.take(29.0) is not None, "an answer that was late in coming"


def test_after_a_silence_a_claim_is_asked_for_before_its_messages_are_handed_out(stock: Stock) -> None:
    assert stock.take(14.9) is not None
    assert stock.take(15.0) is None
    stock.note_alive(30.0, 15.0)
    assert stock.take(30.1) is None, "it may be another's"
    (hold,) = stock.holds.due_for_renewal(30.1)
    stock.holds.renewed(hold, 30.2)
    assert taken(stock, 30.3) == ["2", "3"]


def test_what_was_given_away_is_not_handed_out(stock: Stock) -> None:
    stock.note_alive(30.0, 15.0)
    (hold,) = stock.holds.due_for_renewal(30.1)
    stock.lose(hold)
    assert taken(stock, 30.2) == []


def test_a_claim_asked_for_before_the_silence_is_in_doubt_too(stock: Stock) -> None:
    """Its answer lay in the socket while the process was stopped."""
    stock.note_alive(30.0, 15.0)
    stock.add(claim_of("two", "4"), 30.1, 14.0)
    stock.add(claim_of("three", "5"), 30.2, 30.1)
    assert taken(stock, 30.3) == ["5"]


def test_a_handler_may_know_that_its_lease_is_over_though_no_server_answers() -> None:
    clock = [0.0]
    transport = ThreadTransport("http://127.0.0.1:1", timeout=1, deadline=0)
    consuming = Consumption(transport, TERMS, clock=lambda: clock[0])
    consuming.stock.add(claim_of("one", "1"), 0.0)
    message = consuming.next()
    assert message is not None
    clock[0] = 59.9
    assert not message.lost
    clock[0] = 60.0
    assert message.lost


def test_a_broadcast_answer_is_nobody_elses(stock: Stock) -> None:
    stock = Stock(TERMS)
    stock.note_alive(0.0, 15.0)
    stock.add(claim_of("", "1", next="0-2"), 1.0, 0.5)
    stock.note_alive(30.0, 15.0)
    assert taken(stock, 30.1) == ["1"]

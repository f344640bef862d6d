"""The history of a message's attempts, over redrives."""

import json

from hypothesis import given
from hypothesis import strategies as st

from tarry.store.history import (
    UNREADABLE,
    Attempt,
    attempts_of,
    last_reason,
    numbered,
    redriven,
    since_redrive,
    written,
)


def died(*reasons: str) -> bytes:
    return written([Attempt(at, "c", reason) for at, reason in enumerate(reasons, 1)])


@given(rounds=st.lists(st.integers(1, 40), min_size=1, max_size=8))
def test_each_round_begins_with_the_first_attempt(rounds: list[int]) -> None:
    history = b"[]"
    for which, attempts in enumerate(rounds):
        history = redriven(history)
        told = [Attempt(0, "c", f"{which}.{number}") for number in range(1, attempts + 1)]
        history = written([*attempts_of(history), *told])
    last = len(rounds) - 1
    assert [one.reason for one in since_redrive(history)] == [f"{last}.{number}" for number in range(1, rounds[-1] + 1)]
    assert last_reason(history) == f"{last}.{rounds[-1]}"
    kept = [(which, number) for which, attempts in enumerate(rounds) for number in range(1, attempts + 1)]
    found = [(number, one.reason) for number, one in numbered(history)]
    assert found == [(number, f"{which}.{number}") for which, number in kept[-len(found) :]]
    assert len(found) >= min(len(kept), 60)


def test_however_often_it_is_redriven_it_does_not_grow_for_ever() -> None:
    history = died("first")
    for again in range(500):
        history = written([*attempts_of(redriven(history)), Attempt(again, "c", f"again {again}")])
    assert last_reason(history) == "again 499"
    assert len(attempts_of(history)) == 100


def test_one_that_was_never_redriven_is_written_as_ever() -> None:
    assert json.loads(died("no")) == [{"at": 1, "client": "c", "reason": "no"}]


def test_what_cannot_be_read_stops_no_redrive() -> None:
    again = redriven(b"\xff{")
    assert [one.reason for one in attempts_of(again)] == [UNREADABLE]
    assert last_reason(again) is None

from __future__ import annotations

from typing import Any

import pytest

from tarry.wheel.ladder import DEFAULT_RUNGS, MAX_REST_MS, Ladder


def test_the_default_ladder_has_the_sixteen_rungs_of_the_promise() -> None:
    seconds = [10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200]
    assert [rung / 1_000 for rung in DEFAULT_RUNGS] == seconds
    assert Ladder().rungs == DEFAULT_RUNGS


def test_attempts_climb_the_rungs_and_then_there_is_none() -> None:
    ladder = Ladder((5, 0, 7))
    assert [ladder.rung(attempt) for attempt in (1, 2, 3, 4, 1_000)] == [5, 0, 7, None, None]
    assert Ladder().rung(16) == 7_200_000
    assert Ladder().rung(17) is None


def test_an_empty_ladder_sends_the_first_failure_to_the_dead_letters() -> None:
    assert Ladder(()).rung(1) is None


@pytest.mark.parametrize("attempt", [0, -1])
def test_attempts_count_from_one(attempt: int) -> None:
    with pytest.raises(ValueError, match="count from 1"):
        Ladder().rung(attempt)


@pytest.mark.parametrize("rungs", [(-1,), (1, MAX_REST_MS + 1), (1,) * 65])
def test_rungs_out_of_bounds_are_refused(rungs: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="rung"):
        Ladder(rungs)


@pytest.mark.parametrize("rung", [1.0, True, "10", None])
def test_a_rung_is_a_whole_number(rung: Any) -> None:
    with pytest.raises(TypeError, match="rung 2"):
        Ladder((1, rung))


def test_the_bounds_themselves_are_allowed_and_a_list_becomes_a_tuple() -> None:
    assert Ladder([0, MAX_REST_MS]).rungs == (0, MAX_REST_MS)
    assert len(Ladder((1,) * 64).rungs) == 64
    assert hash(Ladder([1])) == hash(Ladder((1,)))


def test_jitter_makes_longer_and_never_shorter() -> None:
    assert Ladder((100,), jitter=0.25).longest(100) == 125
    assert Ladder((100,)).longest(100) == 100
    for wrong in (-0.1, 1.1):
        with pytest.raises(ValueError, match="between 0 and 1"):
            Ladder((100,), jitter=wrong)

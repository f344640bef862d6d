"""When fire times have their turn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarry.store.schedules.firing import turn_at

SECOND = 1000


@given(due=st.integers(0, 1 << 44))
def test_never_before_its_time_and_within_a_fifteenth_of_a_second(due: int) -> None:
    turn = turn_at(due)
    assert due <= turn <= due + 66
    assert turn_at(turn) == turn, "what is due at a turn need not wait"


@pytest.mark.slow
@given(due=st.integers(0, 1 << 34).map(lambda second: second * SECOND))
def test_a_full_second_need_not_wait(due: int) -> None:
    assert turn_at(due) == due


def test_there_are_fifteen_in_a_second() -> None:
    turns = {turn_at(due) for due in range(7 * SECOND + 1, 8 * SECOND + 1)}
    assert (len(turns), max(turns)) == (15, 8 * SECOND)

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarry.wheel.horizon import Horizon
from tarry.wheel.ladder import DEFAULT_RUNGS

NOW = 1_763_694_000_000


def test_the_first_page_is_the_whole_horizon_and_the_next_comes_a_step_later() -> None:
    horizon = Horizon(NOW, length=1_000, step=100)
    assert not horizon.covers(NOW)
    assert horizon.covers(NOW - 1)
    assert horizon.page(NOW) == (NOW, NOW + 1_000)
    assert horizon.covers(NOW + 999)
    assert not horizon.covers(NOW + 1_000)
    assert horizon.page(NOW) is None
    assert horizon.next_page_at() == NOW + 100
    assert horizon.page(NOW + 99) is None
    assert horizon.page(NOW + 100) == (NOW + 1_000, NOW + 1_100)


def test_after_a_pause_the_page_is_as_wide_as_the_pause() -> None:
    horizon = Horizon(NOW, length=1_000, step=100)
    horizon.page(NOW)
    assert horizon.page(NOW + 50_000) == (NOW + 1_000, NOW + 51_000)


def test_a_clock_that_goes_back_takes_nothing_back() -> None:
    horizon = Horizon(NOW, length=1_000, step=100)
    horizon.page(NOW)
    assert horizon.page(NOW - 10_000) is None
    assert horizon.loaded_until == NOW + 1_000


def test_the_default_horizon_holds_the_whole_ladder() -> None:
    horizon = Horizon(NOW)
    horizon.page(NOW)
    just_before_the_next_page = horizon.next_page_at() - 1
    assert horizon.covers(just_before_the_next_page + max(DEFAULT_RUNGS))


@pytest.mark.parametrize(("length", "step"), [(0, 0), (100, 0), (100, 101), (-1, -1)])
def test_a_step_lies_within_the_horizon(length: int, step: int) -> None:
    with pytest.raises(ValueError, match="step"):
        Horizon(NOW, length, step)


@given(
    times=st.lists(st.integers(-10_000, 100_000)),
    length=st.integers(1, 5_000),
    share=st.floats(0, 1),
)
def test_pages_follow_each_other_without_a_gap_or_an_overlap(times: list[int], length: int, share: float) -> None:
    horizon = Horizon(0, length, step=max(1, int(length * share)))
    end = 0
    for now in times:
        due_for_a_page = now >= horizon.next_page_at()
        page = horizon.page(now)
        assert (page is not None) == due_for_a_page
        if page is not None:
            assert page == (end, now + length)
            assert page[0] < page[1]
            end = page[1]
        assert horizon.loaded_until == end
        assert horizon.covers(end - 1)
        assert not horizon.covers(end)


@given(due=st.integers(0, 3_000), committed_before_the_page=st.booleans())
def test_handover_a_row_is_in_the_page_or_seen_by_its_publisher(due: int, committed_before_the_page: bool) -> None:
    """The two orders of one commit and one page: the row is found by one of them at the least."""
    horizon = Horizon(0, length=1_000, step=1_000)
    horizon.page(0)
    rows: list[int] = []
    added = False
    if committed_before_the_page:
        rows.append(due)
        added = horizon.covers(due)
    page = horizon.page(1_000)
    assert page is not None
    read = [row for row in rows if page[0] <= row < page[1]]
    if not committed_before_the_page:
        added = horizon.covers(due)
    assert (due in read or added) == (due < horizon.loaded_until)

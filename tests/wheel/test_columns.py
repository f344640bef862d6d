"""Columns are what pairs are, whatever is asked of them."""

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarry.wheel.columns import Columns

pairs = st.lists(st.tuples(st.integers(0, 5_000), st.integers(-(2**63), 2**63 - 1)), max_size=40).map(sorted)


@pytest.mark.slow
@given(pairs, pairs)
def test_they_are_the_pairs(some: list[tuple[int, int]], more: list[tuple[int, int]]) -> None:
    columns = Columns.of(some)
    assert (list(columns), len(columns), bool(columns)) == (some, len(some), bool(some))
    columns.extend(Columns.of(more))
    assert list(columns) == some + more


@given(pairs, st.data())
def test_those_are_chosen_that_are_wanted(some: list[tuple[int, int]], data: st.DataObject) -> None:
    wanted = data.draw(st.lists(st.booleans(), min_size=len(some), max_size=len(some)))
    chosen = Columns.of(some).chosen(wanted)
    assert list(chosen) == [pair for pair, one in zip(some, wanted, strict=True) if one]


@given(pairs, st.sampled_from([1, 7, 1_000, 10_000]))
def test_they_are_cut_where_a_stretch_of_time_ends(some: list[tuple[int, int]], milliseconds: int) -> None:
    cut = [(number, list(piece)) for number, piece in Columns.of(some).by(milliseconds)]
    assert cut == [(number, list(them)) for number, them in groupby(some, lambda pair: pair[0] // milliseconds)]

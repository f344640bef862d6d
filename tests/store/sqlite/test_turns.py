"""Turns: light work goes first, and heavy work has half of the time all the same."""

from hypothesis import given
from hypothesis import strategies as st

from tarry.store.sqlite.turns import Turns

took = st.floats(0.0001, 0.05)


def test_light_work_goes_first_where_it_takes_less_than_heavy_work() -> None:
    turns = Turns()
    for _ in range(1_000):
        assert turns.light_first
        turns.light(0.003)
        turns.heavy(0.004)


@given(st.lists(st.tuples(took, took), min_size=1, max_size=300))
def test_neither_kind_is_starved_while_both_wait(works: list[tuple[float, float]]) -> None:
    """Both always have more to do; heavy work ends early where it may."""
    turns, light, heavy, row = Turns(), 0.0, 0.0, 0
    for short, long in works:
        if turns.light_first:
            turns.light(short)
            light += short
            row = 0
            turns.heavy(min(short, long) / 4)
            heavy += min(short, long) / 4
        else:
            turns.heavy(long)
            heavy += long
            row += 1
        assert light - heavy <= 0.02 + 0.05 + 1e-9
        assert row <= 0.07 / 0.0001

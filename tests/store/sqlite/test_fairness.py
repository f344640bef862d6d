"""Fairness: light work goes first, and heavy work has half of the time all the same."""

from hypothesis import given
from hypothesis import strategies as st

from tarry.store.sqlite.fairness import Fairness

took = st.floats(0.0001, 0.05)


def test_light_work_goes_first_where_it_takes_less_than_heavy_work() -> None:
    fairness = Fairness()
    for _ in range(1_000):
        assert fairness.light_first
        fairness.light(0.003)
        fairness.heavy(0.004)


def test_light_work_that_took_very_long_is_not_made_up_for_in_full() -> None:
    fairness = Fairness()
    fairness.light(2.0)
    assert not fairness.light_first
    fairness.heavy(0.05)
    assert fairness.light_first


@given(st.lists(st.tuples(took, took), min_size=1, max_size=300))
def test_neither_kind_is_starved_while_both_wait(works: list[tuple[float, float]]) -> None:
    """Both always have more to do; heavy work ends early where it may."""
    fairness, heavy, light, wait = Fairness(), 0.0, 0.0, 0.0
    for short, long in works:
        if fairness.light_first:
            fairness.light(short)
            light += short
            fairness.heavy(min(short, long) / 4)
            heavy += min(short, long) / 4
            wait = 0.0
        else:
            fairness.heavy(long)
            heavy += long
            wait += long
        assert light - heavy <= 0.02 + 0.05 + 0.05
        assert wait <= 0.04 + 0.05, "light work waits for what it is ahead by, and for the last of heavy work"

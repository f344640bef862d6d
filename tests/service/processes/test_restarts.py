"""When processes begin again, by a clock of the test's own."""

from hypothesis import given
from hypothesis import strategies as st

from tarry.service.processes.restarts import Restarts

KILLED = -9


def serving(processes: int) -> Restarts:
    """All have been started, at 0, and serve."""
    restarts = Restarts(processes)
    restarts.begins(1, 0)
    restarts.served()
    for number in restarts.due(0):
        restarts.begins(number, 0)
    return restarts


def test_the_first_is_alone_until_it_serves() -> None:
    restarts = Restarts(3)
    assert restarts.due(0) == [1]
    restarts.begins(1, 0)
    assert restarts.due(1000) == []
    assert restarts.wait(1000) is None
    restarts.served()
    assert restarts.due(1000) == [2, 3]
    assert restarts.wait(1000) == 0


def test_what_is_wrong_with_all_ends_all_with_its_code() -> None:
    restarts = Restarts(3)
    restarts.begins(1, 0)
    assert restarts.ended(1, 3, 1) is None
    assert restarts.over
    assert restarts.code == 3
    assert restarts.due(100) == []


def test_one_that_is_killed_before_it_serves_is_started_again() -> None:
    restarts = Restarts(2)
    restarts.begins(1, 0)
    assert restarts.ended(1, KILLED, 1) == 0
    assert restarts.due(1) == [1]
    assert not restarts.over


def test_short_lives_have_longer_and_longer_pauses_and_a_long_one_none() -> None:
    restarts, now, pauses = serving(2), 0.0, list[float]()
    for _ in range(9):
        pause = restarts.ended(2, 1, now)
        assert pause is not None
        pauses.append(pause)
        assert restarts.due(now + pause - 0.001) == []
        assert restarts.wait(now) == pause
        now += pause
        assert restarts.due(now) == [2]
        restarts.begins(2, now)
    assert pauses == [0, 0.5, 1, 2, 5, 10, 30, 30, 30]
    assert restarts.ended(2, 1, now + 60) == 0
    assert restarts.ended(1, KILLED, now + 60) == 0  # each by itself
    assert not restarts.over
    assert restarts.code == 0


def test_who_stops_starts_nobody_and_is_over_when_all_have_ended() -> None:
    restarts = serving(2)
    assert restarts.ended(1, KILLED, 5) == 0
    restarts.stop()
    assert restarts.due(10) == []
    assert restarts.wait(10) is None
    assert not restarts.over
    assert restarts.ended(2, 0, 10) is None
    assert restarts.over
    assert restarts.code == 0


def test_the_code_tells_of_one_that_did_not_end_well() -> None:
    restarts = serving(3)
    restarts.stop()
    for number, code in ((1, 0), (2, KILLED), (3, 1)):
        restarts.ended(number, code, 1)
    assert restarts.code == 137


def test_the_code_after_a_second_signal_is_that_of_the_signal() -> None:
    restarts = serving(2)
    restarts.stop()
    restarts.stop_at_once(15)
    restarts.ended(1, 143, 1)
    restarts.ended(2, KILLED, 1)
    assert (restarts.over, restarts.code) == (True, 143)


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from([KILLED, 0, 1]), st.floats(0, 100))))
def test_whoever_is_not_alive_will_be(ends: list[tuple[int, int, float]]) -> None:
    restarts, alive, now = serving(4), {1, 2, 3, 4}, 0.0
    for number, code, passed in ends:
        now += passed
        if number in alive:
            assert restarts.ended(number, code, now) is not None
            alive.remove(number)
        for due in restarts.due(now):
            assert due not in alive
            restarts.begins(due, now)
            alive.add(due)
        wait = restarts.wait(now)
        assert (wait is None) == (alive == {1, 2, 3, 4})
        assert wait is None or 0 < wait <= 30

"""Whose a connection is: nobody has many more than another, and nobody is waited for who does not take it."""

from hypothesis import given
from hypothesis import strategies as st

from tarry.service.processes.board import Board, Share


def shares(processes: int, *, begun: bool = True) -> list[Share]:
    board = Board(processes)
    for number in range(1, processes + 1) if begun else ():
        board.begin(number)
    return [Share(board, number) for number in range(1, processes + 1)]


def test_who_begins_waits_for_those_who_serve_and_serves_where_nobody_does() -> None:
    one, two = shares(2, begun=False)
    assert one.rest() == two.rest() == 0
    one.board.begin(1)
    assert two.rest() > 0
    assert all(two.rest() for _ in range(100))
    two.board.begin(2)
    assert two.rest() == 0


def test_the_next_is_for_who_has_fewer() -> None:
    one, two = shares(2)
    one.note(1)
    assert one.rest() > 0
    assert two.rest() == 0
    two.note(1)
    assert one.rest() == 0


def test_who_does_not_take_it_is_not_waited_for_long() -> None:
    one, _ = shares(2)
    one.note(1)
    rests = [one.rest() for _ in range(12)]
    assert [bool(rest) for rest in rests] == [True] * 5 + [False] + [True] * 5 + [False]
    assert sum(rests[:6]) <= 0.02


def test_the_dead_are_not_waited_for() -> None:
    one, _ = shares(2)
    one.note(1)
    assert one.rest() > 0
    one.board.end(2)
    assert one.rest() == 0


@given(st.integers(2, 6), st.lists(st.integers(0, 5), max_size=300))
def test_in_whatever_order_they_look_all_have_about_as_many(processes: int, looks: list[int]) -> None:
    among = shares(processes)
    has = dict.fromkeys(range(1, processes + 1), 0)
    for look in looks:
        # Somebody looks first; whoever rests leaves it to the next, and one of them takes it.
        turns = [among[(look + step) % processes] for step in range(processes)]
        taker = next(share for share in turns if share.rest() == 0)
        has[taker.number] += 1
        taker.note(has[taker.number])
    assert max(has.values()) <= min(has.values()) + 1 + min(has.values()) // 8

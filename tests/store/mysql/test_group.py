"""Whether what is written to a member becomes its group's."""

import pytest

from tarry.store.mysql.group import why_cut_off

ONLINE, AWAY, RECOVERING = "ONLINE", "UNREACHABLE", "RECOVERING"


@pytest.mark.parametrize(
    "others", [[], [ONLINE], [ONLINE, ONLINE], [ONLINE, AWAY], [RECOVERING, AWAY], [ONLINE, ONLINE, AWAY, AWAY]]
)
def test_a_member_with_a_majority(others: list[str]) -> None:
    assert why_cut_off([(1, b"ONLINE"), *((0, state) for state in others)]) is None


def test_a_server_without_a_group() -> None:
    assert why_cut_off([]) is None


@pytest.mark.parametrize("others", [[AWAY], [AWAY, AWAY], [ONLINE, AWAY, AWAY], [ONLINE, AWAY, AWAY, AWAY]])
def test_a_member_without_a_majority(others: list[str]) -> None:
    reached = 1 + others.count(ONLINE)
    why = why_cut_off([*((0, state) for state in others), (1, ONLINE)])
    assert why is not None
    assert f"of {len(others) + 1} members it reaches {reached}" in why


@pytest.mark.parametrize(
    ("state", "told"), [("OFFLINE", "START GROUP_REPLICATION"), ("ERROR", "START"), (RECOVERING, "when it is ONLINE")]
)
def test_a_member_that_is_not_in_it(state: str, told: str) -> None:
    why = str(why_cut_off([(1, state)]))
    assert f"it is {state} in its group" in why
    assert told in why


def test_a_member_whose_own_row_is_of_nobody() -> None:
    """As a plug-in that was never started has it: it has no id yet."""
    assert "it is OFFLINE" in str(why_cut_off([(0, "OFFLINE")]))

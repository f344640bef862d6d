"""Cases of which each goes to one store in `make test`, and to the other in `make long`: a kill takes ten seconds."""

from typing import Any

import pytest

KINDS = ("sqlite", "mysql")


def in_turn(*cases: tuple[Any, ...]) -> list[Any]:
    """For `parametrize`: a store's kind and what is in the case.

    One case is for SQLite, the next for MySQL; what is left of each is long.
    """
    return [
        pytest.param(kind, *case, marks=[pytest.mark.long] if (number + turn) % 2 else [])
        for number, case in enumerate(cases)
        for turn, kind in enumerate(KINDS)
    ]

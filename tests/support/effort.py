"""How much each test tries: a moderate amount in `make test`, everything in `make long`, and two cases of each test in
`make quick`."""

import os
from collections import defaultdict
from collections.abc import Iterable

import pytest

_FULL = bool(os.environ.get("TARRY_TEST_FULL"))
_QUICK = bool(os.environ.get("TARRY_TEST_QUICK"))
_NOT_QUICK = ("mysql", "mariadb", "asyncio", "process")
"""Words in the names of tests that need a server or a process, or that also run on trio."""

full = pytest.mark.full
"""Marks a test, or a module as `pytestmark`, whose effort depends on `tries`: `make long` runs it once more."""


def tries(some: int, whole: int) -> int:
    """`some` in `make test`, `whole` in `make long`."""
    return whole if _FULL else some


def take_quick(items: Iterable[pytest.Function]) -> None:
    """In `make quick` keeps only the first and the last quick case of each test; marks all others as long."""
    if not _QUICK:
        return
    by_test: dict[str, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if any(word in item.nodeid for word in _NOT_QUICK):
            item.add_marker(pytest.mark.long)
        else:
            by_test[item.nodeid.partition("[")[0]].append(item)
    for cases in by_test.values():
        for item in cases[1:-1]:
            item.add_marker(pytest.mark.long)

"""How much each test tries: a moderate amount in `make test`, everything in `make long`, and a case of each quick
test in `make quick`."""

import os
from collections.abc import Iterable

import pytest

_FULL = bool(os.environ.get("TARRY_TEST_FULL"))
_QUICK = bool(os.environ.get("TARRY_TEST_QUICK"))
_NOT_QUICK = ("mysql", "mariadb", "asyncio", "process")
"""Words in the names of tests that need a server or a process, or that also run on trio."""

full = pytest.mark.full
"""Marks a test, or a module as `pytestmark`, whose effort depends on `tries` or `examples`: `make long` runs it once
more."""


def tries(some: int, whole: int) -> int:
    """`some` in `make test`, `whole` in `make long`."""
    return whole if _FULL else some


def examples(some: int, whole: int) -> int:
    """As `tries`, of hypothesis; a fifth of `some` in `make quick`."""
    return max(1, some // 5) if _QUICK else tries(some, whole)


def take_quick(items: Iterable[pytest.Function]) -> None:
    """In `make quick` keeps the first quick case of each test, and another on Trio's loop; marks all others as long."""
    if not _QUICK:
        return
    tests: set[tuple[str, bool]] = set()
    for item in items:
        test = item.nodeid.partition("[")[0], "trio]" in item.nodeid
        if item.get_closest_marker("long"):
            continue
        if test in tests or item.get_closest_marker("slow") or any(word in item.nodeid for word in _NOT_QUICK):
            item.add_marker(pytest.mark.long)
        else:
            tests.add(test)

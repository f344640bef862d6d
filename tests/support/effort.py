"""How hard is tried: as hard as is worth waiting for in `make test`, with all there is in `make long`, and of each test
two cases in `make quick`."""

import os
from collections import defaultdict
from collections.abc import Iterable

import pytest

_FULL = bool(os.environ.get("TARRY_TEST_FULL"))
_QUICK = bool(os.environ.get("TARRY_TEST_QUICK"))
_NOT_QUICK = ("mysql", "mariadb", "asyncio", "process")
"""In the names of tests: they want a server or a process, or are run on trio as well."""

full = pytest.mark.full
"""Of a test, or of a module as `pytestmark`, whose figures are of `tries`: `make long` runs it once more."""


def tries(some: int, whole: int) -> int:
    """`some` in `make test`, `whole` in `make long`."""
    return whole if _FULL else some


def take_quick(items: Iterable[pytest.Function]) -> None:
    """In `make quick` the first and the last case of each test, of those that are quick; all others are long."""
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

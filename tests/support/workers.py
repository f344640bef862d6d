"""Distributes `make test` over several processes (pytest-xdist): each takes the next file and has its own databases."""

import os
from typing import Any

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

_TOGETHER = "tests/pipeline/"
"""Tests that one worker runs together, since starting Spark takes longer than most of them."""
_FIRST = (_TOGETHER, "tests/bench/test_bench_smoke")
"""The tests that take longest."""
_WAITING = ("tests/acceptance/", "tests/bench/", "tests/testing/")
"""Tests that mostly wait for other processes."""
_COMPUTING = frozenset(f"gw{number}" for number in range(os.cpu_count() or 1))
"""The workers that take the other tests first, so that the processors are busy while those wait."""


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """Gives a free worker the next file of its kind, in the order of collection; when none is left, one of the other
    kind."""

    def _split_scope(self, nodeid: str) -> str:
        return _TOGETHER if nodeid.startswith(_TOGETHER) else nodeid.partition("::")[0]

    def remove_node(self, node: Any) -> str | None:
        """Drops the finished files of a dead worker, so that they are not given to others, which would then wait for
        ever."""
        work = self.assigned_work[node]
        for scope in [scope for scope, tests in work.items() if all(tests.values())]:
            del work[scope]
        died_at: str | None = super().remove_node(node)
        return died_at

    def _assign_work_unit(self, node: Any) -> None:
        computes = node.gateway.id in _COMPUTING
        own = next((scope for scope in self.workqueue if scope.startswith(_WAITING) != computes), None)
        if own is not None:
            self.workqueue.move_to_end(own, last=False)
        super()._assign_work_unit(node)


def longest_first(items: list[Any]) -> None:
    """Puts the longest tests first, so that all workers end at about the same time."""
    items.sort(key=lambda item: not item.nodeid.startswith(_FIRST))


def named(server: str) -> str | None:
    """The DSN that the environment names for this worker. Some tests observe a whole server, so the second worker uses
    `..._BESIDE_1` if it is set, and so on."""
    number = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    beside = os.environ.get(f"{server}_BESIDE_{number}") if number != "0" else None
    return beside or os.environ.get(server)


def whole_characters(data: Any) -> Any:
    """The same data with lone surrogates escaped as a program would write them."""
    if isinstance(data, str):
        return data.encode("utf-8", "backslashreplace").decode()
    if isinstance(data, dict):
        return {key: whole_characters(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return type(data)(map(whole_characters, data))
    return data

"""`make test` runs in several processes (pytest-xdist): each takes the next file, and has databases of its own."""

import os
from typing import Any

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

_TOGETHER = "tests/pipeline/"
"""Run by one worker: to start Spark takes longer than most of these tests."""
_FIRST = (_TOGETHER, "tests/bench/test_bench_smoke")
"""Nothing takes as long."""
_WAITING = ("tests/acceptance/", "tests/bench/", "tests/testing/")
"""They wait for processes most of the time."""
_COMPUTING = ("gw0", "gw1")
"""The workers that take of the others first, so that the processors have work while these wait."""


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """A worker that is free takes the next file of its sort, in the order in which they were collected; and when none
    is left, of the other."""

    def _split_scope(self, nodeid: str) -> str:
        return _TOGETHER if nodeid.startswith(_TOGETHER) else nodeid.partition("::")[0]

    def remove_node(self, node: Any) -> str | None:
        """Of a worker that has died, what it had done is not to be given to others: they would wait for its end, and so
        would everybody."""
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
    """What takes longest begins first, so that all workers end at the same time."""
    items.sort(key=lambda item: not item.nodeid.startswith(_FIRST))


def named(server: str) -> str | None:
    """The DSN that the environment names for this worker: some tests look at what goes on in the whole of a server, so
    the second has `..._BESIDE_1` if that is there."""
    number = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    beside = os.environ.get(f"{server}_BESIDE_{number}") if number != "0" else None
    return beside or os.environ.get(server)


def whole_characters(data: Any) -> Any:
    """The same, in which half a character is written as a program would escape it."""
    if isinstance(data, str):
        return data.encode("utf-8", "backslashreplace").decode()
    if isinstance(data, dict):
        return {key: whole_characters(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return type(data)(map(whole_characters, data))
    return data

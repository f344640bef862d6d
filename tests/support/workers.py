"""`make test` runs in several processes (pytest-xdist): each takes the next file, and has databases of its own."""

import os
from typing import Any

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

_TOGETHER = "tests/pipeline/"
"""Run by one worker: to start Spark takes longer than most of these tests. And first, since nothing takes as long."""


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """A worker that is free takes the next file, in the order in which they were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return _TOGETHER if nodeid.startswith(_TOGETHER) else _file(nodeid)


def mixed(items: list[Any]) -> None:
    """Files that wait for processes most of the time are spread among those that compute, so that the processors always
    have work; what takes longest begins first."""
    files: dict[str, int] = {}
    for item in items:
        files.setdefault(_file(item.nodeid), len(files))
    sorts = [[name for name in files if name.startswith(_WAITING) == waits] for waits in (True, False)]
    place = {name: (number + 1) / len(names) for names in sorts for number, name in enumerate(names)}
    items.sort(key=lambda item: 0 if item.nodeid.startswith(_FIRST) else place[_file(item.nodeid)])


_FIRST = (_TOGETHER, "tests/bench/test_bench_smoke")
_WAITING = ("tests/acceptance/", "tests/bench/", "tests/testing/")


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


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

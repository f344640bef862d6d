"""Chooses which tests `make test` leaves to `make long`: those of one of two databases, most seeds, and of tests with
many slow cases all but some."""

import zlib
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import pytest

from support import servers

KINDS = ("sqlite", "mysql")
_SERVERS = ("mariadb", "mysql")
_CONFORMANCE = "tests/store/conformance/test_"
_DIFFER = (
    "tests/store/mysql/",
    *(f"{_CONFORMANCE}{what}" for what in ("concurrency", "races", "rival_turns", "linear", "transactions")),
    *(f"{_CONFORMANCE}{what}" for what in ("explain", "lost_answers", "migrations")),
    *(f"tests/acceptance/test_{what}" for what in ("doubt", "failover", "odd_databases")),
)
"""Tests that run on both, since the databases differ there: drivers, errors, locks, plans, lost answers, schemas."""


def in_turn(*cases: tuple[Any, ...]) -> list[Any]:
    """Parameters for slow tests, such as kills: a store's kind and the fields of the case.

    Cases alternate between SQLite and MySQL; the other half is marked long.
    """
    return [
        pytest.param(kind, *case, marks=[pytest.mark.long] if (number + turn) % 2 else [])
        for number, case in enumerate(cases)
        for turn, kind in enumerate(KINDS)
    ]


def take_turns(items: Sequence[pytest.Function]) -> None:
    """Marks one of each pair of tests for MariaDB and MySQL as long, where the two do not differ. The test's name
    decides which, so that it is always the same one; without MySQL, the one for MySQL. Of five seeds four are long, and
    of a test marked `cases(count)` all but so many cases of those that are left."""
    _take_seeds(items)
    twins = sorted((item for item in items if _server(item) and not item.nodeid.startswith(_DIFFER)), key=_name)
    has_mysql = servers.has_mysql()
    for name, of_one in groupby(twins, _name):
        by_server = {_server(item): item for item in of_one}
        if len(by_server) == 2:
            later = _SERVERS[zlib.crc32(name.encode()) % 2] if has_mysql else "mysql"
            by_server[later].add_marker(pytest.mark.long)
    _take_cases(items)


def _take_cases(items: Iterable[pytest.Function]) -> None:
    by_test: dict[str, list[pytest.Function]] = {}
    for item in items:
        if item.get_closest_marker("cases") and not item.get_closest_marker("long"):
            by_test.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for of_one in by_test.values():
        marker = of_one[0].get_closest_marker("cases")
        assert marker is not None
        (count,) = marker.args
        for item in sorted(of_one, key=_turn)[count:]:
            item.add_marker(pytest.mark.long)


def _turn(item: pytest.Function) -> int:
    return zlib.crc32(item.nodeid.encode())


def _take_seeds(items: Iterable[pytest.Function]) -> None:
    by_test: dict[tuple[object, ...], list[pytest.Function]] = {}
    for item in items:
        params = dict(_params(item))
        if params.pop("seed", None) is not None:
            by_test.setdefault((item.nodeid.partition("[")[0], *map(repr, params.items())), []).append(item)
    for of_one in by_test.values():
        of_one.sort(key=_turn)
        for item in of_one[-(-len(of_one) // 5) :]:
            item.add_marker(pytest.mark.long)


def _params(item: pytest.Function) -> dict[str, object]:
    callspec: Any = getattr(item, "callspec", None)
    return callspec.params if callspec else {}


def _server(item: pytest.Function) -> str | None:
    """The database server that a test is for."""
    params = _params(item).values()
    return next((server for server in _SERVERS if server in params), None)


def _name(item: pytest.Function) -> str:
    """The test's name without its server, the same for both."""
    return item.nodeid.replace("mariadb", "").replace("mysql", "")

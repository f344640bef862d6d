"""The exact time of a server is the answer that was least behind, carried on to the end."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from tarry.store.mysql import backend as module
from tarry.store.mysql.backend import MySQLBackend

MICROS = 1_795_000_000_000_250


class Readers:
    """A server's clock and the host's boot time; answers are on their way for so many microseconds, in turn."""

    def __init__(self, *ways: int) -> None:
        self.passed = 0
        self.ways = list(ways)

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator["Readers", None]:
        yield self

    async def fetch(self, _sql: bytes) -> list[tuple[int]]:
        asked = MICROS + self.passed
        self.passed += self.ways.pop(0)
        return [(asked,)]


@pytest.mark.parametrize("ways", [(200, 5000, 7000), (5000, 200, 7000), (7000, 5000, 200)])
async def test_the_quickest_answer_counts(ways: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    readers = Readers(*ways)
    backend = MySQLBackend("mysql://root@127.0.0.1:1/none")
    monkeypatch.setattr(backend, "_readers", readers)
    monkeypatch.setattr(module, "boottime", lambda: 7_000_000_000 + 1000 * readers.passed)
    assert await backend.exact_now() == pytest.approx((MICROS + readers.passed - 200) / 1000, abs=0.001)

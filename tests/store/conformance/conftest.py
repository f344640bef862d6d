"""One fixture, three backends: what is written here holds on each of them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from support.store_homes import KINDS, dsn, homes
from support.store_homes import stage as unwatched
from support.stores import Kind, Stage
from tarry.store.ports import Asked, Transaction
from tarry.store.records import Group, Topic
from tarry.store.timers import forecast

__all__ = ["dsn", "homes", "unwatched"]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    kind: Kind = request.param
    return kind


@pytest.fixture
def bare_dsn(kind: Kind, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store without a schema, the test's own."""
    if kind == "sqlite":
        return f"sqlite:///{tmp_path / 'tarry.db'}"
    fresh_database: Callable[[str], str] = request.getfixturevalue("fresh_database")
    return fresh_database(request.getfixturevalue(f"{kind}_server"))


@pytest.fixture
async def stage(unwatched: Stage) -> AsyncIterator[Stage]:
    """An open, migrated store with nothing in it. Whatever a test does, the forecast is exact in the end."""
    yield unwatched
    promoted = unwatched.column("SELECT MAX(streamed_at) FROM message")[0] or 0
    clock = await unwatched.store.backend.now()
    by_the_clock = unwatched.now > clock - forecast.HOUR  # an outbox takes the database's time, in whatever minute
    since = (max(unwatched.now, promoted, clock if by_the_clock else 0) // forecast.MINUTE + 1) * forecast.MINUTE
    while since < forecast.EVER:
        since, wrong = await unwatched.store.write(forecast.check, since)
        assert not wrong, "the forecast is not what waits"


@pytest.fixture
async def topic(stage: Stage) -> Topic:
    """A plain one: "orders", of one queue."""
    return await stage.topic()


@pytest.fixture
async def group(stage: Stage, topic: Topic) -> Group:
    """A plain one of that topic: "billing"."""
    return await stage.group(topic)


class _Watched:
    """A transaction that notes what is asked in one flight."""

    def __init__(self, tx: Transaction, flights: list[Sequence[Asked[Any]]]) -> None:
        self._tx = tx
        self._flights = flights

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)

    async def fetch_all(self, queries: Sequence[Asked[Any]]) -> None:
        self._flights.append(queries)
        await self._tx.fetch_all(queries)


@pytest.fixture
def flights(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> list[Sequence[Asked[Any]]]:
    """What transactions that write have asked in one flight each."""
    flights: list[Sequence[Asked[Any]]] = []
    write = stage.store.backend.write

    async def watched(work: Callable[[Transaction], Awaitable[Any]], *, heavy: bool = False) -> Any:
        return await write(lambda tx: work(_Watched(tx, flights)), heavy=heavy)  # type: ignore[arg-type,return-value]

    monkeypatch.setattr(stage.store.backend, "write", watched)
    return flights

"""Fixtures: a store of each kind with its schema and no rows. A `conftest.py` imports them and defines `kind`."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support import servers
from support.embedded import schema
from support.hearing import HearingStore
from support.stores import Kind, Stage, Tables, empty, migrate, open_tables
from tarry.store.opening import open_backend

KINDS: tuple[Kind, ...] = ("sqlite", "mariadb", "mysql")

on_servers = pytest.mark.parametrize("kind", KINDS[1:], indirect=True)
"""Marks a test of what the embedded store has not: an outbox, or others who hold a row. There is one writer."""


@pytest.fixture(scope="session")
def homes() -> Iterator[Callable[[str], tuple[str, Tables]]]:
    """A function from a server to a migrated database on it, which is made once; tests empty and reuse it."""
    with ExitStack() as stack:
        homes: dict[str, tuple[str, Tables]] = {}

        def home(server: str) -> tuple[str, Tables]:
            if server not in homes:
                dsn = stack.enter_context(servers.database(server))
                migrate(dsn)
                tables = open_tables(dsn)
                stack.callback(tables.close)
                homes[server] = (dsn, tables)
            return homes[server]

        yield home


@pytest.fixture
def dsn(kind: Kind, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store with its schema and no rows."""
    if kind == "sqlite":
        path = tmp_path / "tarry.db"
        path.write_bytes(schema())
        return f"sqlite:///{path}"
    home: Callable[[str], tuple[str, Tables]] = request.getfixturevalue("homes")
    dsn, tables = home(request.getfixturevalue(f"{kind}_server"))
    empty(tables)
    return dsn


@pytest.fixture
async def stage(kind: Kind, dsn: str) -> AsyncIterator[Stage]:
    """An open, migrated store with nothing in it."""
    tables = open_tables(dsn)
    backend = await open_backend(dsn)
    yield Stage(kind, dsn, HearingStore(backend), tables)
    await backend.aclose()
    tables.close()

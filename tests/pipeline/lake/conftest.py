"""A store of each kind, open for what makes real rows."""

import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support import servers
from support.stores import Kind, Stage, Tables, empty, migrate, open_tables
from tarry.store.opening import open_backend
from tarry.store.store import Store

_KINDS: tuple[Kind, ...] = ("sqlite", "mariadb", "mysql")


@pytest.fixture(params=[_KINDS[0], *(pytest.param(kind, marks=pytest.mark.long) for kind in _KINDS[1:])])
def kind(request: pytest.FixtureRequest) -> Kind:
    kind: Kind = request.param
    return kind


@pytest.fixture(scope="session")
def _template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "tarry.db"
    migrate(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def _homes() -> Iterator[Callable[[str], tuple[str, Tables]]]:
    """From a server to a migrated database on it, made once: tests empty it and use it again."""
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
        shutil.copy(request.getfixturevalue("_template"), path)
        return f"sqlite:///{path}"
    home: Callable[[str], tuple[str, Tables]] = request.getfixturevalue("_homes")
    dsn, tables = home(request.getfixturevalue(f"{kind}_server"))
    empty(tables)
    return dsn


@pytest.fixture
async def stage(kind: Kind, dsn: str) -> AsyncIterator[Stage]:
    """An open, migrated store with nothing in it."""
    tables = open_tables(dsn)
    backend = await open_backend(dsn)
    yield Stage(kind, dsn, Store(backend), tables)
    await backend.aclose()
    tables.close()

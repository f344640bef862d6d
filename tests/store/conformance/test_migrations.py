"""The schema: brought up to date once, refused when it is another program's."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import trio

from support.stores import TABLES, Kind, Tables, empty, open_tables
from tarry.store.errors import SchemaError
from tarry.store.opening import BadDSN, migrations_for, open_backend
from tarry.store.ports import Backend

Open = Callable[[], Awaitable[Backend]]


@pytest.fixture
async def opens(kind: Kind, bare_dsn: str) -> AsyncIterator[Open]:
    """Opens another backend on the same bare store."""
    opened: list[Backend] = []

    async def one() -> Backend:
        if kind == "sqlite" and opened:
            return opened[0]  # a file has one
        opened.append(await open_backend(bare_dsn))
        return opened[-1]

    yield one
    for backend in opened:
        await backend.aclose()


@pytest.fixture
async def tables(opens: Open, bare_dsn: str) -> AsyncIterator[Tables]:
    await opens()
    tables = open_tables(bare_dsn)
    yield tables
    tables.close()


def _names(bare_dsn: str) -> list[str]:
    return [f"{migration.version:04} {migration.name}" for migration in migrations_for(bare_dsn)]


async def test_once(opens: Open, tables: Tables, bare_dsn: str) -> None:
    backend = await opens()
    assert await backend.migrate() == _names(bare_dsn)
    assert await backend.migrate() == []
    rows = tables.rows("SELECT version, name, checksum FROM migration ORDER BY version")
    assert rows == [(m.version, m.name.encode(), m.checksum) for m in migrations_for(bare_dsn)]
    empty(tables)  # every table is there
    assert len(TABLES) == 34


async def test_two_at_once(opens: Open, tables: Tables, bare_dsn: str) -> None:
    applied: list[list[str]] = []

    async def migrate() -> None:
        applied.append(await (await opens()).migrate())

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(migrate)
    assert sorted(applied) == [[], [], _names(bare_dsn)]
    assert tables.rows("SELECT COUNT(*) FROM migration") == [(len(applied[0] or applied[1] or applied[2]),)]


async def test_a_schema_newer_than_the_program(opens: Open, tables: Tables) -> None:
    backend = await opens()
    await backend.migrate()
    tables.rows("INSERT INTO migration SELECT 9999, name, checksum, applied_at FROM migration WHERE version = 1")
    with pytest.raises(SchemaError, match="version 9999, newer than this program"):
        await backend.migrate()
    tables.rows("DELETE FROM migration WHERE version = 9999")
    assert await backend.migrate() == []


async def test_a_migration_changed_after_it_was_applied(opens: Open, tables: Tables) -> None:
    backend = await opens()
    await backend.migrate()
    tables.rows(f"UPDATE migration SET checksum = x'{'00' * 32}' WHERE version = 1")
    with pytest.raises(SchemaError, match="was changed after it was applied"):
        await backend.migrate()


async def test_interrupted_half_way(opens: Open, tables: Tables, kind: Kind, bare_dsn: str) -> None:
    """MySQL keeps what was done, statement by statement: the next run takes it from there. SQLite keeps nothing."""
    first, *_ = migrations_for(bare_dsn)
    if kind != "sqlite":
        for statement in first.statements[: len(first.statements) // 2]:
            tables.rows(statement)
    backend = await opens()
    assert await backend.migrate() == _names(bare_dsn)
    empty(tables)


async def test_a_table_of_somebody_else_s(opens: Open, tables: Tables, kind: Kind) -> None:
    """A table that is in the way is named; nothing is taken as applied."""
    if kind != "sqlite":
        pytest.skip("IF NOT EXISTS cannot tell whose it is")
    tables.rows("CREATE TABLE queue (x INTEGER)")
    backend = await opens()
    with pytest.raises(Exception, match="queue"):
        await backend.migrate()
    assert tables.rows("SELECT name FROM sqlite_master WHERE type = 'table'") == [("queue",)]


async def test_a_good_store_has_nothing_to_complain_of(opens: Open, kind: Kind) -> None:
    backend = await opens()
    if kind == "sqlite":
        assert (await backend.durability(), await backend.advice()) == ([], [])
    else:
        assert all(isinstance(problem, str) for problem in await backend.durability() + await backend.advice())


async def test_the_clock(opens: Open) -> None:
    backend = await opens()
    first, second = await backend.now(), await backend.now()
    assert 1_700_000_000_000 < first <= second < first + 60_000


@pytest.mark.parametrize(
    "dsn", ["", "tarry.db", "postgres://h/d", "sqlite://", "sqlite:///", "sqlite:///a?b=c", "redis://h", "mysql://h"]
)
async def test_a_dsn_that_names_no_store(dsn: str) -> None:
    with pytest.raises(BadDSN):
        await open_backend(dsn)
    if not dsn.startswith(("sqlite:///", "mysql://")):
        with pytest.raises(BadDSN):
            migrations_for(dsn)

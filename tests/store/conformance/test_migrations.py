"""The schema: brought up to date once, refused when it is another program's."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from support.at_once import at_once
from support.store_homes import on_servers
from support.stores import TABLES, Kind, Tables, empty, open_tables
from tarry.store.errors import SchemaError
from tarry.store.migrations import FIRST, Migration, load_migrations, newest
from tarry.store.mysql.tables import RECORDS
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


@pytest.fixture
async def migrated(opens: Open) -> Backend:
    backend = await opens()
    await backend.migrate()
    return backend


KNOWN = load_migrations("mysql")
FLOOR = max(migration.beside for migration in KNOWN)
NEEDED = [migration.version for migration in KNOWN if migration.version <= FLOOR]
BESIDE = [migration.version for migration in KNOWN if migration.version > FLOOR]
_BOTH = "SELECT * FROM migration UNION ALL SELECT * FROM migration_beside"


def _names(bare_dsn: str) -> list[str]:
    return [f"{migration.version:04} {migration.name}" for migration in migrations_for(bare_dsn)]


async def test_once(opens: Open, tables: Tables, bare_dsn: str) -> None:
    backend = await opens()
    assert await backend.migrate() == _names(bare_dsn)
    assert await backend.migrate() == []
    rows = tables.rows(f"SELECT version, name, checksum FROM ({_BOTH}) m ORDER BY version")
    assert rows == [(m.version, m.name.encode(), m.checksum) for m in migrations_for(bare_dsn)]
    empty(tables)  # every table is there
    assert len(TABLES) == 42


async def test_two_at_once(opens: Open, tables: Tables, bare_dsn: str) -> None:
    applied: list[list[str]] = []

    async def migrate() -> None:
        applied.append(await (await opens()).migrate())

    await at_once(*[migrate] * 3)
    assert sorted(applied) == [[], [], _names(bare_dsn)]
    assert _versions(tables) == (NEEDED, BESIDE)


async def test_a_schema_newer_than_the_program(migrated: Backend, tables: Tables) -> None:
    tables.rows("INSERT INTO migration SELECT 9999, name, checksum, applied_at FROM migration LIMIT 1")
    with pytest.raises(SchemaError, match="version 9999, newer than this program"):
        await migrated.migrate()
    tables.rows("DELETE FROM migration WHERE version = 9999")
    assert await migrated.migrate() == []


def _versions(tables: Tables) -> tuple[list[int], list[int]]:
    """Those that every server must know, and the others."""
    needed, beside = (
        tables.rows(f"SELECT version FROM {t} ORDER BY version") for t in ("migration", "migration_beside")
    )
    return [version for (version,) in needed], [version for (version,) in beside]


async def test_a_schema_of_before_the_first_release(migrated: Backend, tables: Tables, kind: Kind) -> None:
    """Its migrations were others, 0001 the_house and those behind it. It is told, and stays as it is."""
    tables.rows("INSERT INTO migration_beside SELECT 20, 'losses', checksum, 0 FROM migration LIMIT 1")
    tables.rows(f"UPDATE migration SET version = 1 WHERE version = {FIRST}")
    tables.rows("DROP TABLE forecast")  # as one that lacks a step
    there, versions = _all_tables(tables, kind), _versions(tables)
    told = "before the first release of Tarry, and cannot be taken over: give Tarry a new database"
    with pytest.raises(SchemaError, match=told):
        await migrated.migrate()
    if kind != "sqlite":
        assert [(check, told in text) for check, text in await migrated.faults()] == [("tables", True)]
    assert (_all_tables(tables, kind), _versions(tables)) == (there, versions)


async def test_a_program_of_before_takes_a_schema_that_only_adds(migrated: Backend, tables: Tables) -> None:
    tables.rows("INSERT INTO migration_beside SELECT 9999, name, checksum, applied_at FROM migration LIMIT 1")
    assert await migrated.migrate() == []
    assert max((await migrated.applied()).checksums) == 9999


def _two_more(monkeypatch: pytest.MonkeyPatch, kind: Kind, bare_dsn: str, last: str) -> None:
    """The next program has two more migrations: 9001, which today's newest may be beside, and 9002."""
    more = [
        Migration(9001, "one", f"-- beside: {newest()}\nCREATE TABLE one (x INT PRIMARY KEY);\n"),
        Migration(9002, "two", f"{last}CREATE TABLE two (x INT PRIMARY KEY);\n"),
    ]
    backend = "sqlite" if kind == "sqlite" else "mysql"
    known = [*migrations_for(bare_dsn), *more]
    monkeypatch.setattr(f"tarry.store.{backend}.schema.load_migrations", lambda _: known)


@pytest.mark.parametrize(
    ("last", "needed", "beside"),
    [
        (f"-- beside: {FLOOR}\n", [], [9001, 9002]),
        ("-- beside: 9001\n", [9001], [9002]),
        ("", [9001, 9002], []),
    ],
)
async def test_one_that_wants_newer_servers(
    migrated: Backend,
    tables: Tables,
    kind: Kind,
    bare_dsn: str,
    monkeypatch: pytest.MonkeyPatch,
    last: str,
    needed: list[int],
    beside: list[int],
) -> None:
    """What it wants goes where every program looks."""
    _two_more(monkeypatch, kind, bare_dsn, last)
    assert await migrated.migrate() == ["9001 one", "9002 two"]
    assert _versions(tables) == ([*NEEDED, *BESIDE, *needed], beside)
    assert await migrated.migrate() == []
    monkeypatch.undo()
    if needed:
        with pytest.raises(SchemaError, match=f"version {max(needed)}, newer than this program, which knows"):
            await migrated.migrate()
    else:
        assert await migrated.migrate() == []


@on_servers
async def test_not_while_an_older_server_is_at_work(
    migrated: Backend, tables: Tables, kind: Kind, bare_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = f"'boot', 'old one', 0, {newest()}, 1, {await migrated.now()}, ''"
    tables.rows(f"INSERT INTO node (boot, name, slot, level, started_at, renewed_at, facts) VALUES ({row})")
    _two_more(monkeypatch, kind, bare_dsn, "")
    with pytest.raises(SchemaError, match=r"9002 \(two\) wants servers that know 9002, and old one, which"):
        await migrated.migrate()
    assert _versions(tables) == (NEEDED, BESIDE)
    tables.rows("UPDATE node SET renewed_at = renewed_at - 5001")  # it is dead
    assert await migrated.migrate() == ["9001 one", "9002 two"]


async def test_a_migration_changed_after_it_was_applied(migrated: Backend, tables: Tables) -> None:
    tables.rows(f"UPDATE migration SET checksum = x'{'00' * 32}' WHERE version = {FIRST}")
    with pytest.raises(SchemaError, match="was changed after it was applied"):
        await migrated.migrate()


async def test_interrupted_half_way(opens: Open, tables: Tables, kind: Kind, bare_dsn: str) -> None:
    """MySQL keeps what was done, statement by statement: the next run takes it from there. SQLite keeps nothing."""
    first, *_ = migrations_for(bare_dsn)
    if kind != "sqlite":
        for statement in (*RECORDS, *first.statements[: len(first.statements) // 2]):
            tables.rows(statement)
    backend = await opens()
    assert await backend.migrate() == _names(bare_dsn)
    empty(tables)


async def test_a_table_of_somebody_else_s(opens: Open, tables: Tables, kind: Kind) -> None:
    """A table that is in the way is named; nothing is taken as applied."""
    tables.rows("CREATE TABLE queue (x INTEGER)")
    backend = await opens()
    with pytest.raises(Exception, match="queue"):
        await backend.migrate()
    assert _all_tables(tables, kind) == [("queue",)]


def _all_tables(tables: Tables, kind: Kind) -> list[Any]:
    return tables.rows("SELECT name FROM sqlite_master WHERE type = 'table'" if kind == "sqlite" else "SHOW TABLES")


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
    exact, last = await backend.exact_now(), await backend.now()
    assert second <= exact < last + 1


@pytest.mark.parametrize(
    "dsn", ["", "tarry.db", "postgres://h/d", "sqlite://", "sqlite:///", "sqlite:///a?b=c", "redis://h", "mysql://h"]
)
async def test_a_dsn_that_names_no_store(dsn: str) -> None:
    with pytest.raises(BadDSN):
        await open_backend(dsn)
    if not dsn.startswith(("sqlite:///", "mysql://")):
        with pytest.raises(BadDSN):
            migrations_for(dsn)

"""Whose the tables of a database are. Nothing of another application's is touched."""

from collections.abc import Iterator, Sequence

import pytest

from support.servers import NoServerError, database, mariadb, run_sql, skip_or_fail
from tarry.store.errors import SchemaError
from tarry.store.migrations import load_migrations
from tarry.store.mysql.backend import MySQLBackend
from tarry.store.mysql.tables import Found, Table, check_tables, shape_of

OURS = ("migration", "migration_beside", *shape_of(load_migrations("mysql")))


def all_of(dsn: str) -> list[object]:
    """The definition of each table, view and row of `migration`."""
    names = sorted(str(row[0]) for row in run_sql(dsn, "SHOW TABLES"))
    return [run_sql(dsn, f"SHOW CREATE TABLE `{name}`") for name in names]


async def refused(dsn: str, match: str) -> None:
    """By all who would touch it or look, and nothing is changed."""
    before = all_of(dsn)
    backend = MySQLBackend(dsn)
    try:
        with pytest.raises(SchemaError, match=match):
            await backend.migrate()
        ((check, told),) = await backend.faults()
        assert check == "tables"
        with pytest.raises(SchemaError, match=match):
            raise SchemaError(told)
    finally:
        await backend.aclose()
    assert all_of(dsn) == before


async def test_a_foreign_table_of_each_of_our_names(mysql_dsn: str) -> None:
    for name in ("message", "migration_beside", "migration"):
        run_sql(mysql_dsn, f"CREATE TABLE `{name}` (id INT PRIMARY KEY, text VARCHAR(20))")
        await refused(mysql_dsn, f"`{name}`.*nothing of it was touched")
        run_sql(mysql_dsn, f"DROP TABLE `{name}`")
    others = [name for name in OURS if "migration" not in name]
    for name in others:
        run_sql(mysql_dsn, f"CREATE TABLE `{name}` (id INT)")
    await refused(mysql_dsn, ", ".join(f"`{name}`" for name in sorted(others)))


async def test_a_view(mysql_dsn: str) -> None:
    run_sql(mysql_dsn, "CREATE TABLE shop (version INT, name INT, checksum INT, applied_at INT)")
    run_sql(mysql_dsn, "CREATE VIEW migration AS SELECT * FROM shop")
    await refused(mysql_dsn, "`migration` that is not Tarry's: it is a view")


@pytest.mark.parametrize("version", ["INT", "VARCHAR(20)"])
async def test_another_s_record_of_migrations(mysql_dsn: str, version: str) -> None:
    """It has the columns that ours has."""
    run_sql(
        mysql_dsn,
        f"CREATE TABLE migration (version {version}, name VARCHAR(9), checksum VARCHAR(64), applied_at DATETIME)",
        "INSERT INTO migration VALUES (1, 'init', 'a', NULL), (20260101, 'b', 'c', NULL)",
    )
    await refused(mysql_dsn, "`migration` that is not Tarry's, whose first is the_house")


async def test_tables_of_other_names_stay(mysql_dsn: str) -> None:
    run_sql(mysql_dsn, "CREATE TABLE shop_order (id INT)")
    run_sql(mysql_dsn, "CREATE VIEW messages AS SELECT * FROM shop_order")
    run_sql(mysql_dsn, "CREATE TABLE Message (id INT)")
    backend = MySQLBackend(mysql_dsn)
    assert await backend.migrate()
    assert await backend.migrate() == []
    await backend.aclose()


KNOWN = load_migrations("mysql")
ALL = range(1, len(KNOWN) + 1)


def house(**changed: Table | None) -> Found:
    """All tables as they are to be, but for these."""
    tables = {name: Table("BASE TABLE", "InnoDB", columns) for name, columns in shape_of(KNOWN).items()}
    return Found("shop", {name: table for name, table in (tables | changed).items() if table is not None})


def like(name: str, *, kind: str = "BASE TABLE", engine: str = "InnoDB", without: str = "") -> Table:
    return Table(kind, engine, shape_of(KNOWN)[name] - {without})


@pytest.mark.parametrize(
    ("found", "applied", "match"),
    [
        (house(delay=like("delay", without="guard")), ALL, "`delay`.*it lacks the column guard: if it is, restore"),
        (house(label=None), ALL, "lacks the table `label`, which Tarry has made"),
        (house(witness=Table("BASE TABLE", "InnoDB", frozenset({"id"}))), ALL, "`witness` that is not.*if not, give"),
        (house(tally=like("tally", kind="VIEW", engine="")), ALL, "`tally` that is not Tarry's: it is a view"),
        (house(message=like("message", engine="MyISAM")), ALL, "`message` of the engine MyISAM.*ENGINE = InnoDB"),
        (house(push=Table("BASE TABLE", "InnoDB", frozenset({"x"}))), range(1, 11), "`push` that is not Tarry's"),
        (house(), range(1, 11), "`erased` that Tarry did not make"),
        (house(), [1, 2, 3, *range(5, 20)], None),
        (house(push=like("push"), erased=None, guard=None, forecast=None, forecast_change=None, forecast_check=None),
         range(1, 11), None),
        (house(sequence=Table("VIEW", "", frozenset())), ALL, None),
        (house(message=like("message", kind="SYSTEM VERSIONED")), ALL, None),
    ],
)  # fmt: skip
def test_what_is_ours(found: Found, applied: Sequence[int], match: str | None) -> None:
    """By what the record of migrations says, and by the columns."""
    if match is None:
        check_tables(found, KNOWN, applied)
        return
    with pytest.raises(SchemaError, match=match):
        check_tables(found, KNOWN, applied)


async def test_a_schema_that_lacks_a_column_of_ours(backend: MySQLBackend) -> None:
    assert await backend.faults() == []
    dsn = f"mysql://{backend.dsn.user}:{backend.dsn.password}@{backend.dsn.place}/{backend.dsn.database}"
    rows = run_sql(
        dsn, "SELECT TABLE_NAME, COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()"
    )
    found: dict[str, set[str]] = {}
    for table, column in rows:
        found.setdefault(str(table), set()).add(str(column))
    assert set(OURS) == set(found)
    assert {table: found[table] for table in shape_of(KNOWN)} == shape_of(KNOWN)
    run_sql(dsn, "ALTER TABLE delay DROP COLUMN guard")
    await refused(dsn, "`delay`.*it lacks the column guard")


async def test_a_migration_that_was_interrupted_goes_on(mysql_dsn: str) -> None:
    """Within the second, which drops columns that the first has made, and in one that has made its table."""
    backend = MySQLBackend(mysql_dsn)
    names = await backend.migrate()
    for version, statements in (
        (2, ("ALTER TABLE reader ADD COLUMN turn BIGINT NOT NULL DEFAULT 0", "DROP TABLE witness")),
        (11, ()),
    ):
        for table in ("migration", "migration_beside"):
            run_sql(mysql_dsn, f"DELETE FROM {table} WHERE version = {version}")
        for statement in statements:
            run_sql(mysql_dsn, statement)
        assert await backend.migrate() == [name for name in names if name.startswith(f"{version:04}")]
    await backend.aclose()


@pytest.fixture(scope="module")
def folding() -> Iterator[str]:
    """A server to which `Message` and `message` are one table."""
    try:
        with mariadb("--lower-case-table-names=1") as server:
            yield server.dsn
    except NoServerError as missing:
        skip_or_fail(str(missing))


async def test_names_that_differ_in_case_alone(folding: str) -> None:
    with database(folding) as dsn:
        run_sql(dsn, "CREATE TABLE Message (id INT)")
        await refused(dsn, "`message`")
        run_sql(dsn, "DROP TABLE Message")
        backend = MySQLBackend(dsn)
        assert await backend.migrate()
        await backend.aclose()

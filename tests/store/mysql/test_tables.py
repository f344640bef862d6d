"""Whose the tables of a database are. Nothing of another application's is touched."""

import re
from collections.abc import Iterator, Sequence
from contextlib import closing

import attrs
import pytest

from support.generations import adding, taking_away
from support.servers import NoServerError, database, mariadb, run_sql, skip_or_fail
from tarry.store.errors import SchemaError
from tarry.store.migrations import load_migrations
from tarry.store.mysql.backend import MySQLBackend
from tarry.store.mysql.connection import connect
from tarry.store.mysql.dsn import Dsn
from tarry.store.mysql.shape import Made, shape_of, shape_of_statements
from tarry.store.mysql.tables import RECORDS, Found, Table, check_tables, find_tables

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


KNOWN = [*load_migrations("mysql"), adding("mysql"), taking_away()]
"""With two of a version to come: one adds, the other takes away."""
ALL = [migration.version for migration in KNOWN]
TODAY, LAST = ALL[:-2], ALL[-1]


def house(**changed: Table | None) -> Found:
    """All tables as they are to be, but for these."""
    tables = {name: like(name) for name in shape_of(KNOWN)}
    return Found("shop", {name: table for name, table in (tables | changed).items() if table is not None})


def like(name: str, *, kind: str = "BASE TABLE", engine: str = "InnoDB", without: str = "") -> Table:
    made = shape_of(KNOWN)[name]
    columns = {name: column for name, column in made.columns.items() if name != without}
    return Table(kind, engine, columns, made.indexes)


@pytest.mark.parametrize(
    ("found", "applied", "match"),
    [
        (house(delay=like("delay", without="guard")), ALL, "`delay`.*it lacks the column guard: if it is, restore"),
        (house(label=None), ALL, "lacks the table `label`, which Tarry has made"),
        (house(witness=Table("BASE TABLE", "InnoDB", {"id": "INT NULL"})), ALL, "`witness` that is not.*if not, give"),
        (house(tally=like("tally", kind="VIEW", engine="")), ALL, "`tally` that is not Tarry's: it is a view"),
        (house(message=like("message", engine="MyISAM")), ALL, "`message` of the engine MyISAM.*ENGINE = InnoDB"),
        (house(later=Table("BASE TABLE", "InnoDB", {"x": "INT NULL"})), TODAY, "`later` that is not Tarry's"),
        (house(), TODAY, "`latest` that Tarry did not make"),
        (house(), [*TODAY, LAST], None),
        (house(later=like("later"), latest=None), TODAY, None),
        (house(sequence=Table("VIEW", "", {})), ALL, None),
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


async def test_what_is_read_of_the_migrations_is_what_the_server_has(dsn: Dsn) -> None:
    """At every level: of each column and each index, in the same words."""
    with closing(await connect(dsn, write=True)) as connection:
        await connection.set_up("migrate")
        for statement in RECORDS:
            await connection.execute(statement.encode())
        await connection.execute(b"INSERT INTO migration VALUES (21, 'the_house', '', 0)")
        for level, migration in enumerate(KNOWN, 1):
            for statement in migration.statements:
                await connection.execute(statement.encode())
            found = await find_tables(connection, KNOWN)
            expected = {**shape_of(KNOWN[:level]), **shape_of_statements(RECORDS)}
            tables = found.tables.items()
            assert {name: Made(dict(table.columns), dict(table.indexes)) for name, table in tables} == expected
            assert not any(table.hidden for table in found.tables.values())
            check_tables(found, KNOWN, ALL[:level])


def test_what_a_later_migration_makes_is_ours() -> None:
    """It was interrupted; or this server is one of before, to which another has added."""
    message = like("message")
    for one in (
        message,
        attrs.evolve(message, indexes={**message.indexes, "udx_later": "UNIQUE KEY `udx_later` (`tag`)"}),
    ):
        check_tables(house(message=one), KNOWN, [*ALL, LAST + 1])
    without = {name: text for name, text in message.indexes.items() if name != "udx_message_id"}
    with pytest.raises(SchemaError, match="`udx_message_id` of `message` is missing"):
        check_tables(house(message=attrs.evolve(message, indexes=without)), KNOWN, [*ALL, LAST + 1])


async def test_a_schema_that_lacks_a_column_of_ours(backend: MySQLBackend) -> None:
    assert await backend.faults() == []
    dsn = own_dsn(backend)
    run_sql(dsn, "ALTER TABLE delay DROP COLUMN guard")
    await refused(dsn, "`delay`.*it lacks the column guard")


CHANGES = (
    ("message DROP KEY udx_message_id",
     "index `udx_message_id` of `message` is missing: ALTER TABLE `message` ADD UNIQUE KEY `udx_message_id` .`id`.$"),
    ("message DROP KEY udx_message_id, ADD KEY udx_message_id (id)",
     "`udx_message_id` of `message` is another, KEY .*: .* DROP KEY `udx_message_id`, ADD UNIQUE KEY"),
    ("retry DROP KEY idx_retry_multi_group, ADD KEY idx_retry_multi_group (attempt, group_id)",
     "`idx_retry_multi_group` of `retry` is another.*, ADD KEY `idx_retry_multi_group` .`group_id`, `attempt`.$"),
    ("label DROP PRIMARY KEY, ADD PRIMARY KEY (topic_id, `key`(9), id)",
     "`PRIMARY` of `label` is another, PRIMARY KEY .*`key`.9.*DROP PRIMARY KEY, ADD PRIMARY KEY .`topic_id`, `"),
    ("fire ALTER INDEX idx_fire_at {hidden}",
     "`idx_fire_at` of `fire` is hidden: ALTER TABLE `fire` ALTER INDEX .* (NOT I|V)"),
    ("topic MODIFY name VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL",
     "`name` of `topic` is VARCHAR.255. COLLATE utf8mb4_.* NOT NULL and .*MODIFY `name` VARBINARY.255. NOT NULL$"),
    ("topic MODIFY name CHAR(32) CHARACTER SET ascii NOT NULL", "`name` of `topic` is CHAR.32. COLLATE ascii"),
    ("topic MODIFY name VARBINARY(254) NOT NULL", "`name` of `topic` is VARBINARY.254. NOT NULL"),
    ("message MODIFY body BLOB NOT NULL", "`body` of `message` is BLOB .*MODIFY `body` MEDIUMBLOB NOT NULL$"),
    ("message MODIFY deliver_at BIGINT NULL", "`deliver_at` of `message` is BIGINT NULL"),
    ("message MODIFY deliver_at BIGINT UNSIGNED NOT NULL", "`deliver_at` of `message` is BIGINT UNSIGNED NOT NULL"),
    ("message MODIFY tag VARBINARY(255) NOT NULL", "`tag` of `message` is VARBINARY.255. NOT NULL"),
    ("claim MODIFY size INT NOT NULL", "`size` of `claim` is INT NOT NULL"),
    ("claim MODIFY size DECIMAL(30) NOT NULL", "`size` of `claim` is DECIMAL"),
    ("topic MODIFY id INT UNSIGNED NOT NULL", "MODIFY `id` INT UNSIGNED NOT NULL AUTO_INCREMENT$"),
    ("delay MODIFY special TINYINT UNSIGNED NOT NULL", "MODIFY `special` TINYINT UNSIGNED NOT NULL DEFAULT 0$"),
    ("replay MODIFY request BINARY(40) NOT NULL", "`request` of `replay` is BINARY.40. NOT NULL"),
    ("migration MODIFY name VARBINARY(99) NOT NULL", "`name` of `migration` is VARBINARY.99. NOT NULL"),
    ("message ADD UNIQUE KEY theirs (tag, body(9))",
     "index `theirs` of `message` refuses rows of Tarry's, UNIQUE KEY.*: ALTER TABLE `message` DROP KEY `theirs`$"),
    ("dead ADD COLUMN theirs INT NULL DEFAULT 7, ADD UNIQUE KEY theirs (theirs)", "index `theirs` of `dead` refuses"),
    ("delay ADD COLUMN theirs ENUM('b', 'C') COLLATE utf8mb4_bin NOT NULL",
     "column `theirs` of `delay` has no default, and Tarry gives it no value: ALTER TABLE `delay`"
     " MODIFY `theirs` enum.'b','C'. COLLATE utf8mb4_bin NULL$"),
    ("push ADD COLUMN theirs BLOB NOT NULL", "column `theirs` of `push` .* MODIFY `theirs` BLOB NULL$"),
)  # fmt: skip


@pytest.mark.cases(1)
async def test_a_table_that_was_changed(backend: MySQLBackend) -> None:
    """It is named, with the statement that makes it good."""
    dsn = own_dsn(backend)
    hidden = "IGNORED" if is_mariadb(dsn) else "INVISIBLE"
    for change, match in CHANGES:
        run_sql(dsn, f"ALTER TABLE {change.format(hidden=hidden)}")
        ((check, told),) = await backend.faults()
        assert check == "tables"
        assert re.search(match, told), told
        with pytest.raises(SchemaError, match=re.escape(told)):
            await backend.migrate()
        run_sql(dsn, told[told.index("ALTER TABLE") :])
        assert await backend.faults() == []


async def test_changes_that_do_no_harm(backend: MySQLBackend) -> None:
    dsn = own_dsn(backend)
    for change in (
        "topic MODIFY name VARBINARY(300) NOT NULL",
        "message MODIFY body LONGBLOB NOT NULL COMMENT 'large'",
        "claim MODIFY size BIGINT NOT NULL",
        "claim MODIFY client VARBINARY(255) NOT NULL DEFAULT 'x'",
        "delay ADD KEY theirs (due), ADD COLUMN theirs VARCHAR(20) NOT NULL DEFAULT 'x'",
        "dead ADD KEY theirs (dead_at), ROW_FORMAT=COMPRESSED",
        "message ADD COLUMN theirs INT NULL, ADD UNIQUE KEY theirs (theirs), ADD UNIQUE KEY more (deliver_at, id)",
        "push ADD COLUMN theirs BIGINT UNSIGNED NOT NULL AUTO_INCREMENT, ADD UNIQUE KEY theirs (theirs)",
    ):
        run_sql(dsn, f"ALTER TABLE {change}")
    if is_mariadb(dsn):
        run_sql(
            dsn,
            "ALTER TABLE erased ADD SYSTEM VERSIONING",
            "ALTER TABLE retry MODIFY history MEDIUMBLOB COMPRESSED NOT NULL",
        )
    assert await backend.faults() == []
    assert await backend.migrate() == []


def own_dsn(backend: MySQLBackend) -> str:
    return f"mysql://{backend.dsn.user}:{backend.dsn.password}@{backend.dsn.place}/{backend.dsn.database}"


def is_mariadb(dsn: str) -> bool:
    return "MariaDB" in str(run_sql(dsn, "SELECT VERSION()"))


async def test_a_migration_that_was_interrupted_goes_on(mysql_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half way, and behind its last statement: what is made is made, and what has gone has gone."""
    backend = MySQLBackend(mysql_dsn)
    await backend.migrate()
    for many in (len(KNOWN) - 1, len(KNOWN)):
        migration = KNOWN[many - 1]
        monkeypatch.setattr("tarry.store.mysql.schema.load_migrations", lambda _, many=many: KNOWN[:many])
        run_sql(mysql_dsn, *migration.statements[: len(migration.statements) // 2])
        assert await backend.migrate() == [f"{migration.version:04} {migration.name}"]
        for table in ("migration", "migration_beside"):
            run_sql(mysql_dsn, f"DELETE FROM {table} WHERE version = {migration.version}")
        assert await backend.migrate() == [f"{migration.version:04} {migration.name}"]
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

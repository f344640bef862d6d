"""Checks, before anything is changed, that the tables of a database are Tarry's and are as Tarry made them.

A table with one of Tarry's names is Tarry's if it has all of its columns, and if the table `migration` says that Tarry
made it, or was about to when a migration was interrupted. Tables with other names are ignored.

Somebody may have changed the tables since. If an index that a statement names is missing, or a column takes less, every
write fails, or MariaDB truncates what it copies without an error. Writes also fail with an added unique index, or with
an added column that needs a value. Changes that do no harm are accepted.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from typing import Literal

from attrs import field, frozen

from ..errors import SchemaError
from ..migrations import Migration
from .connection import Connection
from .rows import Row
from .shape import Made, Shape, column, dropped_from, index, may_refuse, shape_of, shape_of_statements, takes_all

_TABLE = """CREATE TABLE IF NOT EXISTS {name} (
  version INT UNSIGNED NOT NULL,
  name VARBINARY(255) NOT NULL,
  checksum BINARY(32) NOT NULL,
  applied_at BIGINT NOT NULL,
  PRIMARY KEY (version)
) ENGINE=InnoDB COMMENT='{comment}'"""
RECORDS = (
    _TABLE.format(name="migration", comment="migrations applied, with the checksum of each"),
    _TABLE.format(name="migration_beside", comment="those of them that older servers need not know"),
)
_RECORDS = shape_of_statements(RECORDS)

_FIND = (
    "SELECT TABLE_NAME, TABLE_TYPE, ENGINE FROM information_schema.TABLES {here}",
    "SELECT TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, COLLATION_NAME, COLUMN_DEFAULT, EXTRA, IS_NULLABLE = 'YES' "
    "FROM information_schema.COLUMNS {here}",
    "SELECT TABLE_NAME, INDEX_NAME, NON_UNIQUE, INDEX_TYPE, {hidden}, COLUMN_NAME, SUB_PART, COLLATION "
    "FROM information_schema.STATISTICS {here} ORDER BY SEQ_IN_INDEX",
    "SELECT DATABASE(), @@lower_case_table_names",
)
_HERE = "WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ({names})"
_HIDDEN = "0 /*!80000 + (IS_VISIBLE = 'NO') */ /*M! + (IGNORED = 'YES') */"
"""Each server reads the part that is for it, whatever version it claims to have."""
_SHOW = {"mysql": "VISIBLE", "mariadb": "NOT IGNORED"}
_FIRST = b"the_house"
_TABLES = ("BASE TABLE", "SYSTEM VERSIONED")
_MOST = 5
"""How many changes are listed one by one."""
_ADVICE = "give Tarry a database of its own, or that table another name; nothing of it was touched"


@frozen
class Table:
    """A table as the server describes it."""

    type: str
    engine: str
    """Empty for a view."""
    columns: Mapping[str, str]
    """The definition of each column, as after its name in CREATE TABLE."""
    indexes: Mapping[str, str] = field(factory=dict[str, str])
    """The definition of each index, as in CREATE TABLE."""
    hidden: frozenset[str] = frozenset()
    """Indexes that are hidden from statements (INVISIBLE or IGNORED)."""


@frozen
class Found:
    """The tables of a database that have names of Tarry's tables, by these names."""

    database: str
    tables: Mapping[str, Table] = field(factory=dict[str, Table])
    flavour: Literal["mysql", "mariadb"] = "mysql"

    @property
    def has_records(self) -> bool:
        """Whether it has both tables that record migrations, which are made first, one after the other."""
        return all(name in self.tables for name in _RECORDS)


async def find_tables(connection: Connection, migrations: Iterable[Migration]) -> Found:
    """Finds those tables that these migrations make. Raises `SchemaError` when the tables that record migrations are
    not Tarry's."""
    known = {**_RECORDS, **shape_of(migrations)}
    flavour = connection.server.flavour
    here = _HERE.format(names=", ".join(f"'{name}'" for name in known))
    asked = [query.format(here=here, hidden=_HIDDEN).encode() for query in _FIND]
    tables, columns, parts, ((database, folds),) = [
        answer.rows for answer in await connection.ask_all(asked, write=False)
    ]

    def ours(name: str) -> str | None:
        """The name as Tarry writes it; None for a table that is not Tarry's: the server may also find names that differ
        in case."""
        name = name.lower() if folds else name
        return name if name in known else None

    there = _read_tables(ours, tables, columns, parts)
    found = Found(database, there, flavour)
    for name, made_by_us in _RECORDS.items():
        _check(found, name, made_by_us.columns.keys())
    if "migration" not in found.tables and found.tables:
        names = ", ".join(f"`{name}`" for name in sorted(found.tables))
        raise SchemaError(
            f"the database {database} has {names}, not made by Tarry, which has been at no work there: {_ADVICE}"
        )
    if "migration" in found.tables:
        _check_records(found, await connection.fetch(b"SELECT version, name FROM migration"))
    return found


def _read_tables(
    ours: Callable[[str], str | None], tables: Sequence[Row], columns: Sequence[Row], parts: Sequence[Row]
) -> dict[str, Table]:
    """Makes tables from rows of `information_schema`, by the names as Tarry writes them."""
    definitions: dict[str, dict[str, str]] = {}
    for table, name, type_, collation, default, extra, null in columns:
        told = column(type_, collation, default, extra, null=bool(null))
        definitions.setdefault(table, {})[name.lower()] = told
    by_index: dict[tuple[str, str], list[Row]] = {}
    for table, name, *part in parts:
        by_index.setdefault((table, name), []).append(tuple(part))
    indexes: dict[str, dict[str, str]] = {}
    hidden: dict[str, set[str]] = {}
    for (table, name), rows in by_index.items():
        name = name if name == "PRIMARY" else name.lower()
        indexes.setdefault(table, {})[name] = _index(name, rows)
        if rows[0][2]:
            hidden.setdefault(table, set()).add(name)
    return {
        own: Table(
            type_, engine or "", definitions.get(name, {}), indexes.get(name, {}), frozenset(hidden.get(name, ()))
        )
        for name, type_, engine in tables
        if (own := ours(name)) is not None
    }


def _index(name: str, rows: Sequence[Row]) -> str:
    parts = [
        (f"`{column_name.lower()}`" if column_name else "an expression")
        + (f"({length})" if length else "")
        + (" DESC" if order == "D" else "")
        for *_, column_name, length, order in rows
    ]
    return index(name, parts, unique=not rows[0][0], kind=rows[0][1])


def check_tables(found: Found, known: Sequence[Migration], applied: Collection[int]) -> None:
    """Raises `SchemaError` unless everything exists that the applied migrations have made, and nothing stands in the
    way of the others."""
    todo = [migration for migration in known if migration.version not in applied]
    made = shape_of([migration for migration in known if migration.version in applied])
    where = f"the database {found.database}"
    for name, one in made.items():
        if name not in found.tables:
            raise SchemaError(f"{where} lacks the table `{name}`, which Tarry has made: restore it from a backup")
        _check(found, name, one.columns.keys() - dropped_from(name, todo[:1]), made=True)
    # An interrupted migration has left some of its tables; those after it have not begun.
    begun = shape_of(todo[:1])
    for name in shape_of(todo):
        if name in found.tables and name not in made:
            if name not in begun:
                raise SchemaError(f"{where} has a table `{name}` that Tarry did not make: {_ADVICE}")
            _check(found, name, begun[name].columns.keys())
    newer = set(applied) - {migration.version for migration in known}
    _check_changes(found, {**begun, **made, **_RECORDS}, {} if newer else {**shape_of(known), **_RECORDS})


def _check_changes(found: Found, shape: Shape, whole: Shape) -> None:
    """Raises `SchemaError` for columns and indexes that were changed so that Tarry cannot work; and for harmful
    additions to the tables that `whole` describes completely."""
    there = [(name, one) for name, one in shape.items() if name in found.tables]
    changed = [fault for name, one in there for fault in _changes(found, name, one)]
    changed += [fault for name, one in there if name in whole for fault in _additions(found, name, one, whole[name])]
    if changed:
        more = f"; and {len(changed) - _MOST} more" if len(changed) > _MOST else ""
        raise SchemaError(
            f"the database {found.database} has tables of Tarry's that somebody changed: {'; '.join(changed[:_MOST])}"
            + more
        )


def _changes(found: Found, name: str, made: Made) -> Iterable[str]:
    """Harmful changes of a table, each with the statement that repairs it."""
    table, alter = found.tables[name], f"ALTER TABLE `{name}`"
    for one, needed in made.columns.items():
        if one in table.columns and not takes_all(table.columns[one], needed):
            is_and_must = f"is {table.columns[one]} and must be {needed}"
            yield f"the column `{one}` of `{name}` {is_and_must}: {alter} MODIFY `{one}` {needed}"
    for one, needed in made.indexes.items():
        there = table.indexes.get(one)
        drop = "DROP PRIMARY KEY" if one == "PRIMARY" else f"DROP KEY `{one}`"
        if there is None:
            yield f"the index `{one}` of `{name}` is missing: {alter} ADD {needed}"
        elif there != needed:
            yield f"the index `{one}` of `{name}` is another, {there}: {alter} {drop}, ADD {needed}"
        elif one in table.hidden:
            yield f"the index `{one}` of `{name}` is hidden: {alter} ALTER INDEX `{one}` {_SHOW[found.flavour]}"


def _additions(found: Found, name: str, made: Made, whole: Made) -> Iterable[str]:
    """Additions of others to a table that refuse Tarry's rows, each with the statement that repairs it."""
    table, alter = found.tables[name], f"ALTER TABLE `{name}`"
    for one, there in table.indexes.items():
        if one not in whole.indexes and may_refuse(there, made, table.columns):
            yield f"the index `{one}` of `{name}` refuses rows of Tarry's, {there}: {alter} DROP KEY `{one}`"
    for one, there in table.columns.items():
        if one not in whole.columns and one not in made.columns and there.endswith(" NOT NULL"):
            now = f"{there.removesuffix(' NOT NULL')} NULL"
            has_none = "has no default, and Tarry gives it no value"
            yield f"the column `{one}` of `{name}` {has_none}: {alter} MODIFY `{one}` {now}"


def _check(found: Found, name: str, needed: Set[str], *, made: bool = False) -> None:
    """Raises `SchemaError` for a table that is not Tarry's."""
    table = found.tables.get(name)
    if table is None:
        return
    what = f"the database {found.database} has a table `{name}`"
    if table.type not in _TABLES:
        raise SchemaError(f"{what} that is not Tarry's: it is a {table.type.lower()}: {_ADVICE}")
    if lacking := sorted(needed - table.columns.keys()):
        columns = "the column" if len(lacking) == 1 else "the columns"
        names = ", ".join(lacking[:5]) + (" and others" if len(lacking) > 5 else "")
        advice = f"if it is, restore it from a backup; if not, {_ADVICE}" if made else _ADVICE
        raise SchemaError(f"{what} that is not Tarry's: it lacks {columns} {names}: {advice}")
    if table.engine.upper() != "INNODB":
        raise SchemaError(
            f"{what} of the engine {table.engine or 'of none'}, which neither locks rows nor rolls back:"
            f" ALTER TABLE `{name}` ENGINE = InnoDB"
        )


def _check_records(found: Found, rows: Sequence[Row]) -> None:
    """Raises `SchemaError` if the table `migration` is another program's, which may have the same four columns."""
    if rows and not any(name == _FIRST for _, name in rows):
        raise SchemaError(
            f"the database {found.database} has a table `migration` that is not Tarry's, whose first is"
            f" {_FIRST.decode()}: {_ADVICE}"
        )

"""Whose the tables of a database are: looked at before anything is touched.

A table with a name of ours is ours if it has all of our columns, and if the table `migration` says that we made it, or
were about to when a migration was interrupted. Tables of other names are nobody's business here.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from ..errors import SchemaError
from ..migrations import Migration
from .connection import Connection

_FIND = (
    b"SELECT TABLE_NAME, TABLE_TYPE, ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()",
    b"SELECT TABLE_NAME, COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()",
    b"SELECT DATABASE(), @@lower_case_table_names",
)
_CREATE = re.compile(r"CREATE TABLE IF NOT EXISTS `?(\w+)`? \((.*)\) ENGINE=InnoDB", re.DOTALL)
_ALTER = re.compile(r"ALTER TABLE `?(\w+)`? ")
_CHANGE = re.compile(r"\b(ADD|DROP) COLUMN `?(\w+)`?")
_COLUMN = re.compile(r"^  `?(\w+)`? (?!KEY\b)", re.MULTILINE)
_NOT_COLUMNS = ("PRIMARY", "UNIQUE", "KEY", "INDEX")
_RECORDS = dict.fromkeys(("migration", "migration_beside"), frozenset({"version", "name", "checksum", "applied_at"}))
_FIRST = b"the_house"
_TABLES = ("BASE TABLE", "SYSTEM VERSIONED")
_ADVICE = "give Tarry a database of its own, or that table another name; nothing of it was touched"

Shape = Mapping[str, frozenset[str]]
"""Columns by table."""


@frozen
class Table:
    """As the server tells of it."""

    type: str
    engine: str
    """Empty for a view."""
    columns: frozenset[str]


@frozen
class Found:
    """The tables with names of ours that a database has, under these names."""

    database: str
    tables: Mapping[str, Table] = field(factory=dict[str, Table])

    @property
    def has_records(self) -> bool:
        """Those of migrations: they come first. A program of before knew one of the two."""
        return all(name in self.tables for name in _RECORDS)


async def find_tables(connection: Connection, migrations: Iterable[Migration]) -> Found:
    """What there is of what these migrations make. Raises `SchemaError` where what records migrations is not ours."""
    tables, columns, ((database, folds),) = [answer.rows for answer in await connection.ask_all(_FIND, write=False)]
    known = {*_RECORDS, *shape_of(migrations)}

    def own(name: str) -> str:
        return name.lower() if folds else name

    by_table: dict[str, set[str]] = {}
    for table, column in columns:
        by_table.setdefault(own(table), set()).add(column.lower())
    found = Found(
        database,
        {
            own(name): Table(type_, engine or "", frozenset(by_table.get(own(name), ())))
            for name, type_, engine in tables
            if own(name) in known
        },
    )
    for name, needed in _RECORDS.items():
        _check(found, name, needed)
    if "migration" not in found.tables and found.tables:
        names = ", ".join(f"`{name}`" for name in sorted(found.tables))
        raise SchemaError(
            f"the database {database} has {names}, not made by Tarry, which has been at no work there: {_ADVICE}"
        )
    if "migration" in found.tables:
        _check_records(found, await connection.fetch(b"SELECT version, name FROM migration"))
    return found


def check_tables(found: Found, known: Sequence[Migration], applied: Collection[int]) -> None:
    """Raises `SchemaError` unless all is there that those applied have made, and nothing in the way of the others."""
    todo = [migration for migration in known if migration.version not in applied]
    made = shape_of([migration for migration in known if migration.version in applied])
    where = f"the database {found.database}"
    for name, needed in made.items():
        if name not in found.tables:
            raise SchemaError(f"{where} lacks the table `{name}`, which Tarry has made: restore it from a backup")
        _check(found, name, needed - _dropped_from(name, todo[:1]), made=True)
    # One that was interrupted has left some of its tables; those behind it have not begun.
    begun = shape_of(todo[:1])
    for name in shape_of(todo):
        if name in found.tables and name not in made:
            if name not in begun:
                raise SchemaError(f"{where} has a table `{name}` that Tarry did not make: {_ADVICE}")
            _check(found, name, begun[name])


def _check(found: Found, name: str, needed: frozenset[str], *, made: bool = False) -> None:
    """Raises `SchemaError` for a table that is not ours."""
    table = found.tables.get(name)
    if table is None:
        return
    what = f"the database {found.database} has a table `{name}`"
    if table.type not in _TABLES:
        raise SchemaError(f"{what} that is not Tarry's: it is a {table.type.lower()}: {_ADVICE}")
    if lacking := sorted(needed - table.columns):
        columns = "the column" if len(lacking) == 1 else "the columns"
        names = ", ".join(lacking[:5]) + (" and others" if len(lacking) > 5 else "")
        advice = f"if it is, restore it from a backup; if not, {_ADVICE}" if made else _ADVICE
        raise SchemaError(f"{what} that is not Tarry's: it lacks {columns} {names}: {advice}")
    if table.engine.upper() != "INNODB":
        raise SchemaError(
            f"{what} of the engine {table.engine or 'of none'}, which neither locks rows nor rolls back:"
            f" ALTER TABLE `{name}` ENGINE = InnoDB"
        )


def _check_records(found: Found, rows: Sequence[tuple[Any, ...]]) -> None:
    """The four columns are such as others may have, too."""
    if rows and not any(version == 1 and name == _FIRST for version, name in rows):
        raise SchemaError(
            f"the database {found.database} has a table `migration` that is not Tarry's, whose first is"
            f" {_FIRST.decode()}: {_ADVICE}"
        )


def _dropped_from(table: str, migrations: Iterable[Migration]) -> frozenset[str]:
    return frozenset(
        name
        for migration in migrations
        for text in migration.statements
        if (changed := _ALTER.match(text)) and changed[1] == table
        for what, name in _CHANGE.findall(text)
        if what == "DROP"
    )


def shape_of(migrations: Iterable[Migration]) -> Shape:
    """The tables that these migrations make, one after the other; of tables that others make nothing."""
    shape: dict[str, set[str]] = {}
    for text in (text for migration in migrations for text in migration.statements):
        if made := _CREATE.match(text):
            shape[made[1]] = {name for name in _COLUMN.findall(made[2]) if name not in _NOT_COLUMNS}
        elif (changed := _ALTER.match(text)) and changed[1] in shape:
            for what, name in _CHANGE.findall(text):
                (shape[changed[1]].add if what == "ADD" else shape[changed[1]].discard)(name)
    return {name: frozenset(columns) for name, columns in shape.items()}

"""Adds a CHECK of the type to each column, so that SQL from outside cannot write a value of another type.

SQLite itself accepts any value, and one text among the times of messages would break every query that reads it with
others. Integer columns must hold integers; columns of bytes may hold text, too. Tarry's own writes are not checked
(`connection`), so this costs nothing. STRICT tables are no choice, since they take no text for bytes and need SQLite
3.37; nor are triggers, which take a third of the time of the INSERT.

A CHECK exists only in the text of a table's definition. So that text is changed, as sqlite.org/lang_altertable.html
says, and no table is rewritten. Existing rows are repaired, each column by itself.
"""

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing

from attrs import frozen

from ..migrations import Migration

_TABLE = re.compile(r"CREATE TABLE `?(\w+)")
_CHECK = re.compile(r", CHECK \(typeof\(`\w+`\) IN \([a-z', ]+\)\)")
_TAKES = {"INTEGER": ("integer",), "BLOB": ("blob", "text")}
_TEXTS = "SELECT name, sql FROM sqlite_master WHERE type = 'table'"
_CHANGE = "UPDATE sqlite_master SET sql = ? WHERE type = 'table' AND name = ?"
_NAMED = 5
"""How many rows of a column are reported with the values that they had."""


@frozen
class _Column:
    """A column of a table."""

    name: str
    kind: str
    """INTEGER or BLOB."""
    in_key: bool
    may_be_null: bool

    @property
    def passes(self) -> str:
        """The condition of the CHECK."""
        types = _TAKES[self.kind] + (("null",) if self.may_be_null else ())
        return f"(typeof({self.name}) IN ({', '.join([repr(one) for one in types])}))"

    @property
    def check(self) -> str:
        """The CHECK as a part of the table's definition."""
        return f", CHECK {self.passes}"

    @property
    def meant(self) -> str:
        """An expression that repairs a value: a text becomes a number (0 if it is none), or NULL where that is
        allowed."""
        cast = f"CAST({self.name} AS {self.kind})"
        return (
            f"CASE typeof({self.name}) WHEN 'real' THEN {cast} END"
            if self.kind == "INTEGER" and self.may_be_null
            else cast
        )

    @property
    def apart(self) -> str:
        """An expression for a value that no other row has."""
        if self.kind == "INTEGER":
            return "-(random() & 9223372036854775807)"
        return f"CAST({self.name} || hex(randomblob(8)) AS BLOB)"


Checks = dict[str, set[str]]
"""The CHECKs of each table."""


def loosen(connection: sqlite3.Connection, migrations: Sequence[Migration]) -> Checks:
    """Removes the CHECKs, since a column that has one cannot be dropped; returns those that there were."""
    texts = _texts(connection, migrations)
    _change(connection, {table: _CHECK.sub("", text) for table, text in texts.items()}, texts)
    return {table: {match[0] for match in _CHECK.finditer(text)} for table, text in texts.items()}


def hold(connection: sqlite3.Connection, migrations: Sequence[Migration], before: Checks | None = None) -> list[str]:
    """Gives each column its CHECK, and repairs rows that do not pass it, but for columns that had it `before`. Returns
    a text for each repaired value."""
    texts, wanted, told = _texts(connection, migrations), dict[str, str](), list[str]()
    there_are = {table: _columns(connection, table) for table in texts}
    if all(column.check in texts[table] for table, columns in there_are.items() for column in columns):
        return []
    made = _made(migrations)
    for table, text in texts.items():
        bare = _CHECK.sub("", text)
        end, columns = bare.rindex(")"), [column for column in there_are[table] if column.name in made[table]]
        wanted[table] = bare[:end] + "".join([column.check for column in columns]) + bare[end:]
        there = (before or {}).get(table, set()) | {match[0] for match in _CHECK.finditer(text)}
        told += _put_right(connection, table, columns, [column for column in columns if column.check not in there])
    _change(connection, wanted, texts)
    return told


def _made(migrations: Sequence[Migration]) -> dict[str, set[str]]:
    """The columns of each table that the migrations make; Tarry's tables may also have columns that others added."""
    with closing(sqlite3.connect(":memory:")) as empty:
        empty.text_factory = bytes
        for migration in migrations:
            for statement in migration.statements:
                empty.execute(statement)
        return {table: {column.name for column in _columns(empty, table)} for table in _texts(empty, migrations)}


def _texts(connection: sqlite3.Connection, migrations: Sequence[Migration]) -> dict[str, str]:
    """The definition of each of Tarry's tables; a file may also hold other tables."""
    ours = {table for one in migrations for table in _TABLE.findall(one.text)}
    texts = {name.decode(): text.decode() for name, text in connection.execute(_TEXTS).fetchall()}
    return {name: text for name, text in texts.items() if name in ours}


def _columns(connection: sqlite3.Connection, table: str) -> list[_Column]:
    found = connection.execute(f"PRAGMA table_info(`{table}`)").fetchall()
    return [
        _Column(
            f"`{name.decode()}`",
            "INTEGER" if b"INT" in kind else "BLOB",
            bool(in_key),
            may_be_null=not (never_null or in_key),
        )
        for _, name, kind, never_null, _, in_key in found
    ]


def _put_right(
    connection: sqlite3.Connection, table: str, columns: Sequence[_Column], new: Sequence[_Column]
) -> list[str]:
    """Repairs values that do not pass the CHECKs of the `new` columns; returns a text for each. A value that would then
    collide with another row's becomes a negative number, which nothing reads and the doctor reports, or a longer
    name."""
    fails = " OR ".join([f"NOT {column.passes}" for column in new])
    if not new or not connection.execute(f"SELECT 1 FROM `{table}` WHERE {fails} LIMIT 1").fetchall():  # noqa: S608  # the schema's
        return []
    place, told = ", ".join([f"quote({column.name})" for column in columns if column.in_key]), list[str]()
    for column in new:
        where = f"FROM `{table}` WHERE NOT {column.passes} LIMIT {_NAMED}"
        for *key, held in connection.execute(f"SELECT {place}, substr(quote({column.name}), 1, 40) {where}").fetchall():
            told.append(f"{table} ({_text(b', '.join(key))}): {column.name} was {_text(held)}")
        for value in (column.meant, column.apart):
            connection.execute(f"UPDATE OR IGNORE `{table}` SET {column.name} = {value} WHERE NOT {column.passes}")  # noqa: S608  # as above
    return told


def _text(held: bytes) -> str:
    return held.decode("utf-8", "replace")


def _change(connection: sqlite3.Connection, wanted: dict[str, str], texts: dict[str, str]) -> None:
    changed = [(text, table) for table, text in wanted.items() if text != texts[table]]
    if not changed:
        return
    connection.execute("PRAGMA writable_schema = ON")
    if connection.execute("PRAGMA writable_schema").fetchone() == (1,):  # the SQLite of some systems forbids it
        connection.executemany(_CHANGE, changed)
        (version,) = connection.execute("PRAGMA schema_version").fetchone()
        connection.execute(f"PRAGMA schema_version = {version + 1}")  # makes other connections read the tables again
    connection.execute("PRAGMA writable_schema = RESET")

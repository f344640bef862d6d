"""The schema of a database on MySQL: reads which migrations it has, and brings it to this program's version.

MySQL commits each statement of a migration by itself: an interrupted migration is run again from its beginning.

Two databases are distinguished by the millisecond in which their first migration was applied; a replica or a copy has
the same one.
"""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ..errors import Foreign, Refused, SchemaError
from ..migrations import Applied, Migration, load_migrations, pending
from .connection import Connection
from .fitness import missing_rights, rights_for
from .literals import Statement
from .tables import RECORDS, Found, check_tables, find_tables

_DONE_BEFORE = frozenset({1060, 1061, 1091})
"""A column or an index exists already, or is gone already: the migration was interrupted after this statement."""
_NO_SUCH_TABLE, _NO_SUCH_COLUMN = 1146, 1054
_BEGUN = b"SELECT applied_at FROM migration ORDER BY version LIMIT 1"
_APPLY = Statement("INSERT INTO migration VALUES ?")
_APPLY_BESIDE = Statement("INSERT INTO migration_beside VALUES ?")
_RAISE = (
    Statement("INSERT IGNORE INTO migration SELECT * FROM migration_beside WHERE version <= ?"),
    Statement("DELETE FROM migration_beside WHERE version <= ?"),
)
_OLDER = Statement(
    "SELECT name, level FROM node WHERE level < ? AND renewed_at > "
    "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(3)) DIV 1000 - ? ORDER BY level, slot LIMIT 1"
)
_ALIVE = 5_000
"""Milliseconds after which a node that has not renewed its row is dead: `service.engine.cluster.nodes.LEASE`."""

_ADVICE = "make it a replica, with read_only, or take it out of the DSN"


async def read_applied(connection: Connection) -> Applied:
    """The migrations that were applied to the database."""
    return Applied(await _checksums(connection, b"migration"), await _checksums(connection, b"migration_beside"))


async def read_begun(connection: Connection) -> int | None:
    """When the first migration was applied, Unix milliseconds; None: there is no schema."""
    return next((begun for (begun,) in await _fetch(connection, _BEGUN)), None)


async def check_same(connection: Connection, begun: int) -> None:
    """Raises `Foreign` unless this is the database that was begun then, with all migrations that this program needs."""
    try:
        found = await read_begun(connection)
    except SchemaError as error:
        raise Foreign(f"left alone: {error}: {_ADVICE}") from error
    if found is None:
        raise Foreign(f"left alone: it has no schema of Tarry's: {_ADVICE}")
    if found != begun:
        raise Foreign(
            f"left alone: it has another database of Tarry's, begun at {_time(found)} and not at {_time(begun)}:"
            f" {_ADVICE}"
        )
    try:
        todo = pending(load_migrations("mysql"), await read_applied(connection))
    except SchemaError as error:
        raise Foreign(f"left alone: {error}") from error
    if todo:
        raise Foreign(
            f"left alone: its schema lacks {todo[0].version:04} ({todo[0].name}): `tarry migrate`, with a DSN"
            " of this host alone, brings it up to date"
        )


async def migrate(connection: Connection) -> list[str]:
    """Applies the missing migrations; returns their names. Raises `SchemaError`, in most cases before anything was
    changed: tables of others and missing rights are looked for first. The caller holds the lock for migrating.

    If no migration is missing, nothing is changed and no right to change tables is needed.
    """
    known = load_migrations("mysql")
    found = await find_tables(connection, known)
    applied = await read_applied(connection)
    todo, floor = pending(known, applied), applied.floor
    check_tables(found, known, applied.checksums)
    if todo:
        await _ask_the_living(connection, [migration for migration in todo if migration.beside > floor])
        if missing := await _find_missing_rights(connection, found, todo):
            raise SchemaError(f"{missing}; nothing was changed")
    if not found.has_records:
        for table in RECORDS:
            await connection.execute(table.encode())
    for migration in todo:
        if migration.beside > floor:
            floor = migration.beside
            for statement in _RAISE:  # from now on older servers do not start
                await connection.execute(statement.bind(floor))
        await _run(connection, migration)
        apply = _APPLY if migration.version <= floor else _APPLY_BESIDE
        row = (migration.version, migration.name.encode(), migration.checksum, time.time_ns() // 1_000_000)
        await connection.execute(apply.bind(row))
    return [f"{migration.version:04} {migration.name}" for migration in todo]


async def _ask_the_living(connection: Connection, todo: Sequence[Migration]) -> None:
    """Raises `SchemaError` when a running node is too old for one of these migrations."""
    for migration in todo:
        for name, level in await _fetch(connection, _OLDER.bind(migration.beside, _ALIVE)):
            raise SchemaError(
                f"migration {migration.version:04} ({migration.name}) wants servers that know {migration.beside:04}, "
                f"and {name.decode()}, which knows {level:04}, is at work: stop all servers that are as old, and start "
                f"again (one that was killed counts for {_ALIVE // 1000} s)"
            )


async def _run(connection: Connection, migration: Migration) -> None:
    for text in migration.statements:
        try:
            await connection.execute(text.encode())
        except Refused as error:
            if error.code in _DONE_BEFORE:
                continue
            raise SchemaError(
                f"migration {migration.version:04} ({migration.name}) stopped: {error}. Put that right and start "
                "again: it goes on from there, since each of its statements may be run again. Nothing is to be restored"
            ) from error


async def find_faults(connection: Connection) -> list[tuple[str, str]]:
    """Faults at which `migrate` would stop, and the `rights` that are missing for the work after it."""
    known = load_migrations("mysql")
    try:
        found = await find_tables(connection, known)
        applied = await read_applied(connection)
        todo = pending(known, applied)
        check_tables(found, known, applied.checksums)
    except SchemaError as error:
        return [("tables", str(error))]
    missing = await _find_missing_rights(connection, found, todo)
    return [("rights", missing)] if missing else []


async def _find_missing_rights(connection: Connection, found: Found, todo: Sequence[Migration]) -> str:
    """The rights that the user lacks for these migrations and for later work, as a sentence; empty if none is
    missing."""
    columns = {name: min(table.columns) for name, table in found.tables.items()}
    missing = await missing_rights(connection, rights_for(todo), columns)
    if not missing:
        return ""
    ((user,),) = await connection.fetch(b"SELECT CURRENT_USER()")
    name, _, host = user.rpartition("@")
    rights = ", ".join(missing)
    for_ = f"migration {todo[0].version:04} ({todo[0].name}) wants" if todo else "Tarry's work wants"
    return f"{for_} {rights}, which the user {user} lacks: GRANT {rights} ON `{found.database}`.* TO '{name}'@'{host}'"


async def _checksums(connection: Connection, table: bytes) -> Mapping[int, bytes]:
    return dict(await _fetch(connection, b"SELECT version, checksum FROM " + table))


async def _fetch(connection: Connection, text: bytes) -> list[tuple[Any, ...]]:
    """The rows of a SELECT; none if the table does not exist yet."""
    try:
        return list(await connection.fetch(text))
    except Refused as error:
        if error.code == _NO_SUCH_TABLE:
            return []
        if error.code == _NO_SUCH_COLUMN:
            raise SchemaError(
                f"the database has a table that only seems Tarry's ({error}): give Tarry a database of its own"
            ) from error
        raise


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")

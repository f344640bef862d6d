"""The schema of an embedded store: reads which migrations it has, and applies the missing ones, all or none."""

import sqlite3
import time

import structlog

from ..migrations import Applied, load_migrations, pending
from .types import hold, loosen

_TABLES = ("migration", "migration_beside")
_TABLE = """CREATE TABLE IF NOT EXISTS {name} (
  version INTEGER PRIMARY KEY, name BLOB NOT NULL, checksum BLOB NOT NULL, applied_at INTEGER NOT NULL
)"""
_APPLY = "INSERT INTO migration VALUES (?, ?, ?, ?)"
_APPLY_BESIDE = "INSERT INTO migration_beside VALUES (?, ?, ?, ?)"
_RAISE = (
    "INSERT OR IGNORE INTO migration SELECT * FROM migration_beside WHERE version <= ?",
    "DELETE FROM migration_beside WHERE version <= ?",
)

log = structlog.get_logger()


def read_applied(connection: sqlite3.Connection) -> Applied:
    """The migrations that were applied to the store."""
    return Applied(_checksums(connection, "migration"), _checksums(connection, "migration_beside"))


def migrate(connection: sqlite3.Connection) -> list[str]:
    """Applies the missing migrations in one transaction; returns their names. Raises `SchemaError`."""
    connection.execute("BEGIN IMMEDIATE")  # the lock: a second program waits here
    for name in _TABLES:
        connection.execute(_TABLE.format(name=name))
    applied = read_applied(connection)
    known = load_migrations("sqlite")
    todo, floor = pending(known, applied), applied.floor
    checks = loosen(connection, known) if todo else {}
    for migration in todo:
        if migration.beside > floor:
            floor = migration.beside
            for statement in _RAISE:
                connection.execute(statement, (floor,))
        for statement in migration.statements:
            connection.execute(statement)
        row = (migration.version, migration.name.encode(), migration.checksum, time.time_ns() // 1_000_000)
        connection.execute(_APPLY if migration.version <= floor else _APPLY_BESIDE, row)
    mended = hold(connection, known, checks)
    connection.execute("COMMIT")
    if mended:
        log.warning("rows_put_right", rows=mended, because="somebody's own SQL gave a column what it does not take")
    return [f"{migration.version:04} {migration.name}" for migration in todo]


def _checksums(connection: sqlite3.Connection, table: str) -> dict[int, bytes]:
    """The checksums by version; empty if the table does not exist yet."""
    try:
        return dict(connection.execute(f"SELECT version, checksum FROM {table}").fetchall())  # noqa: S608  # one of two
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return {}
        raise

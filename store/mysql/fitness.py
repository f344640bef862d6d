"""Checks whether a server behaves as Tarry requires, by what it does and not by its name. Nothing is changed."""

import secrets
from collections.abc import Collection, Mapping, Sequence

from ..errors import Locked, Refused, Unfit
from ..migrations import FIRST, Migration
from .connection import NEEDED, Connection

_LOCK = b"SELECT version FROM migration WHERE version = %d FOR UPDATE" % FIRST
_PAST_LOCKED = _LOCK + b" SKIP LOCKED"
_WITHOUT_WAIT = _LOCK + b" NOWAIT"
_KNOWN = {
    "tidb": "TiDB reads SKIP LOCKED and takes no lock (pingcap/tidb#69720)",
    "oceanbase": "it is OceanBase",
    "vitess": "it is Vitess, whose sessions share connections",
    "singlestore": "it is SingleStore",
    "memsql": "it is SingleStore",
}
_TABLE_DENIED = 1142
_DENIED = frozenset({1044, _TABLE_DENIED, 1143, 1227, 1370})
_LASTING = ("SELECT", "INSERT", "UPDATE", "DELETE")
_ASKED = {
    "CREATE": "CREATE TABLE {missing} LIKE {other}",
    "ALTER": "ALTER TABLE {missing} DROP COLUMN a",
    "SELECT": "SELECT 1 FROM {table} WHERE FALSE",
    "INSERT": "EXPLAIN INSERT INTO {table} SELECT * FROM {table} WHERE FALSE",
    "UPDATE": "EXPLAIN UPDATE {table} SET {column} = {column} WHERE FALSE",
    "DELETE": "EXPLAIN DELETE FROM {table} WHERE FALSE",
}
"""For each right a statement that does nothing, or fails for lack of a table, but only after the right was checked."""


async def try_locks(one: Connection, other: Connection) -> None:
    """Tries whether two sessions can lock one row at once; raises `Unfit`. `one` is in autocommit mode. No other
    program may try at the same time."""
    await one.execute(b"START TRANSACTION")
    try:
        await one.fetch(_LOCK)
        await other.begin()
        if await other.fetch(_PAST_LOCKED):
            raise _unfit(one, "a row that one session had locked was given to another that asked with SKIP LOCKED")
        try:
            await other.fetch(_WITHOUT_WAIT)
        except Locked:
            pass
        else:
            raise _unfit(one, "two sessions had one row locked FOR UPDATE at the same time")
        await other.rollback()
    finally:
        if not one.closed:
            await one.execute(b"ROLLBACK")
    await other.begin()
    if not await other.fetch(_PAST_LOCKED):
        raise _unfit(one, "a row stayed locked after the ROLLBACK of who had locked it")
    await other.rollback()


def _unfit(connection: Connection, seen: str) -> Unfit:
    text = connection.server.text
    known = next((f"; {why}" for name, why in _KNOWN.items() if name in text.lower()), "")
    return Unfit(f"the server ({text}) does not lock rows as Tarry counts on: {seen}{known}. {NEEDED}")


def wrong_settings(settings: Mapping[str, str]) -> list[str]:
    """Settings of the server, as `server_settings` reads them, under which nothing can be written; a sentence each."""
    wrong: list[str] = []
    if settings.get("log_bin") == "ON" and settings.get("binlog_format") == "STATEMENT":
        wrong.append(
            "binlog_format is STATEMENT, with which InnoDB refuses what is written at READ COMMITTED (1665):"
            " set it to ROW or MIXED"
        )
    if "INNODB" in settings.get("disabled_storage_engines", "").split(","):
        wrong.append("disabled_storage_engines names InnoDB, which all tables of Tarry's are of: take it out")
    if settings.get("enforce_storage_engine", "") not in ("", "INNODB", "NULL"):
        wrong.append("enforce_storage_engine is not InnoDB, which all tables of Tarry's are of: unset it")
    return wrong


def rights_for(todo: Sequence[Migration]) -> tuple[str, ...]:
    """The rights that a user needs: always, and for these migrations."""
    begin = {text.split()[0] for migration in todo for text in migration.statements}
    return (*_LASTING, *(right for right in ("CREATE", "ALTER") if right in begin))


async def missing_rights(connection: Connection, rights: Collection[str], tables: Mapping[str, str]) -> list[str]:
    """Which of these rights the user lacks, both on the database and on any of the tables. `tables` has a column of
    each."""
    missing: list[str] = []
    for right in rights:
        absent = f"tarry_{secrets.token_hex(8)}"
        if not await _is_denied(connection, right, absent, "a"):
            continue  # the right is on the database, and so on all tables
        own = dict(tables) if right in _LASTING else dict[str, str]()
        if not own or [1 for table, column in own.items() if await _is_denied(connection, right, table, column)]:
            missing.append(right)
    return missing


async def _is_denied(connection: Connection, right: str, table: str, column: str) -> bool:
    names = {"missing": table, "other": f"{table}_other", "table": f"`{table}`", "column": f"`{column}`"}
    try:
        await connection.fetch(_ASKED[right].format(**names).encode())
    except Refused as error:
        # CREATE TABLE LIKE also needs SELECT on the other table.
        return error.code in _DENIED and (error.code != _TABLE_DENIED or right in str(error).partition(" denied")[0])
    return False

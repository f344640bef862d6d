"""Connections to MySQL and MariaDB: the way a DSN says, with times in UTC, reading what is committed.

Those of a task that writes are in a session like the service's own. Nothing here knows Spark.
"""

import ssl
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

import pymysql
import pymysql.connections
import pymysql.cursors

from ..client.outbox.cursors import CursorTransaction
from ..store.mysql.dsn import Dsn
from .store_connection import trouble

Connection: TypeAlias = "pymysql.connections.Connection[pymysql.cursors.Cursor]"

_CONNECT = 10
"""Seconds."""
_TIMEOUT = 120
"""Seconds without a byte: a chunk is written in one statement."""
_SETTINGS = "sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', wait_timeout = 60, innodb_lock_wait_timeout = 5"
_AGAIN = {1205, 1213}
"""Lock wait and deadlock: the same transaction may succeed on another try."""
_LOST = {2003, 2006, 2013, 2014, 1053, 1927, 1040, 4031}
"""The connection is gone: the transaction may or may not be kept."""


def open_mysql(dsn: str, *, seconds: int, autocommit: bool, settings: str = "") -> Connection:
    """`seconds` without a byte end a statement; `settings` are more of a session's, with commas.

    Raises PyMySQL's errors, and ValueError for a DSN that is none.
    """
    to = Dsn.parse(dsn)
    tls: dict[str, Any] = {"ssl": ssl.create_default_context(cafile=to.ca)} if to.tls else {"ssl_disabled": True}
    connection: Connection = pymysql.connect(
        host=to.host or None,
        port=to.port,
        unix_socket=to.socket,
        user=to.user,
        password=to.password,
        database=to.database,
        autocommit=autocommit,
        charset="utf8mb4",
        connect_timeout=_CONNECT,
        read_timeout=seconds,
        write_timeout=seconds,
        **tls,
    )
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")  # a variable has two names for it
        cursor.execute("SET SESSION time_zone = '+00:00'" + (settings and f", {settings}"))
    return connection


def connect(dsn: str) -> Connection:
    """Raises `StoreAway` or another `PipelineError`, and ValueError for a DSN that is none."""
    try:
        return open_mysql(dsn, seconds=_TIMEOUT, autocommit=False, settings=_SETTINGS)
    except (pymysql.err.MySQLError, OSError) as error:
        raise trouble(dsn, error) from error


def may_succeed(error: Exception) -> bool:
    """On another try."""
    code = error.args[0] if error.args else 0
    return isinstance(error, pymysql.err.InterfaceError) or code in _LOST or code in _AGAIN


@contextmanager
def opened(dsn: str) -> Generator[CursorTransaction]:
    """The store's transaction over a connection, for the length of a `with`."""
    connection = connect(dsn)
    try:
        yield CursorTransaction(connection.cursor(), None)
    finally:
        with suppress(pymysql.err.MySQLError):
            connection.close()


def rest(tried: int) -> None:
    """Before another try."""
    time.sleep(min(2.0, 0.05 * 2**tried))

"""A connection of a task that writes: PyMySQL, in a session like the service's own. Nothing here knows Spark."""

import contextlib
import ssl
import time
from collections.abc import Generator, Sequence
from typing import Any, TypeAlias

import pymysql
import pymysql.connections
import pymysql.cursors

from ..store.mysql.dsn import Dsn
from ..store.mysql.statements import bind
from ..store.ports import Row, Value
from .errors import StoreAway

Connection: TypeAlias = "pymysql.connections.Connection[pymysql.cursors.Cursor]"

CLOCK = "CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(3)) DIV 1000 AS SIGNED)"

_SESSION = (
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', wait_timeout = 60, "
    "innodb_lock_wait_timeout = 5, TRANSACTION_ISOLATION = 'READ-COMMITTED'"
)
_OLD_SESSION = _SESSION.replace("TRANSACTION_ISOLATION", "TX_ISOLATION")  # MariaDB before 11.1
_UNKNOWN_VARIABLE = 1193
_AGAIN = {1205, 1213}
"""Lock wait and deadlock: the same transaction may succeed on another try."""
DUPLICATE = 1062
_LOST = {2003, 2006, 2013, 2014, 1053, 1927, 1040, 4031}


def connect(dsn: str) -> Connection:
    """Raises `StoreAway`, and ValueError for a DSN that is none."""
    parsed = Dsn.parse(dsn)
    tls: dict[str, Any] = (
        {"ssl": ssl.create_default_context(cafile=parsed.ca)} if parsed.tls else {"ssl_disabled": True}
    )
    try:
        connection: Connection = pymysql.connect(
            host=parsed.host or None,
            port=parsed.port,
            unix_socket=parsed.socket,
            user=parsed.user,
            password=parsed.password,
            database=parsed.database,
            charset="utf8mb4",
            connect_timeout=10,
            read_timeout=120,
            write_timeout=120,
            **tls,
        )
        try:
            connection.cursor().execute(_SESSION)
        except pymysql.err.OperationalError as error:
            if error.args[0] != _UNKNOWN_VARIABLE:
                raise
            connection.cursor().execute(_OLD_SESSION)
    except pymysql.err.MySQLError as error:
        raise StoreAway(f"{parsed} does not let us in: {said(error)}") from error
    return connection


def said(error: pymysql.err.MySQLError) -> str:
    return str(error.args[-1]) if error.args else type(error).__name__


def code(error: pymysql.err.MySQLError) -> int:
    return int(error.args[0]) if error.args and isinstance(error.args[0], int) else 0


def is_lost(error: pymysql.err.MySQLError) -> bool:
    """The connection is gone: the transaction may or may not be kept."""
    return isinstance(error, pymysql.err.InterfaceError) or code(error) in _LOST


def may_succeed(error: pymysql.err.MySQLError) -> bool:
    """On another try."""
    return is_lost(error) or code(error) in _AGAIN


class Session:
    """The store's queries over one connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def rows(self, sql: str) -> list[Row]:
        """Of a statement that is whole."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def run(self, sql: str) -> int:
        """Runs a statement; how many rows it changed."""
        with self.connection.cursor() as cursor:
            return cursor.execute(sql)

    def fetch(self, query: str, *values: Value | Sequence[Value]) -> list[Row]:
        """The rows of a query of the store's."""
        return self.rows(bind(query, values).decode())

    def now(self) -> int:
        """The database's clock."""
        ((now,),) = self.rows(f"SELECT {CLOCK}")
        return int(now)


@contextlib.contextmanager
def opened(dsn: str) -> Generator[Session]:
    """A session for the length of a `with`."""
    connection = connect(dsn)
    try:
        yield Session(connection)
    finally:
        with contextlib.suppress(pymysql.err.MySQLError):
            connection.close()


def rest(tried: int) -> None:
    """Before another try."""
    time.sleep(min(2.0, 0.05 * 2**tried))

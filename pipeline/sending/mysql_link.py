"""A connection of a task that writes: PyMySQL, in a session like the service's own. Nothing here knows Spark."""

import contextlib
import time
from collections.abc import Generator, Sequence

import pymysql

from ...store.mysql.statements import bind
from ...store.ports import Row, Value
from ..link import MYSQL_NOW, trouble
from ..mysql_opening import Connection, open_mysql

_TIMEOUT = 120
"""Seconds without a byte: a chunk is written in one statement."""
_SETTINGS = "sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', wait_timeout = 60, innodb_lock_wait_timeout = 5"
_AGAIN = {1205, 1213}
"""Lock wait and deadlock: the same transaction may succeed on another try."""
DUPLICATE = 1062
_LOST = {2003, 2006, 2013, 2014, 1053, 1927, 1040, 4031}


def connect(dsn: str) -> Connection:
    """Raises `StoreAway` or another `PipelineError`, and ValueError for a DSN that is none."""
    try:
        return open_mysql(dsn, seconds=_TIMEOUT, autocommit=False, settings=_SETTINGS)
    except (pymysql.err.MySQLError, OSError) as error:
        raise trouble(dsn, error) from error


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

    def change(self, query: str, *values: Value | Sequence[Value]) -> int:
        """Runs a query of the store's; how many rows it changed."""
        return self.run(bind(query, values).decode())

    def fetch(self, query: str, *values: Value | Sequence[Value]) -> list[Row]:
        """The rows of a query of the store's."""
        return self.rows(bind(query, values).decode())

    def now(self) -> int:
        """The database's clock."""
        ((now,),) = self.rows(MYSQL_NOW)
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

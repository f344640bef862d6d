"""A SELECT on MySQL or MariaDB to Arrow: through connectorx, or PyMySQL where the DSN asks for TLS or a socket.

connectorx reads VARBINARY and BLOB as binary, as they are. It opens a connection per statement, in autocommit.
"""

from functools import lru_cache, partial
from importlib import import_module
from typing import Any

from ...store.mysql.dsn import Dsn
from ..arrow import Table, pa
from ..link import READ_TIMEOUT, trouble

_CONNECTORX = partial(import_module, "connectorx")  # it has types that say nothing
_FATAL = (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError)


def fetch(dsn: str, sql: str) -> Table:
    """The rows of one bounded statement, columns by their names in it. Raises `PipelineError`."""
    to = Dsn.parse(dsn)
    if to.tls or to.socket is not None:
        return _by_pymysql(dsn, sql)
    try:
        return _CONNECTORX().read_sql(dsn.partition("?")[0], sql, return_type="arrow", protocol="binary")
    except _FATAL:
        raise
    except BaseException as error:  # its panics are no Exceptions
        raise trouble(dsn, error) from error


def _by_pymysql(dsn: str, sql: str) -> Table:
    import pymysql

    try:
        with _connection(dsn).cursor() as cursor:
            cursor.execute(sql)
            return table_of([column[0] for column in cursor.description], cursor.fetchall())
    except (pymysql.err.Error, OSError) as error:
        _connection.cache_clear()
        raise trouble(dsn, error) from error


@lru_cache(1)
def _connection(dsn: str) -> Any:
    from ..mysql_opening import open_mysql

    return open_mysql(dsn, seconds=READ_TIMEOUT, autocommit=True)


def table_of(names: list[str], rows: Any) -> Table:
    """Rows as a driver gives them, to Arrow."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return pa.table({name: pa.array(list(column)) for name, column in zip(names, columns, strict=True)})

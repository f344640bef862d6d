"""Runs a bounded statement and returns an Arrow table, with columns by their names, beside a running server.

MySQL and MariaDB are read by connectorx, which reads VARBINARY and BLOB as they are, and opens a connection per
statement, in autocommit. It knows neither our TLS nor sockets: these, and the embedded store, are read row by row.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from importlib import import_module

from ...store.mysql.dsn import Dsn
from ..arrow import Table, pa
from ..errors import PipelineError
from ..store_connection import StoreConnection, kind_of, trouble, with_one_host

Fetch = Callable[[str], Table]
"""Runs a statement. Raises `PipelineError`."""

_CONNECTORX = partial(import_module, "connectorx")  # it has types that say nothing
_FATAL = (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError)


def fetcher(dsn: str) -> Fetch:
    """A function that runs statements on the store."""
    if kind_of(dsn) == "mysql":
        to = Dsn.parse(dsn)
        if all(one.ssl_mode == "DISABLED" for one in to.each) and to.socket is None:
            return partial(_by_connectorx, dsn)
    return partial(_row_by_row, dsn)


def _by_connectorx(dsn: str, sql: str) -> Table:
    dsn = with_one_host(dsn)
    try:
        return _CONNECTORX().read_sql(dsn.partition("?")[0], sql, return_type="arrow", protocol="binary")
    except _FATAL:
        raise
    except BaseException as error:  # its panics are no Exceptions
        raise trouble(dsn, error) from error


def _row_by_row(dsn: str, sql: str) -> Table:
    try:
        return pa.table({name: pa.array(values) for name, values in _link(dsn).columns(sql).items()})
    except PipelineError:
        _link.cache_clear()
        raise


@lru_cache(1)
def _link(dsn: str) -> StoreConnection:
    return StoreConnection(dsn)

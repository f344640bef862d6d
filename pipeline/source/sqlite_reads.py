"""A SELECT on the embedded store to Arrow. It reads beside a running server, and writes nothing."""

import sqlite3
from functools import lru_cache
from pathlib import Path

from ..arrow import Table
from ..errors import PipelineError
from ..link import open_sqlite, trouble
from .mysql_reads import table_of


def fetch(dsn: str, sql: str) -> Table:
    """The rows of one bounded statement, columns by their names in it. Raises `PipelineError`."""
    path = Path(dsn.removeprefix("sqlite:///"))
    try:
        if not path.is_file():
            raise PipelineError(f"there is no store at {path}: every worker must see the file")
        cursor = _connection(path).execute(sql)
        return table_of([column[0] for column in cursor.description], cursor.fetchall())
    except sqlite3.Error as error:
        _connection.cache_clear()
        raise trouble(dsn, error) from error


@lru_cache(1)
def _connection(path: Path) -> sqlite3.Connection:
    return open_sqlite(path)

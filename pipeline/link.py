"""A connection to the store for the pipeline: small reads and tiny writes, one statement each, in autocommit.

Large reads go through `mysql_reads` and `sqlite_reads`. Nothing here loads trio, since Spark's workers import it.
"""

import sqlite3
import urllib.parse
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol, TypeVar

from ..store.mysql.dsn import Dsn
from .errors import PipelineError, StoreAway

_SQLITE = "sqlite:///"
_WAIT = 30
"""Seconds for a statement on the embedded store to wait for its writer."""
READ_TIMEOUT = 300
"""Seconds without a byte from MySQL; every statement is bounded, so none takes as long."""
MYSQL_NOW = "SELECT CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(3)) DIV 1000 AS SIGNED)"
_SQLITE_NOW = "SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
_NO_DATABASE = 1049
_REFUSED = (1045, 1044, 1142, 1143)
"""MySQL's numbers for: this user may not."""

Row = tuple[Any, ...]
T = TypeVar("T")


class _Connection(Protocol):
    """What Tarry uses of a DB-API connection."""

    def cursor(self) -> Any: ...

    def close(self) -> None: ...


def kind_of(dsn: str) -> Literal["mysql", "sqlite"]:
    """Raises ValueError when it is neither; MySQL's includes MariaDB."""
    if dsn.startswith("mysql://"):
        Dsn.parse(dsn)
        return "mysql"
    if dsn.startswith(_SQLITE) and len(dsn) > len(_SQLITE) and "?" not in dsn:
        return "sqlite"
    scheme = dsn.partition("://")[0]
    raise ValueError(
        f"a store of kind {scheme!r} is unknown: use sqlite:///FILE or mysql://USER:PASSWORD@HOST/DATABASE"
    )


def name_of(dsn: str) -> str:
    """The store as it may be shown: without a password."""
    return str(Dsn.parse(dsn)) if kind_of(dsn) == "mysql" else dsn


def absolute(dsn: str) -> str:
    """The same store, wherever a worker stands."""
    if kind_of(dsn) == "mysql":
        return dsn
    return _SQLITE + str(Path(dsn.removeprefix(_SQLITE)).absolute())


class Link:
    """An open connection; `with` closes it. Every error is a `PipelineError` that tells what to do."""

    def __init__(self, dsn: str, *, write: bool = False) -> None:
        self.dsn = dsn
        self.kind = kind_of(dsn)
        self._connection: _Connection
        self._connection, self._errors = _connect_mysql(dsn) if self.kind == "mysql" else _connect_sqlite(dsn, write)

    def __enter__(self) -> "Link":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        """The rows of a SELECT; `?` takes a value."""
        return self._run(sql, values, lambda cursor: list(cursor.fetchall()))

    def change(self, sql: str, values: Sequence[object] = ()) -> int:
        """Runs a statement, committed at once; how many rows it changed."""
        return self._run(sql, values, lambda cursor: int(cursor.rowcount))

    def now(self) -> int:
        """Unix milliseconds by the store's clock."""
        return int(self.rows(MYSQL_NOW if self.kind == "mysql" else _SQLITE_NOW)[0][0])

    def _run(self, sql: str, values: Sequence[object], answer: Callable[[Any], T]) -> T:
        if self.kind == "mysql":
            sql = sql.replace("?", "%s")
        try:
            cursor = self._connection.cursor()
            try:
                if values:
                    cursor.execute(sql, tuple(values))
                else:
                    cursor.execute(sql)
                return answer(cursor)
            finally:
                cursor.close()
        except self._errors as error:
            raise trouble(self.dsn, error) from error


def _connect_sqlite(dsn: str, write: bool) -> tuple[_Connection, tuple[type[Exception], ...]]:
    path = Path(dsn.removeprefix(_SQLITE))
    if not path.is_file():
        raise PipelineError(f"there is no store at {path}: name the file that the server uses, sqlite:///FILE")
    try:
        return open_sqlite(path, write=write), (sqlite3.Error,)
    except sqlite3.Error as error:
        raise trouble(dsn, error) from error


def open_sqlite(path: Path, *, write: bool = False) -> sqlite3.Connection:
    """The embedded store's file, beside a server or alone; read-only unless told otherwise."""
    place = urllib.parse.quote(str(path.absolute()))
    connection = sqlite3.connect(
        f"file:{place}?mode={'rw' if write else 'ro'}", uri=True, isolation_level=None, check_same_thread=False
    )
    connection.execute(f"PRAGMA busy_timeout = {_WAIT * 1000}")
    return connection


def _connect_mysql(dsn: str) -> tuple[_Connection, tuple[type[Exception], ...]]:
    import pymysql

    from .mysql_opening import open_mysql

    errors = (pymysql.err.Error, OSError)
    try:
        return open_mysql(dsn, seconds=READ_TIMEOUT, autocommit=True), errors
    except errors as error:
        raise trouble(dsn, error) from error


def trouble(dsn: str, error: BaseException) -> PipelineError:
    """The error of a driver as a sentence."""
    where, text = name_of(dsn), " ".join(str(part) for part in error.args) or type(error).__name__
    number = error.args[0] if error.args and isinstance(error.args[0], int) else None
    if number == 1146 or "no such table" in text:
        return PipelineError(
            f"{where} holds no Tarry tables, or those of another version: run `tarry migrate` ({text})"
        )
    if number == _NO_DATABASE:
        return PipelineError(f"{where}: there is no such database; correct the name, or make it ({text})")
    if number in _REFUSED or "readonly database" in text:
        return PipelineError(f"{where} refuses this user: {text}")
    return StoreAway(f"the store {where} does not answer: {text}. Nothing was lost; run it again")

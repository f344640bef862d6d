"""A connection to the store for the pipeline: small reads and tiny writes, one statement each, in autocommit.

Large reads go through `source/reads`. All else opens MySQL by `open_mysql`, too: as the DSN says, with times in UTC,
reading committed rows. Nothing here loads trio, since Spark's workers import this file.
"""

import sqlite3
import ssl
import urllib.parse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import pymysql
import pymysql.connections
import pymysql.cursors

from ..client.outbox.cursors import CLOCK
from ..store.errors import Refused
from ..store.mysql.dsn import Dsn, one_for_each_host
from ..store.mysql.read_only import COLUMNS, why_read_only
from ..store.mysql.statements import bind as bind_for_mysql
from ..store.mysql.statements import statement
from ..store.mysql.trust import trust
from ..store.ports import Value
from ..store.sqlite.statements import bind as bind_for_sqlite
from ..store.sqlite.statements import insert
from .errors import PipelineError, StoreAway

_SQLITE = "sqlite:///"
_WAIT = 30
"""Seconds for a statement on the embedded store to wait for its writer."""
_CONNECT = 10
"""Seconds for MySQL to let us in."""
_READ_TIMEOUT = 300
"""Seconds without a byte from MySQL; every statement is bounded, so none takes as long."""
_SQLITE_NOW = "SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
_NO_DATABASE = 1049
_REFUSED = (1045, 1044, 1142, 1143)
"""MySQL's numbers of errors for missing rights."""

_MAX_STATEMENT = 1 << 20
"""Bytes of a statement."""
_ERRORS = (sqlite3.Error, pymysql.err.Error, OSError)
"""The errors of the drivers."""

Connection: TypeAlias = "pymysql.connections.Connection[pymysql.cursors.Cursor]"
Row = dict[str, Any]
"""Values by the names of the columns."""
T = TypeVar("T")


def kind_of(dsn: str) -> Literal["mysql", "sqlite"]:
    """The kind of a store; `mysql` includes MariaDB. Raises ValueError for any other."""
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
    """The DSN of the same store from any working folder."""
    if kind_of(dsn) == "mysql":
        return dsn
    return _SQLITE + str(Path(dsn.removeprefix(_SQLITE)).absolute())


class StoreConnection:
    """An open connection; `with` closes it. Every error is a `PipelineError` that tells what to do."""

    def __init__(self, dsn: str, *, write: bool = False) -> None:
        self.dsn = dsn
        self.kind = kind_of(dsn)
        self._connection: Any
        """A connection of DB-API."""
        if self.kind == "mysql":
            self._connection = open_mysql(dsn, seconds=_READ_TIMEOUT, autocommit=True)
        else:
            self._connection = _open_sqlite(dsn, write)

    def __enter__(self) -> "StoreConnection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def fetch(self, query: str, *values: Value | Sequence[Value]) -> list[Row]:
        """Runs a query of the store; returns its rows."""
        names, rows = self._run(lambda cursor: _answered(cursor, *self._bound(query, values)))
        return [dict(zip(names, row, strict=True)) for row in rows]

    def execute(self, query: str, *values: Value | Sequence[Value]) -> int:
        """Runs a statement of the store, committed at once; returns how many rows it changed."""

        def ask(cursor: Any) -> int:
            cursor.execute(*self._bound(query, values))
            return int(cursor.rowcount)

        return self._run(ask)

    def execute_many(self, query: str, rows: Sequence[Sequence[Value]]) -> int:
        """Inserts the rows; returns how many."""
        return self._run(lambda cursor: self._insert(cursor, query, rows))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Runs a complete statement; returns its rows."""
        return self._run(lambda cursor: _answered(cursor, sql)[1])

    def columns(self, sql: str) -> dict[str, list[Any]]:
        """Runs a complete statement; returns its columns by their names."""
        names, rows = self._run(lambda cursor: _answered(cursor, sql))
        return {name: [row[place] for row in rows] for place, name in enumerate(names)}

    def now(self) -> int:
        """Unix milliseconds by the store's clock."""
        return int(self.rows(f"SELECT {CLOCK}" if self.kind == "mysql" else _SQLITE_NOW)[0][0])

    def _bound(self, query: str, values: Sequence[Value | Sequence[Value]]) -> tuple[Any, ...]:
        if self.kind == "mysql":
            return (bind_for_mysql(query, values).decode(),)
        return bind_for_sqlite(query, values)

    def _insert(self, cursor: Any, query: str, rows: Sequence[Sequence[Value]]) -> int:
        if self.kind == "sqlite":
            cursor.execute("BEGIN IMMEDIATE")
            cursor.executemany(insert(query, len(rows[0])), rows)
            many = int(cursor.rowcount)
            cursor.execute("COMMIT")
            return many
        texts = statement(query)[0].bind_many(rows, max_bytes=_MAX_STATEMENT)
        return sum(int(cursor.execute(text.decode())) for text in texts)

    def _run(self, ask: Callable[[Any], T]) -> T:
        try:
            cursor = self._connection.cursor()
            try:
                return ask(cursor)
            finally:
                cursor.close()
        except _ERRORS as error:
            raise trouble(self.dsn, error) from error


def _answered(cursor: Any, *statement: Any) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The names of the columns, and the rows."""
    cursor.execute(*statement)
    return [column[0] for column in cursor.description], list(cursor.fetchall())


def text_of(value: bytes | str) -> str:
    """Decodes a name or a text of a column; a user's own program may have written bytes that are no UTF-8."""
    return value if isinstance(value, str) else bytes(value).decode("utf-8", "replace")


def _open_sqlite(dsn: str, write: bool) -> sqlite3.Connection:
    path = Path(dsn.removeprefix(_SQLITE))
    if not path.is_file():
        raise PipelineError(
            f"there is no store at {path}: name the file that the server uses, sqlite:///FILE; every worker must see it"
        )
    # Beside a server or alone.
    place = f"file:{urllib.parse.quote(str(path.absolute()))}?mode={'rw' if write else 'ro'}"
    try:
        connection = sqlite3.connect(place, uri=True, isolation_level=None, check_same_thread=False)
        connection.execute(f"PRAGMA busy_timeout = {_WAIT * 1000}")
    except sqlite3.Error as error:
        raise trouble(dsn, error) from error
    return connection


def open_mysql(dsn: str, *, seconds: int, autocommit: bool, settings: str = "") -> Connection:
    """Opens MySQL. `seconds` without a byte end a statement; `settings` are more settings of the session, with commas.

    Of several hosts it opens the first that takes writes; a single host may be a replica. Raises `StoreAway` or
    another `PipelineError`, and ValueError for an invalid DSN.
    """
    to = Dsn.parse(dsn)
    if to.others:
        to = Dsn.parse(with_one_host(dsn))
    return _open_mysql(to, seconds, autocommit, settings)


def with_one_host(dsn: str) -> str:
    """The DSN with the host that takes writes now, for a driver that knows only one. Raises as `open_mysql` does."""
    texts = one_for_each_host(dsn)
    if len(texts) == 1:
        return dsn
    wrong: list[str] = []
    for text in texts:
        try:
            with open_mysql(text, seconds=_CONNECT, autocommit=True) as connection:
                why = _read_only(connection)
        except PipelineError as error:
            why = str(error)
        if why is None:
            return text
        wrong.append(f"{name_of(text)}: {why}")
    raise StoreAway(f"none of the {len(wrong)} hosts takes writes. {'; '.join(wrong)}")


def _read_only(connection: Connection) -> str | None:
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {COLUMNS}")
            return why_read_only(cursor.fetchall()[0])
    except _ERRORS as error:
        return " ".join(map(str, error.args))


def _open_mysql(to: Dsn, seconds: int, autocommit: bool, settings: str) -> Connection:
    dsn = str(to)
    try:
        context = trust(to.ssl_mode, to.ssl_ca)
        tls: dict[str, Any] = {"ssl_disabled": True} if context is None else {"ssl": context}
        if to.ssl_mode == "PREFERRED":
            tls = {}  # the driver's own way: TLS where the server offers it
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
        if "ssl" in tls and not isinstance(getattr(connection, "_sock", None), ssl.SSLSocket):
            connection.close()  # older drivers go on in clear where the server offers none
            raise StoreAway(f"{name_of(dsn)} offers no TLS: set it up there, or say ssl_mode=DISABLED")
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")  # a variable has two names for it
            cursor.execute("SET SESSION time_zone = '+00:00'" + (settings and f", {settings}"))
    except Refused as error:
        raise PipelineError(str(error)) from error
    except _ERRORS as error:
        raise trouble(dsn, error) from error
    return connection


def trouble(dsn: str, error: BaseException) -> PipelineError:
    """Turns the error of a driver into a sentence."""
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

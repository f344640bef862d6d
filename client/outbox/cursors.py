"""The store's transaction over a user's cursor, plain or asynchronous.

A statement is sent complete, with its values as hexadecimal literals, so that the parameter style, escapes and
character set of a driver do not matter. Drivers differ in their results, too: dicts for rows, bytearrays for bytes.
"""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from inspect import isawaitable
from typing import Any, NoReturn, Protocol, cast

from ...store.errors import DuplicateKey, NoSuchTable, StoreError
from ...store.mysql.statements import bind, statement
from ...store.ports import Bound, Value
from ...store.rows import R, read
from . import moved

Row = tuple[Any, ...]

CLOCK = "CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(3)) DIV 1000 AS SIGNED)"
"""The database's clock, Unix milliseconds."""

_MAX_STATEMENT = 12 << 20
"""Bytes: below the default max_allowed_packet of servers, 16 MiB or more."""
_DUPLICATE = 1062
_NO_TABLE = {1146, 1049}
_TABLE_EXISTS = 1050
_NO_SAVEPOINT = 1305


class Cursor(Protocol):
    """A DB-API cursor."""

    @property
    def rowcount(self) -> int: ...
    def execute(self, sql: str, /) -> object: ...
    def fetchall(self) -> Iterable[Any]: ...


class AsyncCursor(Protocol):
    """A cursor whose calls are awaited."""

    @property
    def rowcount(self) -> int: ...
    def execute(self, sql: str, /) -> Awaitable[object]: ...
    def fetchall(self) -> Awaitable[Iterable[Any]]: ...


class TableExists(StoreError):
    """There is such a table."""


class NoSuchSavepoint(StoreError):
    """There is no such savepoint."""


class CursorTransaction:
    """The store's transaction over a cursor. Over a plain one it never suspends: `drive` runs coroutines over it."""

    def __init__(self, cursor: Cursor | AsyncCursor, database: str | None) -> None:
        self._cursor = cursor
        self._database = database

    async def ask(self, sql: str) -> list[Row]:
        """Runs a statement; returns its rows."""
        await self.run(sql)
        rows = self._cursor.fetchall()
        return [_row(row) for row in (await rows if isawaitable(rows) else rows)]

    async def run(self, sql: str) -> int:
        """Runs a statement; returns the driver's row count."""
        try:
            running = self._cursor.execute(sql)
            if isawaitable(running):
                await running
        except Exception as error:
            _raise(error)
        return self._cursor.rowcount

    async def now(self) -> int:
        """The time by the database's clock, with what a test has added to it."""
        ((now,),) = await self.ask(f"SELECT {CLOCK} AS now")
        return int(now) + await self.ahead()

    async def ahead(self) -> int:
        """Milliseconds that a test has added by hand, see `moved`."""
        if not moved.is_anywhere():
            return 0
        name: Any = self._database
        if name is None:
            ((name,),) = await self.ask("SELECT DATABASE() AS name")
        return moved.ahead_of(name.decode() if isinstance(name, bytes) else name or "")

    async def fetch(self, query: str, row: type[R], /, *values: Bound) -> list[R]:
        """Runs a SELECT of the store; returns its rows."""
        return read(row, await self.ask(bind(query, values, self._database).decode()))

    async def execute(self, query: str, *values: Bound) -> int:
        """Runs a statement of the store; returns the driver's row count."""
        return await self.run(bind(query, values, self._database).decode())

    async def execute_many(self, query: str, rows: Sequence[Sequence[Value]]) -> int:
        """Inserts the rows; returns how many."""
        prepared, _ = statement(query, self._database)
        inserted = 0
        for text in prepared.bind_many(rows, max_bytes=_MAX_STATEMENT):
            inserted += await self.run(text.decode())
        return inserted


def _raise(error: Exception) -> NoReturn:
    """Raises an error that the store's functions know as the store's; any other stays the driver's."""
    code = getattr(error, "errno", None) or (error.args[0] if error.args else None)
    if code == _DUPLICATE:
        raise DuplicateKey(str(error), _DUPLICATE) from error
    if code == _TABLE_EXISTS:
        raise TableExists(str(error), code) from error
    if code in _NO_TABLE:
        raise NoSuchTable(str(error), code) from error
    if code == _NO_SAVEPOINT:
        raise NoSuchSavepoint(str(error), code) from error
    raise error


def _row(row: Any) -> Row:
    values: Iterable[Any] = cast("Mapping[str, Any]", row).values() if isinstance(row, Mapping) else row
    return tuple([bytes(value) if isinstance(value, bytearray) else value for value in values])

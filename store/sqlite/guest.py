"""Access to the embedded store beside its server, for other programs that read or write a few rows.

It takes no lock that a server may hold, and makes no schema. SQLite itself lets one writer in after the other.
"""

import random
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from sqlite3 import Error
from typing import TypeVar

import trio

from ..errors import Contention, SchemaError
from ..migrations import Applied
from ..ports import Guest, Work
from .connection import SQLiteTransaction, connect, drive
from .errors import translate
from .schema import read_applied

T = TypeVar("T")

_PATIENCE = 15.0
"""Seconds to wait for another writer that is in the way."""
_PAUSE = 0.1


class SQLiteGuest(Guest):
    """A guest over an existing file. Raises `SchemaError` if there is none."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise SchemaError(f"there is no store at {path} yet: `tarry migrate` or `tarry serve` makes it")
        self._connection = connect(path.resolve())
        # The log is copied into the file by a server, in its own time (see `checkpoints`), or by the last one to close.
        self._connection.execute("PRAGMA wal_autocheckpoint = 0")

    async def write(self, work: Work[T]) -> T:
        return await self._patiently(lambda: self._write(work))

    async def read(self, work: Work[T]) -> T:
        return await self._patiently(lambda: drive(work(SQLiteTransaction(self._connection))))

    async def now(self) -> int:
        """The host's clock."""
        return time.time_ns() // 1_000_000

    async def applied(self) -> Applied:
        try:
            return read_applied(self._connection)
        except Error as error:
            raise translate(error) from error

    async def aclose(self) -> None:
        self._connection.close()

    async def _patiently(self, step: Callable[[], T]) -> T:
        until = trio.current_time() + _PATIENCE
        while True:
            try:
                return step()
            except Contention:
                if trio.current_time() > until:
                    raise
            await trio.sleep(_PAUSE * (1 + random.random()))  # noqa: S311  # spreads tries, guards nothing

    def _write(self, work: Work[T]) -> T:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            result = drive(work(SQLiteTransaction(self._connection)))
            self._connection.execute("COMMIT")
        except Exception as error:
            with suppress(Error):
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            raise translate(error) from error
        return result

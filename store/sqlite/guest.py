"""The embedded store beside its server: another program's few rows, in a file that a server may hold.

No lock of the server's, and no schema is made. SQLite itself lets one writer in after the other.
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
from ..ports import Work
from .connection import SQLiteTransaction, connect, drive
from .errors import translate
from .schema import read_applied

T = TypeVar("T")

_PATIENCE = 15.0
"""Seconds for which a writer that is in the way is waited for."""
_PAUSE = 0.1


class SQLiteGuest:
    """A `store.ports.Guest` over a file that is there. Raises `SchemaError` where there is none."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise SchemaError(f"there is no store at {path} yet: `tarry migrate` or `tarry serve` makes it")
        self._connection = connect(path.resolve())
        # What is in the log a server copies, at its own time (see `checkpoints`), or else whoever closes the file last.
        self._connection.execute("PRAGMA wal_autocheckpoint = 0")

    async def write(self, work: Work[T]) -> T:
        """Runs `work` in a transaction of its own."""
        return await self._patiently(lambda: self._write(work))

    async def read(self, work: Work[T]) -> T:
        """Runs `work` outside of any lock."""
        return await self._patiently(lambda: drive(work(SQLiteTransaction(self._connection))))

    async def now(self) -> int:
        """The host's clock."""
        return time.time_ns() // 1_000_000

    async def applied(self) -> Applied:
        """The migrations that the file has."""
        try:
            return read_applied(self._connection)
        except Error as error:
            raise translate(error) from error

    async def aclose(self) -> None:
        """Lets the file go."""
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

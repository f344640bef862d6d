"""The embedded store: a file that it alone uses (`file_lock`), one writer thread, readers on connections of their own.

WAL with synchronous=FULL: an acknowledged commit is on the disk. Time starts at the host's clock and then runs by
itself (`steady_clock`).
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from sqlite3 import Connection
from typing import TypeVar

import trio

from ..errors import Refused, StoreError, Unavailable
from ..migrations import Applied
from ..ports import Backend, Work
from ..steady_clock import SteadyClock
from .connection import SQLiteTransaction, connect, drive
from .errors import translate
from .file_lock import FileLock
from .schema import migrate, read_applied
from .writer import Writer

T = TypeVar("T")

_READERS = 2


class SQLiteBackend(Backend):
    """A backend over one file. Raises `StoreInUse` if another server has the file."""

    def __init__(self, path: Path, clock: SteadyClock | None = None) -> None:
        # Resolved once, so that a changed link or another working directory does not lead later readers elsewhere.
        self.path = _resolved(path)
        self._lock = FileLock(self.path)
        try:
            self._writer = Writer(self.path)
        except StoreError:
            self._lock.close()
            raise
        self._clock = clock or SteadyClock()
        self._idle: list[Connection] = []
        self._limit = trio.CapacityLimiter(_READERS)

    async def write(self, work: Work[T], *, heavy: bool = False) -> T:
        """Runs `work` in the writer thread. The outcome of a commit is always known here."""
        return await self._writer.write(work, heavy=heavy)

    async def read(self, work: Work[T]) -> T:
        """Runs `work` in a thread, on a connection of its own."""
        return await trio.to_thread.run_sync(self._read, work, limiter=self._limit, abandon_on_cancel=False)

    def _read(self, work: Work[T]) -> T:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = connect(self.path)
        try:
            return drive(work(SQLiteTransaction(connection)))
        finally:
            self._idle.append(connection)

    async def now(self) -> int:
        """The host's clock when the store was opened, plus the time since."""
        return self._clock.now()

    async def exact_now(self) -> float:
        return self._clock.exact_now()

    async def note(self, work: Work[T]) -> T:
        """Runs `work` as any other write, in one transaction: there is one writer."""
        return await self._writer.write(work)

    def waited_for(self) -> bool:
        """Whether light work waits for the running heavy work."""
        return self._writer.waited_for()

    def skew(self) -> int:
        """How many milliseconds the host's clock was set ahead since the store was opened."""
        return self._clock.skew()

    async def migrate(self) -> list[str]:
        return await trio.to_thread.run_sync(self._connected, migrate)

    async def applied(self) -> Applied:
        return await trio.to_thread.run_sync(self._connected, read_applied)

    def _connected(self, work: Callable[[Connection], T]) -> T:
        try:
            with closing(connect(self.path)) as connection:
                return work(connection)
        except StoreError:
            raise
        except Exception as error:
            raise translate(error) from error

    def sequence(self, topic_queues: Sequence[int], *, by_redis: bool) -> None:
        """Raises `Refused` for Redis: with one writer there is nothing to gain from it."""
        del topic_queues
        if by_redis:
            raise Refused("offsets are drawn from Redis on MySQL only: leave sequencer out, or say store")

    async def aclose(self) -> None:
        """Ends the writer after the waiting work, and releases the file."""
        await self._writer.aclose()
        while self._idle:
            self._idle.pop().close()
        self._lock.close()

    def statistics(self) -> dict[str, int]:
        """Transactions committed, and pieces of work that went into them."""
        return {"transactions": self._writer.transactions, "works": self._writer.works}


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:  # links in a circle
        raise Unavailable(f"cannot open {path}: {error}") from error

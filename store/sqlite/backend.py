"""The embedded store: a file that is its own (`file_lock`), one writer thread, readers on connections of their own.

WAL with synchronous=FULL: an answered commit is on the disk. Time begins with the host's clock and goes on by itself.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from sqlite3 import Connection, Error
from typing import TypeVar

import trio

from ..errors import Refused, StoreError, Unavailable
from ..migrations import Applied
from ..ports import Work
from ..steady_clock import SteadyClock
from .connection import SQLiteTransaction, connect, drive
from .errors import translate
from .file_lock import FileLock
from .schema import migrate, read_applied
from .writer import Writer

T = TypeVar("T")

_READERS = 2


class SQLiteBackend:
    """A `store.ports.Backend` over one file. A second server on the same file is refused with `StoreInUse`."""

    def __init__(self, path: Path, clock: SteadyClock | None = None) -> None:
        # Resolved once, so that neither a link that is turned nor a change of folder leads a later reader elsewhere.
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
        """Runs `work` in the writer thread. A commit here is never in doubt."""
        return await self._writer.write(work, heavy=heavy)

    async def read(self, work: Work[T]) -> T:
        """Runs `work` in a thread on a connection of its own."""
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
        """The host's clock as it was when the store was opened, and the time since."""
        return self._clock.now()

    async def exact_now(self) -> float:
        """The same, with its fraction."""
        return self._clock.exact_now()

    async def note(self, work: Work[T]) -> T:
        """As any other piece of work: there is one writer."""
        return await self._writer.write(work)

    @property
    def shared(self) -> bool:
        """Its file is one server's."""
        return False

    def waited_for(self) -> bool:
        """Whether light work waits for the heavy work that asks."""
        return self._writer.waited_for()

    @property
    def server(self) -> str:
        """There is none."""
        return ""

    def admit(self, server: str) -> None:
        """There is no other."""

    async def agree(self) -> None:
        """There is no other."""

    async def rivals(self) -> list[str]:
        """There is no other."""
        return []

    def skew(self) -> int:
        """By how many milliseconds the host's clock was set since."""
        return self._clock.skew()

    async def migrate(self) -> list[str]:
        """Brings the file's schema to this program's version."""
        return await trio.to_thread.run_sync(self._migrate)

    def _migrate(self) -> list[str]:
        try:
            with closing(connect(self.path)) as connection:
                return migrate(connection)
        except Exception as error:
            raise translate(error) from error

    async def applied(self) -> Applied:
        """The migrations that the file has."""
        return await trio.to_thread.run_sync(self._applied)

    def _applied(self) -> Applied:
        try:
            with closing(connect(self.path)) as connection:
                return read_applied(connection)
        except Error as error:
            raise translate(error) from error

    def sequence(self, topic_queues: Sequence[int], *, by_redis: bool) -> None:
        """There is one writer, so there is nothing to gain."""
        del topic_queues
        if by_redis:
            raise Refused("offsets are drawn from Redis on MySQL only: leave sequencer out, or say store")

    async def reseat(self, ends: Mapping[int, int]) -> list[int]:
        """No queue is sequenced elsewhere."""
        return list(ends)

    async def durability(self) -> list[str]:
        """The pragmas are set by every connection, so there is nothing to find."""
        return []

    async def room(self) -> None:
        """Nobody counts."""
        return

    async def advice(self) -> list[str]:
        """For the same reason there is none."""
        return []

    async def faults(self) -> list[tuple[str, str]]:
        """The schema tells."""
        return []

    async def longest_statement(self) -> None:
        """There is no end."""
        return

    async def largest_transaction(self) -> None:
        """There is none."""
        return

    async def aclose(self) -> None:
        """Ends the writer after what waits for it, and lets the file go."""
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

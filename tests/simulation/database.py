"""A database on simulated time, with a link to each node that delays, stalls, deadlocks and loses answers by a seed.

It is an SQLite file that behaves like MySQL to the nodes: other nodes write to it, each statement of a reader sees what
was committed when it began, and the answer to a COMMIT may never come. One transaction writes at a time, from its first
statement to its COMMIT; interleavings that only row locks allow are left to the tests on real servers.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from sqlite3 import Connection
from typing import Any, TypeVar

import trio
from attrs import define, field, frozen

from support.embedded import schema
from support.still import StillBackend
from tarry.store.errors import Contention, OutcomeUnknown, Unavailable
from tarry.store.ports import Bound, Value, Work
from tarry.store.rows import R
from tarry.store.sqlite.connection import SQLiteTransaction, connect

T = TypeVar("T")

BEGAN = 1_700_000_000_000_000_000
"""The start of every simulation, in Unix nanoseconds."""
_RUNS = 5
_DOUBT = (0.01, 0.1, 0.5, 4)
"""Seconds until the outcome of a transaction is reported as unknown."""


@frozen
class Fates:
    """The probabilities of faults, for each transaction or statement."""

    deadlock: float = 0.03
    lost_before: float = 0.02
    """The connection is lost before the COMMIT arrives: the outcome is unknown, and nothing is committed."""
    lost_after: float = 0.02
    """The answer to the COMMIT is lost."""
    refused: float = 0.01
    """The connection is lost before the COMMIT is sent: nothing is committed, and the node knows it."""
    slow: float = 0.02
    """A message over the link is slow."""
    rest: float = 0.05
    """Another task runs before a statement."""


def now_ns() -> int:
    """The time of the database, which is the true one."""
    return BEGAN + round(trio.current_time() * 1e9)


class Database:
    """The database that all nodes share."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(schema())
        self.writer, self.reader = _connect(path), _connect(path)
        self.turn = trio.Lock()
        self.away_until = 0.0
        """Until when the database is down, in Trio's time."""

    def close(self) -> None:
        self.writer.close()
        self.reader.close()


def _connect(path: Path) -> Connection:
    connection = connect(path)
    connection.execute("PRAGMA synchronous = OFF")  # no power is lost in a simulation
    return connection


@define(eq=False)
class Link:
    """The connection between a node and the database."""

    database: Database
    random: Random
    fates: Fates
    cut_until: float = 0.0
    stalled_until: float = 0.0
    ended: bool = field(default=False, init=False)
    """Whether its node was killed."""

    async def pass_over(self) -> None:
        """Takes the time of one way over the link. Raises `Unavailable` when it is cut."""
        while (rest := self.stalled_until - trio.current_time()) > 0:
            await trio.sleep(rest)
        slow = self.random.random() < self.fates.slow
        await trio.sleep(self.random.random() * (0.5 if slow else 0.002))
        if self.ended or max(self.cut_until, self.database.away_until) > trio.current_time():
            await trio.sleep(self.random.random() * 0.5)
            raise Unavailable("the line is cut")

    def has(self, share: float) -> bool:
        """Whether an event of this probability happens."""
        return self.random.random() < share


class _Transaction(SQLiteTransaction):
    """A transaction with pauses before some statements, and perhaps a deadlock at one of them."""

    def __init__(self, connection: Connection, link: Link, deadlock_in: int) -> None:
        super().__init__(connection)
        self._link = link
        self._deadlock_in = deadlock_in

    async def _begin_one(self) -> None:
        self._deadlock_in -= 1
        if not self._deadlock_in:
            raise Contention("deadlock found when trying to get lock")
        if self._link.has(self._link.fates.rest):
            await trio.sleep(self._link.random.random() * 0.01)

    async def fetch(self, query: str, row: type[R], /, *values: Bound) -> list[R]:
        await self._begin_one()
        return await super().fetch(query, row, *values)

    async def execute(self, query: str, *values: Bound) -> int:
        await self._begin_one()
        return await super().execute(query, *values)

    async def execute_many(self, query: str, rows: Sequence[Sequence[Value]]) -> int:
        await self._begin_one()
        return await super().execute_many(query, rows)

    async def append(self, query: str, rows: Mapping[int, Sequence[Sequence[Value]]], *, straight: bool) -> Any:
        await self._begin_one()
        return await super().append(query, rows, straight=straight)


class Backend(StillBackend):
    """A `store.ports.Backend` of one node, over its link to the shared database."""

    def __init__(self, link: Link) -> None:
        self._link = link

    @property
    def shared(self) -> bool:
        return True

    async def write(self, work: Work[T], *, heavy: bool = False) -> T:
        del heavy
        for run in range(1, _RUNS + 1):
            try:
                return await self._write(work)
            except Contention:
                if run == _RUNS:
                    raise
                await trio.sleep(self._link.random.random() * 0.01 * 2**run)
        raise AssertionError

    async def _write(self, work: Work[T]) -> T:
        link, database = self._link, self._link.database
        deadlock_in = link.random.randrange(1, 12) if link.has(link.fates.deadlock) else 0
        await link.pass_over()
        async with database.turn:
            database.writer.execute("BEGIN IMMEDIATE")
            try:
                result = await work(_Transaction(database.writer, link, deadlock_in))
                if link.ended or link.has(link.fates.refused):
                    raise Unavailable("the line was lost")
                kept = not link.has(link.fates.lost_before)
                database.writer.execute("COMMIT" if kept else "ROLLBACK")
            except BaseException:
                with suppress(Exception):
                    database.writer.execute("ROLLBACK")
                raise
        if not kept or link.has(link.fates.lost_after):
            await trio.sleep(link.random.choice(_DOUBT))
            raise OutcomeUnknown("the line was lost at COMMIT")
        try:
            await link.pass_over()
        except Unavailable as error:
            raise OutcomeUnknown("the line was lost at COMMIT") from error
        return result

    async def read(self, work: Work[T]) -> T:
        await self._link.pass_over()
        result = await work(_Transaction(self._link.database.reader, self._link, 0))
        await self._link.pass_over()
        return result

    async def now(self) -> int:
        return int(await self.exact_now())

    async def exact_now(self) -> float:
        await self._link.pass_over()
        now = now_ns() / 1e6
        await self._link.pass_over()
        return now

    async def migrate(self) -> list[str]:
        await self._link.pass_over()
        return []

    async def aclose(self) -> None:
        """Does nothing: the link ends with its node."""

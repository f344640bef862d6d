"""A backend over the embedded store's tables in memory whose methods never suspend."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import TypeVar

from tarry.store.migrations import Applied, load_migrations
from tarry.store.ports import Work
from tarry.store.sqlite.connection import SQLiteTransaction

T = TypeVar("T")


class StillBackend:
    """A `store.ports.Backend`; coroutines over it can be run by `drive`."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        for migration in load_migrations("sqlite"):
            for statement in migration.statements:
                self._connection.execute(statement)

    async def write(self, work: Work[T], *, heavy: bool = False) -> T:
        del heavy
        self._connection.execute("BEGIN")
        try:
            result = await work(SQLiteTransaction(self._connection))
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")
        return result

    async def read(self, work: Work[T]) -> T:
        return await work(SQLiteTransaction(self._connection))

    async def now(self) -> int:
        return 0

    async def exact_now(self) -> float:
        return 0

    async def note(self, work: Work[T]) -> T:
        return await self.write(work)

    @property
    def shared(self) -> bool:
        return False

    def waited_for(self) -> bool:
        return False

    @property
    def server(self) -> str:
        return ""

    async def agree(self) -> None:
        """Does nothing: there is no other node."""

    async def rivals(self) -> list[str]:
        return []

    def admit(self, server: str) -> None:
        del server

    def skew(self) -> int:
        return 0

    async def migrate(self) -> list[str]:
        return []

    async def applied(self) -> Applied:
        return Applied({}, {})

    async def durability(self) -> list[str]:
        return []

    async def room(self) -> None:
        return

    async def advice(self) -> list[str]:
        return []

    async def faults(self) -> list[tuple[str, str]]:
        return []

    async def longest_statement(self) -> None:
        return

    async def largest_transaction(self) -> None:
        return

    def sequence(self, topic_queues: Sequence[int], *, by_redis: bool) -> None:
        del topic_queues, by_redis

    async def reseat(self, ends: Mapping[int, int]) -> list[int]:
        return list(ends)

    async def aclose(self) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def statistics(self) -> dict[str, int]:
        return {}

"""A backend over the embedded store's tables in memory whose methods never suspend."""

import sqlite3
from typing import TypeVar

from tarry.store.migrations import Applied, load_migrations
from tarry.store.ports import Work
from tarry.store.sqlite.backend import SQLiteBackend
from tarry.store.sqlite.connection import SQLiteTransaction

T = TypeVar("T")


class StillBackend(SQLiteBackend):
    """Coroutines over it can be run by `drive`. It has neither file nor thread nor clock."""

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

    async def note(self, work: Work[T]) -> T:
        return await self.write(work)

    async def now(self) -> int:
        return 0

    async def exact_now(self) -> float:
        return 0

    def skew(self) -> int:
        return 0

    def waited_for(self) -> bool:
        return False

    async def migrate(self) -> list[str]:
        return []

    async def applied(self) -> Applied:
        return Applied({}, {})

    async def aclose(self) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def statistics(self) -> dict[str, int]:
        return {}

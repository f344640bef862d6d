"""The store on MySQL or MariaDB, for a server whose time is moved by hand, but never during a call to the database.

Time-outs of the database run by the server's own time, as everything does. If that jumped while an answer is on its
way, the answer would come too late, and a COMMIT would be in doubt. So moving the time waits until no call is under
way, and no call is begun meanwhile.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import trio

from ..store.mysql.backend import MySQLBackend
from ..store.ports import Work

T = TypeVar("T")

_PATIENCE = 5.0
"""Seconds to wait for calls under way: a row that another open transaction has locked is waited for a second. Then the
time is moved all the same."""


class StillStore(MySQLBackend):
    """A `MySQLBackend` that can be held still: then its calls wait."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self._under_way = 0
        self._at_rest = trio.Event()
        self._goes_on: trio.Event | None = None
        """Set when calls may go on; None while nobody holds the store still."""
        self._turn = trio.Lock()

    async def between(self, change: Callable[[], None]) -> None:
        """Calls `change` when no call is under way."""
        async with self._turn:
            self._goes_on, self._at_rest = trio.Event(), trio.Event()
            try:
                if self._under_way:
                    with trio.move_on_after(_PATIENCE):
                        await self._at_rest.wait()
                change()
            finally:
                self._goes_on.set()
                self._goes_on = None

    @asynccontextmanager
    async def _flight(self) -> AsyncGenerator[None, None]:
        while self._goes_on is not None:
            await self._goes_on.wait()
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._at_rest.set()

    async def write(self, work: Work[T], *, heavy: bool = False) -> T:
        async with self._flight():
            return await super().write(work, heavy=heavy)

    async def read(self, work: Work[T]) -> T:
        async with self._flight():
            return await super().read(work)

    async def note(self, work: Work[T]) -> T:
        async with self._flight():
            return await super().note(work)

    async def now(self) -> int:
        async with self._flight():
            return await super().now()

    async def exact_now(self) -> float:
        async with self._flight():
            return await super().exact_now()

"""Runs a real server that kills itself with SIGKILL when it reaches a named point for the n-th time; with
TARRY_TEST_SIGNAL=SIGSTOP it pauses there instead.

    python -P -m tarry.bench.killing POINT N serve --dsn ... --listen ...

A point is a query of the store and a moment: `delay.add:before`, `:after` (in the open transaction), `:commit` (all
queries of the transaction done, the commit not begun) or `:committed` (committed, the caller not told yet). The product
has no code for this: `install` wraps the backend that `serve` opens.
"""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from ..service import serve
from ..service.cli.app import main
from ..store.errors import StoreError
from ..store.opening import open_backend
from ..store.ports import Asked, Backend, Bound, Offsets, Transaction, Value, Work
from ..store.rows import R

T = TypeVar("T")


class Killer:
    """Counts how often its point is reached."""

    def __init__(self, point: str, times: int) -> None:
        self._point = point
        self._left = times

    def reach(self, point: str) -> None:
        """Kills the process at once if this is the point and it is reached for the n-th time."""
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.Signals[os.environ.get("TARRY_TEST_SIGNAL", "SIGKILL")])


class WatchedTransaction:
    """Reports every query to the killer."""

    def __init__(self, tx: Transaction, killer: Killer) -> None:
        self._tx = tx
        self._killer = killer
        self.queries: list[str] = []

    async def fetch(self, query: str, row: type[R], /, *values: Bound) -> list[R]:
        self._before(query)
        rows = await self._tx.fetch(query, row, *values)
        self._killer.reach(f"{query}:after")
        return rows

    async def fetch_all(self, queries: Sequence[Asked[Any]]) -> None:
        for asked in queries:
            self._before(asked.query)
        await self._tx.fetch_all(queries)
        for asked in queries:
            self._killer.reach(f"{asked.query}:after")

    async def later(self, query: str, *values: Bound) -> None:
        await self.execute(query, *values)

    async def note(self) -> None:
        await self._tx.note()

    async def later_exactly(self, many: int, query: str, *values: Bound) -> None:
        if await self.execute(query, *values) != many:
            raise StoreError(f"{query} has not matched {many} rows")

    async def later_many(self, query: str, rows: Sequence[Sequence[Value]]) -> None:
        await self.execute_many(query, rows)

    async def later_each(self, query: str, rows: Sequence[Sequence[Value]]) -> None:
        self._before(query)
        await self._tx.later_each(query, rows)
        await self._tx.fetch("topic.names", tuple[int, str], [0])  # makes the transaction carry it out now
        self._killer.reach(f"{query}:after")

    async def execute(self, query: str, *values: Bound) -> int:
        self._before(query)
        matched = await self._tx.execute(query, *values)
        self._killer.reach(f"{query}:after")
        return matched

    async def execute_many(self, query: str, rows: Sequence[Sequence[Value]]) -> int:
        self._before(query)
        inserted = await self._tx.execute_many(query, rows)
        self._killer.reach(f"{query}:after")
        return inserted

    async def draw_elsewhere(self, counts: Mapping[int, int]) -> dict[int, int]:
        return await self._tx.draw_elsewhere(counts)

    async def append(self, query: str, rows: Mapping[int, Sequence[Sequence[Value]]], *, straight: bool) -> Offsets:
        self._before(query)
        offsets = await self._tx.append(query, rows, straight=straight)
        if rows:
            await self._tx.fetch("queue.ends", tuple[int, int], sorted(rows))  # makes the transaction carry it out now
        self._killer.reach(f"{query}:after")
        return offsets

    def _before(self, query: str) -> None:
        self.queries.append(query)
        self._killer.reach(f"{query}:before")


class WatchedBackend:
    """A backend whose transactions the killer watches."""

    def __init__(self, backend: Backend, killer: Killer, watched: type[WatchedTransaction]) -> None:
        self._backend = backend
        self._killer = killer
        self._watched = watched

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    async def write(self, work: Work[T], *, heavy: bool = False) -> T:
        queries: list[str] = []

        async def watched(tx: Transaction) -> T:
            mine = self._watched(tx, self._killer)
            result = await work(mine)
            queries[:] = mine.queries
            for query in mine.queries:
                self._killer.reach(f"{query}:commit")
            return result

        result = await self._backend.write(watched, heavy=heavy)
        for query in queries:
            self._killer.reach(f"{query}:committed")
        return result


def install(point: str, times: int, watched: type[WatchedTransaction] = WatchedTransaction) -> None:
    """Wraps every backend that `serve` opens from now on; `watched` may be a subclass that does more than report."""
    killer = Killer(point, times)

    async def open_watched(dsn: str, redis: str | None = None) -> Any:
        return WatchedBackend(await open_backend(dsn, redis), killer, watched)

    serve.open_backend = open_watched  # type: ignore[attr-defined]  # imported there by name


if __name__ == "__main__":
    install(sys.argv[1], int(sys.argv[2]))
    sys.argv[1:3] = []
    main()

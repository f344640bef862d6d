"""pgqueuer on PostgreSQL, through its asynchronous client over asyncpg: a pool of 20 connections.

One manager that takes up to 100 jobs at a time and runs them as they come, in place of 8 consumers: eight managers in
one process would be in each other's way.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from importlib import import_module
from importlib.metadata import version as version_of
from typing import Any

from ..closed_loop import in_asyncio
from ..report import Figures
from .peer import PAGE, QUEUE, Arrival, arrival, text
from .postgresql import PostgreSQL, lacking_server, server_version
from .processes import lacking

_BATCH = 100
_POOL = 20


class PgQueuer(PostgreSQL):
    """See the module."""

    lacks = (
        "A delay, no time: a message is due that long after the server has it. It takes 100 at once here, in place of 8"
        " consumers"
    )

    def missing(self) -> str:
        return lacking_server() or lacking(["pgqueuer", "asyncpg"])

    def version(self) -> str:
        return f"PostgreSQL {server_version()}, pgqueuer {version_of('pgqueuer')}"

    @asynccontextmanager
    async def _pool(self) -> AsyncGenerator[Any, None]:
        async with import_module("asyncpg").create_pool(self.conninfo, min_size=_POOL, max_size=_POOL) as pool:
            yield pool

    @asynccontextmanager
    async def _queries(self) -> AsyncGenerator[Any, None]:
        async with self._pool() as pool:
            yield import_module("pgqueuer.queries").Queries(import_module("pgqueuer.db").AsyncpgPoolDriver(pool))

    async def install(self) -> None:
        async with self._queries() as queries:
            await queries.install()

    def publish(self, callers: int, seconds: float) -> Figures:
        message = text(0, 0).encode()

        async def publish() -> Figures:
            async with self._queries() as queries:
                return await in_asyncio([lambda: queries.enqueue(QUEUE, message)] * callers, seconds)

        return asyncio.run(publish())

    def schedule(self, dues: Sequence[int]) -> float:
        async def schedule() -> float:
            async with self._queries() as queries:
                began = time.perf_counter()
                for start in range(0, len(dues), PAGE):
                    some = dues[start : start + PAGE]
                    bodies = [text(number, due).encode() for number, due in enumerate(some, start)]
                    now = time.time_ns() // 1_000_000
                    delays = [timedelta(milliseconds=max(0, due - now)) if due else None for due in some]
                    await queries.enqueue([QUEUE] * len(some), bodies, [0] * len(some), delays)
                return time.perf_counter() - began

        return asyncio.run(schedule())

    def consume(self, total: int, patience: float) -> list[Arrival]:
        arrivals: list[Arrival] = []

        async def consume() -> None:
            async with self._pool() as pool:
                manager = import_module("pgqueuer").PgQueuer.from_asyncpg_pool(pool)

                async def handle(job: Any) -> None:
                    arrivals.append(arrival(json.loads(job.payload), time.time_ns()))
                    if len(arrivals) >= total:
                        manager.shutdown.set()

                manager.entrypoint(QUEUE)(handle)
                asyncio.get_running_loop().call_later(patience, manager.shutdown.set)
                await manager.qm.run(batch_size=_BATCH)

        asyncio.run(consume())
        return arrivals

    def pending(self) -> int:
        return self.ask("SELECT count(*) FROM pgqueuer WHERE status = 'queued'")

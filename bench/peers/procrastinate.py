"""procrastinate on PostgreSQL, through its asynchronous client over psycopg: a pool of 20 connections.

One worker with a concurrency of 8 that looks ten times a second, because messages that fall due notify nobody: with its
default of every five seconds they are up to that late.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version as version_of
from typing import Any

from ..closed_loop import in_asyncio
from ..report import Figures
from .peer import CONSUMERS, FILLER, PAGE, QUEUE, Arrival
from .postgresql import PostgreSQL, lacking_server, server_version
from .processes import lacking

_POLL = 0.1
_POOL = 20


class Procrastinate(PostgreSQL):
    """See the module."""

    lacks = f"Due jobs are looked for every {_POLL} s, by default every 5 s"

    def missing(self) -> str:
        return lacking_server() or lacking(["procrastinate", "psycopg[binary,pool]"])

    def version(self) -> str:
        return f"PostgreSQL {server_version()}, procrastinate {version_of('procrastinate')}"

    @asynccontextmanager
    async def _app(self) -> AsyncGenerator[Any, None]:
        procrastinate = import_module("procrastinate")
        connector = procrastinate.PsycopgConnector(conninfo=self.conninfo, min_size=_POOL, max_size=_POOL)
        async with procrastinate.App(connector=connector).open_async() as app:
            yield app

    async def install(self) -> None:
        async with self._app() as app:
            await app.schema_manager.apply_schema_async()

    def publish(self, callers: int, seconds: float) -> Figures:
        async def publish() -> Figures:
            async with self._app() as app:
                task = _task(app, _nothing)
                return await in_asyncio([lambda: task.defer_async(n=0, due=0, x=FILLER)] * callers, seconds)

        return asyncio.run(publish())

    def schedule(self, dues: Sequence[int]) -> float:
        async def schedule() -> float:
            async with self._app() as app:
                task = _task(app, _nothing)
                began = time.perf_counter()
                for start in range(0, len(dues), PAGE):
                    jobs = [
                        task.configure(schedule_at=datetime.fromtimestamp(due / 1000, UTC) if due else None)
                        .make_new_job(n=number, due=due, x=FILLER)
                        for number, due in enumerate(dues[start : start + PAGE], start)
                    ]  # fmt: skip
                    # What `batch_defer` calls, which gives all the same time.
                    await app.job_manager.batch_defer_jobs_async(jobs=jobs)
                return time.perf_counter() - began

        return asyncio.run(schedule())

    def consume(self, total: int, patience: float) -> list[Arrival]:
        arrivals: list[Arrival] = []

        async def consume() -> None:
            over = asyncio.Event()

            async def handle(n: int, due: int, x: str) -> None:
                arrivals.append((n, due, time.time_ns()))
                if len(arrivals) >= total:
                    over.set()

            async with self._app() as app:
                _task(app, handle)
                worker = asyncio.create_task(
                    app.run_worker_async(
                        queues=[QUEUE],
                        concurrency=CONSUMERS,
                        fetch_job_polling_interval=_POLL,
                        install_signal_handlers=False,
                    )
                )
                ended = asyncio.create_task(over.wait())
                await asyncio.wait([worker, ended], timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                if worker.done():
                    worker.result()  # raises what ended it
                worker.cancel()
                ended.cancel()
                with suppress(asyncio.CancelledError):
                    await worker

        asyncio.run(consume())
        return arrivals

    def pending(self) -> int:
        return self.ask("SELECT count(*) FROM procrastinate_jobs WHERE status = 'todo'")


def _task(app: Any, handle: Callable[[int, int, str], Awaitable[None]]) -> Any:
    return app.task(name="bench", queue=QUEUE)(handle)


async def _nothing(n: int, due: int, x: str) -> None:
    pass

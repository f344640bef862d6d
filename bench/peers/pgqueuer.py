"""pgqueuer on a private PostgreSQL, through its asynchronous client over asyncpg: a pool of 20 connections.

One manager takes up to 100 jobs at a time and runs them concurrently, in place of 8 consumers: eight managers in one
process would slow each other down.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from importlib import import_module
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from ...service.demo.server_process import free_port
from ..closed_loop import in_asyncio
from ..programs import Program
from ..report import Figures
from .peer import PAGE, QUEUE, Arrival, arrival, text
from .processes import Served, lacking

_MAX_CONNECTIONS = 300
_BATCH = 100
_POOL = 20


class PgQueuer(Served):
    """See the module."""

    durability = "`fsync` and `synchronous_commit` on"
    in_memory = False
    lacks = (
        "A delay, no time: a message is due that long after the server has it. It takes 100 at once here, in place of 8"
        " consumers"
    )

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "postgresql"
        self._port = free_port()
        # PostgreSQL refuses to run as root; Debian's package creates this user.
        self._user = "postgres" if os.getuid() == 0 else None
        self._program = Program(folder / "postgresql.log", self._answers, self._user)
        self._url = f"postgresql://bench@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        if new := not self._folder.exists():
            self._folder.parent.chmod(0o711)
            self._folder.mkdir(mode=0o700)
            if self._user is not None:
                shutil.chown(self._folder, self._user, self._user)
            self._run("initdb", "-D", str(self._folder), "-U", "bench", "-A", "trust", "-E", "UTF8")
        options = ["-c", "shared_buffers=1GB", "-c", f"max_connections={_MAX_CONNECTIONS}"]
        where = ["-p", str(self._port), "-h", "127.0.0.1", "-k", str(self._folder)]
        self._program.start([_program("postgres"), "-D", str(self._folder), *where, *options])
        if new:
            asyncio.run(self._install())

    async def _install(self) -> None:
        async with self._queries() as queries:
            await queries.install()

    def _answers(self) -> bool:
        return not subprocess.run(
            [_program("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self._port)], check=False
        ).returncode

    def _run(self, program: str, *arguments: str) -> str:
        told = subprocess.run(
            [_program(program), *arguments],
            user=self._user if program == "initdb" else None,
            cwd=self._folder if program == "initdb" else None,
            capture_output=True,
            text=True,
            check=True,
        )
        return told.stdout

    def _ask(self, sql: str) -> int:
        """Runs a query with `psql` and returns its number."""
        return int(self._run("psql", self._url, "-XAtc", sql))

    def asked(self) -> int | None:
        return self._ask("SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database")

    def stop(self) -> None:
        self._program.stop(signal.SIGINT)  # without waiting for its clients

    def missing(self) -> str:
        try:
            for name in ("postgres", "initdb", "psql", "pg_isready"):
                _program(name)
        except RuntimeError:
            return "apt-get install postgresql"
        return lacking(["pgqueuer", "asyncpg"])

    def version(self) -> str:
        told = subprocess.run([_program("postgres"), "--version"], capture_output=True, text=True, check=True).stdout
        return f"PostgreSQL {told.split()[2]}, pgqueuer {version_of('pgqueuer')}"

    @asynccontextmanager
    async def _pool(self) -> AsyncGenerator[Any, None]:
        async with import_module("asyncpg").create_pool(self._url, min_size=_POOL, max_size=_POOL) as pool:
            yield pool

    @asynccontextmanager
    async def _queries(self) -> AsyncGenerator[Any, None]:
        async with self._pool() as pool:
            yield import_module("pgqueuer.queries").Queries(import_module("pgqueuer.db").AsyncpgPoolDriver(pool))

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
        return self._ask("SELECT count(*) FROM pgqueuer WHERE status = 'queued'")


def _program(name: str) -> str:
    folders: Sequence[Path] = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for path in (None, *map(str, folders)):
        if (found := shutil.which(name, path=path)) is not None:
            return found
    raise RuntimeError(f"no {name}")

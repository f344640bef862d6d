"""Tarry as a peer: a real server on SQLite or a private MySQL, through the client `Tarry` in threads.

Consumes by `run` with 8 workers and otherwise the defaults.
"""

import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path

from ...client import Tarry
from ...service.demo.server_process import ServerProcess, free_port
from .. import databases
from ..closed_loop import in_threads
from ..programs import Program
from ..report import Figures
from .peer import CONSUMERS, PAGE, QUEUE, Arrival, arrival, body
from .processes import program_version


class TarryOnSQLite:
    """Tarry on the embedded store."""

    durability = "Commit on SQLite, `synchronous=FULL`"
    lacks = ""
    in_memory = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server = self._serve(f"{databases.SQLITE}{folder / 'tarry.db'}")

    def _serve(self, dsn: str) -> ServerProcess:
        return ServerProcess(self._folder, dsn, environment={"TARRY_LOG_LEVEL": "warning"})

    def missing(self) -> str:
        return ""

    def version(self) -> str:
        return f"Tarry {version('tarry')}"

    def start(self) -> None:
        self._server.start()

    def publish(self, callers: int, seconds: float) -> Figures:
        message = body(0, 0)
        with self._client() as tarry:
            return in_threads([lambda: tarry.publish(QUEUE, message)] * callers, seconds)

    def _client(self) -> Tarry:
        return Tarry(self._server.url)

    def schedule(self, dues: Sequence[int]) -> float:
        began = time.perf_counter()
        with self._client() as tarry:
            for start in range(0, len(dues), PAGE):
                page = [
                    {"body": body(number, due)}
                    | ({"deliver_at": datetime.fromtimestamp(due / 1000, UTC)} if due else {})
                    for number, due in enumerate(dues[start : start + PAGE], start)
                ]
                tarry.publish_many(QUEUE, page)
        return time.perf_counter() - began

    def consume(self, total: int, patience: float) -> list[Arrival]:
        arrivals: list[Arrival] = []
        stop = threading.Event()

        def handle(message: dict[str, int]) -> None:
            arrivals.append(arrival(message, time.time_ns()))
            if len(arrivals) >= total:
                stop.set()

        timer = threading.Timer(patience, stop.set)
        timer.start()
        try:
            with self._client() as tarry:
                tarry.run(QUEUE, "bench", handle, CONSUMERS, stop=stop, signals=False, start="earliest")
        finally:
            timer.cancel()
        return arrivals

    def pending(self) -> int:
        with self._client() as tarry:
            return int(tarry.topic(QUEUE)["pending"])

    def asked(self) -> int | None:
        return None

    def pids(self) -> list[int]:
        return [self._server.pid]

    def kill(self) -> None:
        self._server.kill()

    def stop(self) -> None:
        self._server.stop()


class TarryOnMySQL(TarryOnSQLite):
    """Tarry with a private MySQL, which is killed together with it."""

    durability = "Commit on MySQL, `innodb_flush_log_at_trx_commit=1`, `sync_binlog=1`"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        port = free_port()
        self._dsn = f"mysql://tarry:tarry@127.0.0.1:{port}/tarry"
        self._database = Program(folder / "database.log", partial(databases.answers, self._dsn))
        self._command: list[str] = []
        self._server = self._serve(self._dsn)
        self._port = port

    def missing(self) -> str:
        try:
            databases.program_of("mysqld", "mysql")
        except SystemExit:
            return "MySQL's mysqld on PATH"
        return ""

    def version(self) -> str:
        return f"{super().version()}, MySQL {program_version('mysqld', '--no-defaults', '--version')}"

    def start(self) -> None:
        if not self._command:
            (self._folder / "database").mkdir()
            self._command = databases.server_command("mysql", self._folder / "database", self._port)
        self._database.start(self._command)
        super().start()

    def asked(self) -> int | None:
        return databases.asked(self._dsn) - databases.LOOK

    def pids(self) -> list[int]:
        return [self._server.pid, self._database.pid]

    def kill(self) -> None:
        super().kill()
        self._database.kill()

    def stop(self) -> None:
        super().stop()
        self._database.stop()

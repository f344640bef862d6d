"""beanstalkd with its binlog, through greenstalk: one connection for each thread, one call for each message."""

import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from importlib import import_module
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from ...service.demo.server_process import free_port
from ..closed_loop import in_threads
from ..programs import Program, found
from ..report import Figures
from .peer import CONSUMERS, QUEUE, Arrival, arrival, text
from .processes import Served, lacking, program_version

_WAIT = 10
"""Seconds that a `reserve` waits; long, since each one is a command that an idle consumer sends."""


class Beanstalkd(Served):
    """See the module."""

    durability = "Binlog, a sync for each write (`-b -f 0`)"
    in_memory = True
    lacks = "Delays in whole seconds; no idempotency key, no call for many; all in memory beside the binlog"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._program = Program(folder / "beanstalkd.log", self._answers)

    def missing(self) -> str:
        return lacking(["greenstalk"], ("beanstalkd", "beanstalkd"))

    def version(self) -> str:
        return f"beanstalkd {program_version('beanstalkd', '-v')}, greenstalk {version_of('greenstalk')}"

    def start(self) -> None:
        (self._folder / "binlog").mkdir(exist_ok=True)
        command = [found("beanstalkd") or "", "-l", "127.0.0.1", "-p", str(self._port)]
        self._program.start([*command, "-b", str(self._folder / "binlog"), "-f", "0"])

    def _answers(self) -> bool:
        try:
            with self._client() as client:
                client.stats()
        except OSError:
            return False
        return True

    def _client(self) -> Any:
        return import_module("greenstalk").Client(("127.0.0.1", self._port), use=QUEUE, watch=QUEUE)

    def publish(self, callers: int, seconds: float) -> Figures:
        message = text(0, 0)

        def call(client: Any) -> Callable[[], object]:
            return lambda: client.put(message)

        with ExitStack() as stack:
            clients = [stack.enter_context(self._client()) for _ in range(callers)]
            return in_threads([call(client) for client in clients], seconds)

    def schedule(self, dues: Sequence[int]) -> float:
        began = time.perf_counter()
        with self._client() as client:
            for number, due in enumerate(dues):
                # Rounded up: rounded down, the message would come early.
                delay = max(0, -((time.time_ns() // 1_000_000 - due) // 1000)) if due else 0
                client.put(text(number, due), delay=delay)
        return time.perf_counter() - began

    def consume(self, total: int, patience: float) -> list[Arrival]:
        arrivals: list[Arrival] = []
        deadline = time.monotonic() + patience
        over = threading.Event()
        timed_out = import_module("greenstalk").TimedOutError

        def work(client: Any) -> None:
            while not over.is_set() and time.monotonic() < deadline:
                try:
                    job = client.reserve(timeout=_WAIT)
                except timed_out:
                    continue
                arrivals.append(arrival(json.loads(job.body), time.time_ns()))
                client.delete(job)
                if len(arrivals) >= total:
                    over.set()

        with ExitStack() as stack:
            clients = [stack.enter_context(self._client()) for _ in range(CONSUMERS)]
            with ThreadPoolExecutor(CONSUMERS) as pool:
                list(pool.map(work, clients))
        return arrivals

    def pending(self) -> int:
        with self._client() as client:
            return int(client.stats_tube(QUEUE)["current-jobs-delayed"])

    def asked(self) -> int | None:
        with self._client() as client:
            return sum(int(value) for name, value in client.stats().items() if name.startswith("cmd-"))

"""How long after its start does a server listen, and when is it ready?

    python -m tarry.bench.start --dsn sqlite [--runs 5]

`tarry serve` runs in its own process. The first start of a run creates the tables, the second finds them. A start
before the runs lets Python compile all files, which does not count.

    listening_s   from the start of the process until its port takes a connection; the goal is 2 s
    ready_s       until /readyz says that it takes calls
"""

import socket
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread

from ..client import Tarry
from ..service.demo.server_process import START_SECONDS, ServerProcess
from . import databases
from .report import Figures, chosen, say, show, spread, summarize

_PAUSE = 0.002
"""Seconds between two attempts to reach the server."""
_STARTS = ("first", "again")


def main() -> None:
    arguments = databases.options("start", __doc__, "sqlite", runs=5).parse_args()
    found: list[dict[str, Figures]] = []
    with databases.server(arguments.dsn) as dsn:
        measure(dsn)
        for run in range(1, arguments.runs + 1):
            say(f"run {run} of {arguments.runs}")
            found.append(measure(dsn))
            show({"bench": "start", "run": run, **found[-1]})
    summarize(
        "start",
        **chosen(arguments, "runs"),
        **{
            start: {name: spread([run[start][name] for run in found], 2) for name in ("listening_s", "ready_s")}
            for start in _STARTS
        },
    )


def measure(dsn: str) -> dict[str, Figures]:
    """Measures two starts on one new database."""
    with databases.scratch(dsn) as scratch, tempfile.TemporaryDirectory(prefix="tarry-bench-") as folder:
        return {start: start_once(ServerProcess(Path(folder), scratch)) for start in _STARTS}


def start_once(server: ServerProcess) -> Figures:
    """Starts the server, measures from outside when it listens and is ready, and stops it."""
    began = time.perf_counter()
    starting = Thread(target=server.start)
    starting.start()
    try:
        listening = wait_for_port(server.port) - began
        with Tarry(server.url) as tarry:
            while not tarry.ready():
                time.sleep(_PAUSE)
        return {"listening_s": round(listening, 3), "ready_s": round(time.perf_counter() - began, 3)}
    finally:
        starting.join()
        server.stop()


def wait_for_port(port: int) -> float:
    """Waits until the port takes a connection and returns when. Raises TimeoutError."""
    until = time.perf_counter() + START_SECONDS
    while time.perf_counter() < until:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return time.perf_counter()
        time.sleep(_PAUSE)
    raise TimeoutError(f"nothing listened at port {port} after {START_SECONDS:.0f} s")


if __name__ == "__main__":
    main()

"""How long after its start does a server listen, and when is it ready?

    python -m tarry.bench.start --dsn sqlite [--runs 5]

`tarry serve` runs in its own process, on an empty database, in which it makes the tables. A start before the runs lets
Python compile all files, which does not count.

    listening_s   from the start of the process until its port takes a connection; the goal is 2 s
    ready_s       until /readyz says that it takes calls
"""

import tempfile
import time
from pathlib import Path
from threading import Thread

from ..client import Tarry
from ..service.demo.server_process import START_SECONDS, ServerProcess
from . import databases
from .programs import listens
from .report import Figures, chosen, column, spreads, summarize

_PAUSE = 0.002
"""Seconds between two attempts to reach the server."""


def main() -> None:
    arguments = databases.options("start", __doc__, "sqlite", runs=5).parse_args()
    with databases.server(arguments.dsn) as dsn:
        with databases.scratch(dsn) as empty:
            measure(empty)
        runs = databases.alternate(dsn, "start", arguments.runs, {"first": measure})
    times = {name: spreads(column(runs, name), 2) for name in ("listening_s", "ready_s")}
    summarize("start", **chosen(arguments, "runs"), **times)


def measure(dsn: str) -> Figures:
    """Starts a server on this database, measures from outside when it listens and is ready, and stops it."""
    with tempfile.TemporaryDirectory(prefix="tarry-bench-") as folder:
        server = ServerProcess(Path(folder), dsn)
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
        if listens(port):
            return time.perf_counter()
        time.sleep(_PAUSE)
    raise TimeoutError(f"nothing listened at port {port} after {START_SECONDS:.0f} s")


if __name__ == "__main__":
    main()

"""How long after it is started does a server listen, and how long until it is ready?

    python -m tarry.bench.start --dsn sqlite [--runs 5]

`tarry serve` as a program of its own. The first start of a run makes the tables, the second finds them; what Python
compiles at the very first import of a file has been compiled by a start before the runs.

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
"""Seconds between two looks."""
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
    """Two starts on a database of their own."""
    with databases.scratch(dsn) as scratch, tempfile.TemporaryDirectory(prefix="tarry-bench-") as folder:
        return {start: start_once(ServerProcess(Path(folder), scratch)) for start in _STARTS}


def start_once(server: ServerProcess) -> Figures:
    """Starts it, looks at it from outside meanwhile, and stops it."""
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
    """When it took a connection."""
    until = time.perf_counter() + START_SECONDS
    while time.perf_counter() < until:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return time.perf_counter()
        time.sleep(_PAUSE)
    raise TimeoutError(f"nothing listened at port {port} after {START_SECONDS:.0f} s")


if __name__ == "__main__":
    main()

"""Several real servers on one database, started together."""

import os
import signal
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ..client import Tarry
from ..service.demo.server_process import ServerProcess
from ..wheel.shards import SHARDS

_SHARED_OUT_SECONDS = 30


@contextmanager
def several(dsn: str, many: int, *, redis: str | None = None) -> Generator[list[ServerProcess], None, None]:
    """So many servers that have shared out the wheel; an error takes the ends of their logs along."""
    servers: list[ServerProcess] = []
    with tempfile.TemporaryDirectory(prefix="tarry-bench-") as folder, ExitStack() as ends:
        ends.callback(_stop, servers)
        try:
            for number in range(many):
                start_another(servers, Path(folder), dsn, f"node{number}", redis=redis)
            until_shared_out(servers[0], many)
            yield servers
        except Exception as error:
            error.add_note("\n".join(f"the end of a server's log:\n{server.tail()}" for server in servers))
            raise


def _stop(servers: Sequence[ServerProcess]) -> None:
    """All of them, also when somebody interrupts the wait for one. They are asked at once: each waits for those that
    may take its shards."""
    for server in servers:
        if not server.ended:
            os.kill(server.pid, signal.SIGTERM)
    with ExitStack() as ends:
        for server in servers:
            ends.callback(server.stop)


def start_another(servers: list[ServerProcess], folder: Path, dsn: str, name: str, *, redis: str | None = None) -> None:
    """One more, with a folder of its own."""
    environment = {"TARRY_NODE": name}
    if redis is not None:
        environment["TARRY_REDIS"] = redis
    home = folder / name
    home.mkdir()
    servers.append(ServerProcess(home, dsn, environment=environment))
    servers[-1].start()


def until_shared_out(server: ServerProcess, nodes: int, timers: int | None = None) -> None:
    """Waits until so many nodes have their parts of the shards, each one once; and so many timers together, if told.
    Raises `TimeoutError`."""
    deadline = time.monotonic() + _SHARED_OUT_SECONDS
    with Tarry(server.url) as tarry:
        while True:
            found = tarry.nodes()
            shards = sorted(shard for one in found for shard in one["shards"])
            held = sum(one["timers"] for one in found)
            even = len(found) == nodes and all(len(one["shards"]) >= SHARDS // nodes for one in found)
            if even and shards == list(range(SHARDS)) and timers in (None, held):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"the nodes have not shared out the wheel: {found}")
            time.sleep(0.1)

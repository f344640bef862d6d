"""Several real servers on one database: started together, and what they and the database do meanwhile."""

import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ..client import Tarry
from ..service.demo.server_process import ServerProcess
from ..wheel.shards import SHARDS
from . import databases
from .report import Figures
from .usage import children_of, cpu_of

_SHARED_OUT_SECONDS = 30
_LOCKS = ("Innodb_row_lock_waits", "Innodb_row_lock_time")


@contextmanager
def several(
    dsn: str, many: int, *, processes: int = 1, redis: str | None = None
) -> Generator[list[ServerProcess], None, None]:
    """So many servers, of so many processes each, that have shared out the wheel; an error takes the ends of their
    logs along."""
    servers: list[ServerProcess] = []
    with tempfile.TemporaryDirectory(prefix="tarry-bench-") as folder, ExitStack() as ends:
        ends.callback(_stop, servers)
        try:
            for number in range(many):
                start_another(servers, Path(folder), dsn, f"node{number}", processes=processes, redis=redis)
            until_shared_out(servers[0], many * processes)
            yield servers
        except Exception as error:
            error.add_note("\n".join(f"the end of a server's log:\n{server.tail()}" for server in servers))
            raise


def _stop(servers: Sequence[ServerProcess]) -> None:
    """All of them, also when somebody interrupts the wait for one."""
    with ExitStack() as ends:
        for server in servers:
            ends.callback(server.stop)


def start_another(
    servers: list[ServerProcess], folder: Path, dsn: str, name: str, *, processes: int = 1, redis: str | None = None
) -> None:
    """One more, with a folder of its own."""
    environment = {"TARRY_NODE": name, "TARRY_PROCESSES": str(processes)}
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


def pids_of(servers: Sequence[ServerProcess]) -> list[int]:
    """Their processes, supervisors and what these have started."""
    return [pid for server in servers for pid in (server.pid, *children_of(server.pid))]


class Usage:
    """What a measurement takes of the machine, and how long it waits for rows: `measured` has it."""

    def __init__(self, dsn: str, servers: Sequence[ServerProcess]) -> None:
        self._dsn = dsn
        self._pids = pids_of(servers)
        self._database = _database_pid(dsn)

    def servers_cpu(self) -> float:
        """Seconds of processor time that the servers have taken."""
        return sum(map(cpu_of, self._pids))

    def measured(self, work: Callable[[], Figures]) -> Figures:
        """The figures of a work, with the cores that the clients, the servers and the database (where it is a process
        of this machine) had, and the waits for row locks, all over its time."""
        before, began = self._look(), time.perf_counter()
        figures = work()
        took = time.perf_counter() - began
        clients, servers, database, waits, waited = [now - then for now, then in zip(self._look(), before, strict=True)]
        return figures | {
            "client_cores": round(clients / took, 2),
            "server_cores": round(servers / took, 2),
            "database_cores": round(database / took, 2) if self._database else None,
            "row_lock_waits_per_s": round(waits / took),
            "row_lock_ms_per_s": round(waited / took),
        }

    def _look(self) -> tuple[float, ...]:
        database = cpu_of(self._database) if self._database else 0.0
        return time.process_time(), self.servers_cpu(), database, *_lock_waits(self._dsn)


def _lock_waits(dsn: str) -> tuple[float, float]:
    """How often somebody has waited for a row, and for how many milliseconds, since the database's start."""
    status = dict(databases.ask(dsn, "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock%'"))
    return float(status[_LOCKS[0]]), float(status[_LOCKS[1]])


def _database_pid(dsn: str) -> int | None:
    with suppress(OSError, ValueError):
        (row,) = databases.ask(dsn, "SELECT @@datadir, @@pid_file")
        pid = int(Path(row[0], row[1]).read_text())
        cpu_of(pid)
        return pid
    return None

"""A private PostgreSQL, durable as it is by default, and the two queues on it."""

import asyncio
import os
import shutil
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from ...service.demo.server_process import free_port
from .processes import Program

_MAX_CONNECTIONS = 300


class PostgreSQL(ABC):
    """The server of the peers that are on PostgreSQL, each with tables of its own."""

    durability = "`fsync` and `synchronous_commit` on"
    in_memory = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "postgresql"
        self._port = free_port()
        # It refuses to run as root; Debian's package makes this user.
        self._user = "postgres" if os.getuid() == 0 else None
        self._program = Program(folder / "postgresql.log", self._answers, self._user)

    @property
    def conninfo(self) -> str:
        """As a URL."""
        return f"postgresql://bench@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        """On the data that it has kept, or on new ones."""
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
            asyncio.run(self.install())

    @abstractmethod
    async def install(self) -> None:
        """Makes the client's own tables."""

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

    def ask(self, sql: str) -> int:
        """The number that a query gives, by `psql`."""
        return int(self._run("psql", self.conninfo, "-XAtc", sql))

    def asked(self) -> int | None:
        """Transactions."""
        return self.ask("SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database")

    def pids(self) -> list[int]:
        """Of the postmaster."""
        return [self._program.pid]

    def kill(self) -> None:
        """As by a power cut."""
        self._program.kill()

    def stop(self) -> None:
        """Without waiting for its clients."""
        self._program.stop(signal.SIGINT)


def lacking_server() -> str:
    """What to install of the server; nothing if it is there."""
    try:
        for name in ("postgres", "initdb", "psql", "pg_isready"):
            _program(name)
    except RuntimeError:
        return "apt-get install postgresql"
    return ""


def server_version() -> str:
    """As the program tells it."""
    told = subprocess.run([_program("postgres"), "--version"], capture_output=True, text=True, check=True).stdout
    return told.split()[2]


def _program(name: str) -> str:
    folders: Sequence[Path] = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for path in (None, *map(str, folders)):
        if (found := shutil.which(name, path=path)) is not None:
            return found
    raise RuntimeError(f"no {name}")

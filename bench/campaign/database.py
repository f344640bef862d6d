"""The database under the nodes: a private server that can be killed and started again, or a file."""

import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pymysql
from attrs import define

from ...service.demo.server_process import free_port
from .. import databases
from ..peers.processes import Program

_SMALL = ("--innodb-buffer-pool-size=256M",)


@define
class Database:
    """`program` is None where there is none to kill."""

    dsn: str
    folder: Path
    program: Program | None = None
    command: tuple[str, ...] = ()

    def kill(self) -> None:
        """SIGKILL."""
        assert self.program is not None
        self.program.kill()

    def stop(self) -> None:
        assert self.program is not None
        self.program.stop()

    def start(self) -> None:
        assert self.program is not None
        self.program.start(self.command)


@contextmanager
def private(kind: str, folder: Path | None = None) -> Generator[Database, None, None]:
    """A database of the row's own, gone at the end."""
    if "://" in kind:
        with databases.scratch(kind) as dsn:
            yield Database(dsn, Path())
        return
    made = Path(tempfile.mkdtemp(prefix="tarry-campaign-", dir=folder))
    try:
        if kind == "sqlite":
            yield Database(f"{databases.SQLITE}{made / 'tarry.db'}", made)
            return
        port = free_port()
        dsn = f"mysql://tarry:tarry@127.0.0.1:{port}/tarry"
        command = (*databases.server_command(kind, made, port), *_SMALL)
        program = Program(made / "log", lambda: _answers(dsn))
        try:
            program.start(command)
            yield Database(dsn, made, program, command)
        finally:
            program.stop()
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _answers(dsn: str) -> bool:
    try:
        return databases.ask(dsn, "SELECT 1") == [(1,)]
    except pymysql.err.MySQLError:
        return False

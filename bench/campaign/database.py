"""The database under the nodes: a private server that can be killed and started again, or a file."""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from attrs import define, field

from ...service.demo.server_process import free_port
from .. import databases
from ..programs import Program, listens, running
from .networks import Network
from .shims import Lever, Shim

_SMALL = ("--innodb-buffer-pool-size=256M",)
_SHIMMED = ("--innodb-use-native-aio=0", "--log-bin=log")
"""Writes go through the C library, and to a log that grows."""


@define
class Server:
    """A private program that can be killed and started again. `program` is None where there is none to kill."""

    dsn: str
    program: Program | None = None
    command: tuple[str, ...] = ()
    lever: Lever | None = None
    """What its program believes of its machine; or, of a file, the node that has it."""
    network: Network = field(factory=Network, kw_only=True)
    """Where it is reached."""

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
def private(kind: str, shim: Shim | None = None) -> Generator[Server, None, None]:
    """A database of the row's own, gone at the end. Whatever writes there is started under the shim."""
    if "://" in kind:
        with databases.scratch(kind) as dsn:
            yield Server(dsn)
        return
    with tempfile.TemporaryDirectory(prefix="tarry-campaign-", ignore_cleanup_errors=True) as folder:
        made = Path(folder)
        lever = shim.lever("database", made) if shim else None
        if kind == "sqlite":
            yield Server(f"{databases.SQLITE}{made / 'tarry.db'}", lever=lever)
            return
        port = free_port()
        dsn = f"mysql://tarry:tarry@127.0.0.1:{port}/tarry"
        command = (*databases.server_command(kind, made, port), *_SMALL, *(_SHIMMED if lever else ()))
        environment = lever.environment if lever else None
        program = Program(made / "log", partial(databases.answers, dsn), environment=environment)
        with running(program, command):
            yield Server(dsn, program, command, lever)


@contextmanager
def private_redis(folder: Path) -> Generator[Server, None, None]:
    """A Redis that keeps nothing: whoever starts it again has forgotten all."""
    port = free_port()
    command = tuple(databases.redis_command(port))
    program = Program(folder / "redis.log", partial(listens, port))
    with running(program, command):
        yield Server(f"redis://127.0.0.1:{port}/0", program, command)

"""Starts a real `tarry serve` for a test: a process on a free port, ended by SIGTERM with exit code 0, or killed."""

from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from support.waiting import wait_until
from tarry.client import Tarry
from tarry.service.demo.server_process import ServerProcess


@contextmanager
def start_server(
    tmp_path: Path, dsn: str | None = None, env: Mapping[str, str] | None = None
) -> Generator[ServerProcess, None, None]:
    """Starts a server and waits until it is ready; its store is an embedded one in `tmp_path` unless a DSN is given.

    `kill()` and `start()` on it are a power cut and a restart on the same store.
    Its log is printed when the test fails.
    """
    server = ServerProcess(tmp_path, dsn or f"sqlite:///{tmp_path}/tarry.db", environment=env)
    try:
        server.start()
        yield server
        code = server.stop()
        assert code == 0, f"the server ended with {code}"
    except BaseException:
        print(f"The log of the server:\n{server.tail(10_000)}")
        raise
    finally:
        server.kill()


@contextmanager
def start_servers(
    tmp_path: Path, dsn: str, *names: str, env: Mapping[str, str] | None = None
) -> Generator[list[ServerProcess], None, None]:
    """Starts a server of each name on one database, one after another, in a folder of its own."""
    with ExitStack() as stack:
        servers: list[ServerProcess] = []
        for name in names:
            folder = tmp_path / name
            folder.mkdir()
            servers.append(stack.enter_context(start_server(folder, dsn, {**(env or {}), "TARRY_NODE": name})))
        yield servers


@contextmanager
def dying_server(tmp_path: Path, dsn: str, point: str, times: int) -> Generator[ServerProcess, None, None]:
    """Starts a server that kills itself when it reaches this point for the n-th time, see `tarry.bench.killing`; waits
    for that at the end."""
    server = ServerProcess(tmp_path, dsn, program=("tarry.bench.killing", point, str(times)))
    try:
        server.start()
        yield server
        wait_until(lambda: server.ended)
        assert server.stop() == -9
    except BaseException:
        print(f"The log of the server that was to die at {point}:\n{server.tail(10_000)}")
        raise
    finally:
        server.kill()


@contextmanager
def client_of(server: ServerProcess) -> Generator[Tarry, None, None]:
    """A client of the server."""
    with Tarry(server.url) as tarry:
        yield tarry

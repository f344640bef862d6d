"""Starts a real `tarry serve` for a test: a process on a free port, ended by SIGTERM with exit code 0, or killed."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

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
def client_of(server: ServerProcess) -> Generator[Tarry, None, None]:
    """A client of the server."""
    with Tarry(server.url) as tarry:
        yield tarry

"""A real `tarry serve` for the tests: a process on a free port, ended by SIGTERM with exit code 0, or killed."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tarry.client import Tarry
from tarry.service.demo.server_process import ServerProcess


@contextmanager
def start_server(
    tmp_path: Path, dsn: str | None = None, env: Mapping[str, str] | None = None
) -> Generator[ServerProcess, None, None]:
    """A server that is ready, on an embedded store in `tmp_path` unless a DSN names another.

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
    """A client of it."""
    with Tarry(server.url) as tarry:
        yield tarry

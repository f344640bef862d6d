"""What the tests through the front door share: a server in a process of its own, and a client of it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.generations import make_next_program
from support.server import client_of, start_server, start_servers
from support.servers import database
from tarry.client import Tarry
from tarry.service.demo.server_process import ServerProcess


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    """Settings of the module's server; a module may have its own."""
    return {}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Iterator[ServerProcess]:
    """One for all of a module who leave it as it was."""
    with start_server(tmp_path_factory.mktemp("server"), env=environment) as server:
        yield server


@pytest.fixture
def tarry(server: ServerProcess) -> Iterator[Tarry]:
    with client_of(server) as tarry:
        yield tarry


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def two_servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[ServerProcess]]:
    """Two on one database, `a` and `b`, for all of a module; each of its tests has topics and clients of its own."""
    server = request.getfixturevalue(f"{request.param}_server")
    with database(server) as dsn, start_servers(tmp_path_factory.mktemp("servers"), dsn, "a", "b") as servers:
        yield servers


@pytest.fixture(scope="module")
def next_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH with a program that knows a migration more."""
    return make_next_program(tmp_path_factory.mktemp("next"))


@pytest.fixture
def dsn(request: pytest.FixtureRequest, tmp_path: Path, fresh_database: Callable[[str], str]) -> str:
    """A fresh store of the kind that the test names, see `support.in_turn`."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/tarry.db"
    return fresh_database(request.getfixturevalue(f"{request.param}_server"))

"""Fixtures for pytest: `pytest_plugins = ["tarry.testing.fixtures"]` in the root's conftest.py.

With a DSN the server is on that MySQL or MariaDB, in a database of its own. The DSN is `TARRY_TEST_DSN` in the
environment, or else `tarry_dsn` in pytest's configuration; a fixture `tarry_dsn` of the user replaces both.
"""

import os
from collections.abc import Iterator

import pytest

from ..client import Tarry
from .embedded import EmbeddedServer

_VARIABLE, _OPTION = "TARRY_TEST_DSN", "tarry_dsn"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option to pytest's configuration."""
    text = (
        f"mysql://user:password@host/ for tests of code with an outbox; {_VARIABLE} in the environment goes before it"
    )
    parser.addini(_OPTION, text, default="")


@pytest.fixture(scope="session")
def tarry_dsn(pytestconfig: pytest.Config) -> str | None:
    """The DSN of the MySQL or MariaDB for tests; None for SQLite. A fixture of yours by this name replaces it."""
    return os.environ.get(_VARIABLE) or pytestconfig.getini(_OPTION) or None


@pytest.fixture
def tarry_server(tarry_dsn: str | None) -> Iterator[EmbeddedServer]:
    """A server of the test's own."""
    with EmbeddedServer(dsn=tarry_dsn) as server:
        yield server


@pytest.fixture
def tarry(tarry_server: EmbeddedServer) -> Iterator[Tarry]:
    """A client of `tarry_server`."""
    with Tarry(tarry_server.url) as client:
        yield client

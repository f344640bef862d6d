"""Fixtures for pytest: `pytest_plugins = ["tarry.testing.fixtures"]` in the root's conftest.py."""

from collections.abc import Iterator

import pytest

from ..client import Tarry
from .embedded import EmbeddedServer


@pytest.fixture
def tarry_server() -> Iterator[EmbeddedServer]:
    """A server of the test's own."""
    with EmbeddedServer() as server:
        yield server


@pytest.fixture
def tarry(tarry_server: EmbeddedServer) -> Iterator[Tarry]:
    """A client of it."""
    with Tarry(tarry_server.url) as client:
        yield client

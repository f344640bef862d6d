"""A scripted server, and a client of it that does not sleep."""

from collections.abc import Iterator

import pytest

from support.scripted_server import ScriptedServer, scripted_server
from tarry.client import Tarry


@pytest.fixture
def script() -> Iterator[ScriptedServer]:
    with scripted_server() as server:
        yield server


@pytest.fixture
def sleeps() -> list[float]:
    """What the client would have slept."""
    return []


@pytest.fixture
def tarry(script: ScriptedServer, sleeps: list[float]) -> Iterator[Tarry]:
    with Tarry(script.url, sleep=sleeps.append) as client:
        yield client

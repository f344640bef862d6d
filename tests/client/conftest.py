"""A scripted server, and clients of it that do not sleep: `Tarry`, and `AsyncTarry` on each event loop."""

from collections.abc import Iterator

import pytest

from support.blocking import KINDS, client_of
from support.scripted_server import ScriptedServer, scripted_server
from support.small_broker import SmallBroker
from tarry.client import Tarry


@pytest.fixture
def script() -> Iterator[ScriptedServer]:
    with scripted_server() as server:
        yield server


@pytest.fixture
def broker(script: ScriptedServer) -> SmallBroker:
    broker = SmallBroker()
    script.respond = broker.respond
    return broker


@pytest.fixture
def sleeps() -> list[float]:
    """What the client would have slept."""
    return []


@pytest.fixture(params=KINDS)
def tarry(request: pytest.FixtureRequest, script: ScriptedServer, sleeps: list[float]) -> Iterator[Tarry]:
    with client_of(request.param, script.url, sleeps) as client:
        yield client

"""The app over a node whose parts are spied on, and a client that speaks to it without a socket.

Every answer that the client sees is held against /openapi.json, so that the document stays true.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from support.documented import documented
from support.spied import SpiedServer, spied
from tarry.service.http.server.ports import App as ASGIApp
from tarry.service.metrics import Metrics
from tarry.service.settings import Settings


@pytest.fixture
def settings() -> Settings:
    return Settings(max_body=1024, max_batch=5, max_batch_bytes=8192)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
async def server(tmp_path: Path, settings: Settings, metrics: Metrics) -> AsyncIterator[SpiedServer]:
    async with spied(tmp_path / "tarry.db", settings, metrics) as server:
        yield server


@pytest.fixture
def app(server: SpiedServer) -> ASGIApp:
    return server.app()


@pytest.fixture
async def client(app: ASGIApp) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=app)
    hooks = {"response": [documented]}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8277", event_hooks=hooks) as client:
        yield client

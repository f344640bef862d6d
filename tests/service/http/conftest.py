"""The app over a recording broker, and a client that speaks to it without a socket.

Every answer that the client sees is held against /openapi.json, so that the document stays true.
"""

from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.types import ASGIApp

from support.documented import documented
from support.recording_broker import RecordingBroker
from tarry.service.http.app import make_app
from tarry.service.metrics import Metrics
from tarry.service.settings import Settings


@pytest.fixture
def broker() -> RecordingBroker:
    return RecordingBroker()


@pytest.fixture
def settings() -> Settings:
    return Settings(max_body=1024, max_batch=5, max_batch_bytes=8192)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def app(broker: RecordingBroker, settings: Settings, metrics: Metrics) -> ASGIApp:
    return make_app(broker, settings, metrics)


@pytest.fixture
async def client(app: ASGIApp) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=app)
    hooks = {"response": [documented]}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8277", event_hooks=hooks) as client:
        yield client

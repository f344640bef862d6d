"""The dashboard over a real node on an embedded store, and a browser's part of HTTP without a browser."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.spied import SpiedServer, spied
from tarry.service.dashboard.dashboard import Dashboard


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[SpiedServer]:
    async with spied(tmp_path / "tarry.db") as server:
        yield server


@pytest.fixture
def dashboard(server: SpiedServer) -> Dashboard:
    return Dashboard(server.app(), ("127.0.0.1",), server.metrics.http_request)


@pytest.fixture
async def browser(dashboard: Dashboard) -> AsyncIterator[httpx.AsyncClient]:
    transport: Any = httpx.ASGITransport(app=dashboard)
    headers = {"Accept": "text/html"}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8277", headers=headers) as client:
        yield client

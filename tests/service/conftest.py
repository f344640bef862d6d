"""An embedded store, for parts of a server that need no whole one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from support.embedded import embedded
from tarry.store.sqlite.backend import SQLiteBackend
from tarry.store.store import Store


@pytest.fixture
async def embedded_backend(tmp_path: Path) -> AsyncIterator[SQLiteBackend]:
    backend = embedded(tmp_path / "tarry.db")
    yield backend
    with trio.CancelScope(shield=True):
        await backend.aclose()


@pytest.fixture
def store(embedded_backend: SQLiteBackend) -> Store:
    return Store(embedded_backend)

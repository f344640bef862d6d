"""What a server knows of topics and groups, over an embedded store."""

import pytest

from tarry.service.clock import Clock
from tarry.service.engine.state.directory import Directory
from tarry.store.store import Store


@pytest.fixture
async def clock(store: Store) -> Clock:
    """The store's own, with its first sample."""
    clock = Clock(store.backend.now)
    await clock.take()
    return clock


@pytest.fixture
def directory(store: Store, clock: Clock) -> Directory:
    return Directory(store, clock, auto_create=True)

"""Opens a directory of topics over a new embedded store, without a service."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from support.embedded import embedded
from tarry.service.clock import Clock
from tarry.service.engine.state.directory import Directory
from tarry.store.store import Store


@asynccontextmanager
async def open_directory(folder: Path) -> AsyncGenerator[tuple[Store, Directory, Clock], None]:
    """Opens a store, directory and clock in this folder; the clock has taken its first sample."""
    backend = embedded(folder / "tarry.db")
    clock = Clock(backend.now)
    await clock.take()
    store = Store(backend)
    yield store, Directory(store, clock, auto_create=True), clock
    with trio.CancelScope(shield=True):
        await backend.aclose()

"""Runs a server in the background of a test."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from tarry.service.lifecycle import Lifecycle


@asynccontextmanager
async def running(server: Lifecycle, *, ready: bool = True, closes: bool = True) -> AsyncGenerator[Lifecycle, None]:
    """Waits until it is ready and has recovered, if `ready` is set; closes its store at the end, if `closes` is."""
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run)
            if ready:
                await server.ready.wait()
                await server.node.loader.recovered.wait()
            yield server
            nursery.cancel_scope.cancel()
    finally:
        if closes:
            with trio.CancelScope(shield=True):
                await server._store.backend.aclose()

"""A spied server that many examples share: it runs in a thread, and calls on it run there, too."""

import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import httpx
import trio

from support.spied import SpiedServer, spied
from tarry.service.settings import Settings

T = TypeVar("T")


class Shared:
    """A server that runs within `with`. Use `client` only in functions that `run` runs."""

    server: SpiedServer
    client: httpx.AsyncClient
    _token: trio.lowlevel.TrioToken
    _closing: trio.Event

    def __init__(self, path: Path, settings: Settings) -> None:
        self._path, self._settings = path, settings
        self._started = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._serve,))

    def __enter__(self) -> "Shared":
        self._thread.start()
        assert self._started.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        trio.from_thread.run_sync(self._closing.set, trio_token=self._token)
        self._thread.join()

    def run(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Runs a function and returns its result; `server.asked` then has HTTP's calls on the node's parts."""
        self.server.asked.clear()
        return trio.from_thread.run(ask, trio_token=self._token)

    async def _serve(self) -> None:
        self._token, self._closing = trio.lowlevel.current_trio_token(), trio.Event()
        async with spied(self._path, self._settings) as self.server:
            transport = httpx.ASGITransport(app=self.server.app())
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as self.client:
                self._started.set()
                await self._closing.wait()

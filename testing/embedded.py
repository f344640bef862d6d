"""`EmbeddedServer`: a real server on a free port, in a thread of this process, with a store of its own."""

import os
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from types import TracebackType
from typing import Any, Self

import trio

from ..client.durations import Seconds, seconds
from ..client.tarry import Tarry
from ..service.serve import embed
from ..service.settings import Settings
from ..store.sqlite.backend import SQLiteBackend
from ..store.steady_clock import SteadyClock
from .idle import wait_until_idle
from .moved_time import MovedTime

_START = 30.0
"""Seconds."""


class EmbeddedServer:
    """A server for a `with`. It is HTTP over a real socket, a real embedded store, and nothing else is shared.

    Settings are those of `tarry serve`, by name: `EmbeddedServer(ladder=["1m", "1h"])`. Neither the environment nor a
    `tarry.toml` is read.
    """

    def __init__(self, **settings: Any) -> None:
        for name in ("dsn", "listen", "processes", "redis"):
            if name in settings:
                raise ValueError(f"{name}: an embedded server has a store and a port of its own; leave it out")
        self.clock = MovedTime()
        self.url = ""
        """Where it is, once it runs."""
        self._settings = settings
        self._ready = Event()
        self._failed: BaseException | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._stopped: trio.Event | None = None
        self._folder = TemporaryDirectory[str](prefix="tarry-")
        self._thread = Thread(target=self._run, name="tarry", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(_START):
            raise TimeoutError(f"the embedded server was not ready after {_START:.0f} s")
        if self._failed is not None:
            self._folder.cleanup()
            raise self._failed
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None and self._stopped is not None:
            self.clock.move = lambda change: change()
            self._token.run_sync_soon(self._stopped.set)
        self._thread.join()
        self._folder.cleanup()
        if error is None and self._failed is not None:
            raise self._failed

    def drain(self, timeout: Seconds = 10.0) -> None:
        """Waits until everything that is due is handled by the groups there are, their retries too.

        Somebody has to consume meanwhile: a worker of yours, in a thread or process. Raises `NotDrained`, which tells
        what is left, after `timeout` seconds of real time.
        """
        with Tarry(self.url) as tarry:
            wait_until_idle(tarry, self.clock.now, seconds(timeout, "timeout"))

    def _run(self) -> None:
        try:
            trio.run(self._serve, clock=self.clock)
        except BaseException as error:
            self._failed = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._stopped = trio.Event()
        self.clock.move = partial(trio.from_thread.run_sync, trio_token=self._token)
        path = Path(self._folder.name) / "tarry.db"
        flags = {"listen": "127.0.0.1:0"} | self._settings
        backend = SQLiteBackend(path, SteadyClock(self.clock.host, self.clock.elapsed))
        settings = Settings.load(config=os.devnull, environment={}, flags=flags)
        await embed(backend, settings, self.clock.elapsed, self._stopped, self._tell)

    def _tell(self, url: str) -> None:
        self.url = url
        self._ready.set()

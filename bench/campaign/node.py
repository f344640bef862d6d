"""A node of the campaign: a real `tarry serve`, perhaps with a point at which it ends itself, or with a planted bug."""

import os
import signal
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import trio

from ...service.demo.server_process import ServerFailed, ServerProcess
from .networks import Place

NO_POINT = ("none", "1")
_TRIES = 5
"""Of a start while the database is being killed."""
_PATIENCE = 2.0
"""Seconds for it to say whether it is ready."""


class Node:
    """It keeps its port over restarts."""

    def __init__(
        self, name: str, folder: Path, dsn: str, environment: Mapping[str, str], plant: str, place: Place
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.name = name
        self.folder = folder
        self.place = place
        self.up_ms = 0.0
        """From its last death until it was ready again."""
        self.armed = False
        """Whether it is to end itself at a point."""
        self._dsn = dsn
        # Nobody but the campaign reaches its place.
        alone = {"TARRY_INSECURE_LISTEN": "yes"} if place.within else {}
        self._environment = {**environment, **alone, "TARRY_NODE": name}
        self._plant = plant
        self.process = self._made(NO_POINT)

    @property
    def port(self) -> int:
        return self.process.port

    @property
    def host(self) -> str:
        return self.place.addresses["callers"]

    @property
    def readiness(self) -> int:
        """The status of /readyz; 0 where there was no answer."""
        with (
            suppress(OSError, HTTPException),
            closing(HTTPConnection(self.host, self.port, timeout=_PATIENCE)) as connection,
        ):
            connection.request("GET", "/readyz")
            return connection.getresponse().status
        return 0

    async def start(self, point: tuple[str, str] = NO_POINT) -> None:
        """Returns when it is ready."""
        began = time.monotonic()
        for left in reversed(range(_TRIES)):
            self.process = self._made(point, self.port)
            self.armed = point != NO_POINT
            try:
                await trio.to_thread.run_sync(self.process.start)
                break
            except ServerFailed:
                if not left:
                    raise
                self.kill()
                point = NO_POINT  # it may have reached its point before it was ready
        self.up_ms = (time.monotonic() - began) * 1000

    def kill(self) -> None:
        self.process.kill()

    def pause(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    async def stop(self) -> int:
        return await trio.to_thread.run_sync(self.process.stop)

    def _made(self, point: tuple[str, str], port: int | None = None) -> ServerProcess:
        program = ("tarry.bench.campaign.served", self._plant or "none", *point)
        return ServerProcess(
            self.folder,
            self._dsn,
            host=self.host,
            port=port,
            environment=self._environment,
            program=program,
            within=self.place.within,
        )

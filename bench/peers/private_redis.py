"""A private Redis that syncs its append-only file at each write."""

from pathlib import Path
from typing import Any

import redis

from ...service.demo.server_process import free_port
from .processes import Program, found

_CONNECTIONS = 1000
"""Of a client; by default it has fewer than callers, and refuses some."""


class PrivateRedis:
    """The server of the peers that are on Redis."""

    durability = "Append-only file, a sync for each round of writes (`appendfsync always`)"
    in_memory = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        self.program = Program(folder / "redis.log", self._answers)

    def start(self) -> None:
        """On the file that it has kept."""
        command = [found("redis-server") or "", "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        self.program.start([*command, "--dir", str(self._folder), "--appendonly", "yes", "--appendfsync", "always"])

    def _answers(self) -> bool:
        try:
            return bool(self.client().ping())
        except redis.RedisError:  # not there yet, or still reading
            return False

    def client(self) -> Any:
        """A new client of redis-py, whose types leave much unknown."""
        return redis.Redis(port=self.port, max_connections=_CONNECTIONS)

    def asked(self) -> int | None:
        """Commands."""
        with self.client() as client:
            return int(client.info("stats")["total_commands_processed"])

    def pids(self) -> list[int]:
        """Of the server."""
        return [self.program.pid]

    def kill(self) -> None:
        """As by a power cut."""
        self.program.kill()

    def stop(self) -> None:
        """Ends it."""
        self.program.stop()

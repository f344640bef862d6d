"""BullMQ on Redis, through its Node client: each call runs `bullmq.js` in a new process.

One `Worker` with a concurrency of 8; jobs are removed when done, as BullMQ's guide for production advises.
"""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import redis

from ...service.demo.server_process import free_port
from ..programs import Program, found
from ..report import Figures
from .peer import CONSUMERS, FILLER, PAGE, QUEUE, Arrival
from .processes import Served, lacking

_SECONDS = 600
"""The most that a call may take; each ends by itself before."""
_SCRIPT = Path(__file__).with_name("bullmq.js")


class BullMQ(Served):
    """See the module."""

    durability = "Append-only file, a sync for each round of writes (`appendfsync always`)"
    in_memory = True
    lacks = "All in memory beside the file; the key against doubles is a job's id, forgotten with the job"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._program = Program(folder / "redis.log", self._answers)

    def missing(self) -> str:
        wanted = lacking([], ("redis-server", "redis-server"), ("node", "nodejs npm"))
        if not wanted and subprocess.run(["node", _SCRIPT, "version"], capture_output=True).returncode:
            folder = "NODE_PATH=folder/node_modules"
            return f"npm install --prefix folder bullmq ioredis, and set {folder}"
        return wanted

    def version(self) -> str:
        return f"Redis {self._client().info('server')['redis_version']}, BullMQ {self._ask('version')}"

    def start(self) -> None:
        command = [found("redis-server") or "", "--port", str(self._port), "--bind", "127.0.0.1", "--save", ""]
        self._program.start([*command, "--dir", str(self._folder), "--appendonly", "yes", "--appendfsync", "always"])

    def _answers(self) -> bool:
        try:
            return bool(self._client().ping())
        except redis.RedisError:  # not listening yet, or still loading
            return False

    def _client(self) -> Any:
        """A new client of redis-py, whose types leave much unknown."""
        return redis.Redis(port=self._port)

    def publish(self, callers: int, seconds: float) -> Figures:
        figures: Figures = self._ask("publish", callers=callers, seconds=seconds)
        return figures

    def schedule(self, dues: Sequence[int]) -> float:
        return float(self._ask("schedule", dues=list(dues), page=PAGE))

    def consume(self, total: int, patience: float) -> list[Arrival]:
        arrivals = self._ask("consume", total=total, patience=patience, consumers=CONSUMERS)
        return [(number, due, at) for number, due, at in arrivals]

    def pending(self) -> int:
        return int(self._ask("pending"))

    def asked(self) -> int | None:
        with self._client() as client:
            return int(client.info("stats")["total_commands_processed"])

    def _ask(self, call: str, **arguments: object) -> Any:
        wish = {"port": self._port, "queue": QUEUE, "filler": FILLER, **arguments}
        told = subprocess.run(
            ["node", _SCRIPT, call],
            input=json.dumps(wish),
            env=os.environ | {"NODE_ENV": "production"},
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
        if told.returncode:
            raise RuntimeError(f"node: {told.stderr[-1000:]}")
        return json.loads(told.stdout)

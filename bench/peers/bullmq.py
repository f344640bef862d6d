"""BullMQ on Redis, through its client for Node: `bullmq.js` in a process of its own for each call.

One `Worker` with a concurrency of 8; jobs are removed when done, as its guide for production has it.
"""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..report import Figures
from .peer import CONSUMERS, FILLER, PAGE, QUEUE, Arrival
from .private_redis import PrivateRedis
from .processes import lacking

_SECONDS = 600
"""That a call may take; each ends by itself before."""
_SCRIPT = Path(__file__).with_name("bullmq.js")


class BullMQ(PrivateRedis):
    """See the module."""

    lacks = "All in memory beside the file; the key against doubles is a job's id, forgotten with the job"

    def missing(self) -> str:
        wanted = lacking([], ("redis-server", "redis-server"), ("node", "nodejs npm"))
        if not wanted and subprocess.run(["node", _SCRIPT, "version"], capture_output=True).returncode:
            folder = "NODE_PATH=folder/node_modules"
            return f"npm install --prefix folder bullmq ioredis, and set {folder}"
        return wanted

    def version(self) -> str:
        return f"Redis {self.client().info('server')['redis_version']}, BullMQ {self._ask('version')}"

    def publish(self, callers: int, seconds: float) -> Figures:
        figures: Figures = self._ask("publish", callers=callers, seconds=seconds)
        return figures

    def schedule(self, dues: Sequence[int]) -> float:
        return float(self._ask("schedule", dues=list(dues), page=PAGE))

    def consume(self, total: int, patience: float) -> list[Arrival]:
        found = self._ask("consume", total=total, patience=patience, consumers=CONSUMERS)
        return [(number, due, at) for number, due, at in found]

    def pending(self) -> int:
        return int(self._ask("pending"))

    def _ask(self, call: str, **arguments: object) -> Any:
        wish = {"port": self.port, "queue": QUEUE, "filler": FILLER, **arguments}
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

"""RQ on Redis, through its own client: a thread to a caller, pipelines for many.

`rq worker-pool` with 8 processes of `SimpleWorker`, which forks for no job, as RQ's usual worker does. Their scheduler
looks once a second.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from ...service.demo.server_process import python_path
from ..closed_loop import in_threads
from ..report import Figures
from .peer import CONSUMERS, FILLER, PAGE, QUEUE, Arrival
from .private_redis import PrivateRedis
from .processes import lacking, tree
from .rq_job import FOLDER, WIDTH, handle


class RQ(PrivateRedis):
    """See the module."""

    lacks = "Due times in whole seconds, looked for once a second; all in memory beside the file"

    def missing(self) -> str:
        return lacking(["rq"], ("redis-server", "redis-server"))

    def version(self) -> str:
        return f"Redis {self.client().info('server')['redis_version']}, RQ {version_of('rq')}"

    def _queue(self) -> Any:
        return import_module("rq").Queue(QUEUE, connection=self.client())

    def publish(self, callers: int, seconds: float) -> Figures:
        queue = self._queue()
        return in_threads([lambda: queue.enqueue(handle, 0, 0, FILLER)] * callers, seconds)

    def schedule(self, dues: Sequence[int]) -> float:
        queue, redis = self._queue(), self.client()
        began = time.perf_counter()
        for start in range(0, len(dues), PAGE):
            with redis.pipeline(transaction=False) as pipeline:
                for number, due in enumerate(dues[start : start + PAGE], start):
                    if due:
                        # Up: RQ leaves out the milliseconds, and it would come early.
                        moment = datetime.fromtimestamp(-(-due // 1000), UTC)
                        queue.enqueue_at(moment, handle, number, due, FILLER, pipeline=pipeline)
                    else:
                        queue.enqueue(handle, number, due, FILLER, pipeline=pipeline)
                pipeline.execute()
        return time.perf_counter() - began

    def consume(self, total: int, patience: float) -> list[Arrival]:
        deadline = time.monotonic() + patience
        command = [sys.executable, "-P", "-m", "rq.cli", "worker-pool", QUEUE, "--num-workers", str(CONSUMERS)]
        command += ["--worker-class", "rq.worker.SimpleWorker", "--quiet", "--url", f"redis://127.0.0.1:{self.port}"]
        with tempfile.TemporaryDirectory(prefix="tarry-bench-") as folder:
            pool = subprocess.Popen(
                command,
                env=os.environ | python_path() | {FOLDER: folder},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                while _written(folder) < total and time.monotonic() < deadline and pool.poll() is None:
                    time.sleep(0.02)
            finally:
                for pid in tree(pool.pid):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                pool.wait()
            return [
                (int(number), int(due), int(at))
                for file in Path(folder).iterdir()
                for number, due, at in map(str.split, file.read_text().splitlines())
            ]

    def pending(self) -> int:
        return int(self._queue().scheduled_job_registry.count)


def _written(folder: str) -> int:
    return sum(file.stat().st_size for file in Path(folder).iterdir()) // WIDTH

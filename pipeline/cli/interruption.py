"""Ctrl-C in the middle of a job.

PySpark's own handler calls into Java in the midst of another call, and says so at length; a KeyboardInterrupt there
leaves a connection with half an answer. So the jobs are cancelled from another thread, and the call that waits for them
ends by itself.
"""

import sys
import threading
import time
from contextlib import suppress
from types import FrameType
from typing import Any

_EVERY = 0.5
"""Seconds: a command has several jobs, and the next one is not to begin either."""


class Interruption:
    """The handler of SIGINT. The second Ctrl-C, and one without Spark, is a KeyboardInterrupt."""

    def __init__(self) -> None:
        self.happened = False

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        context = _context()
        if self.happened or context is None:
            raise KeyboardInterrupt
        self.happened = True
        threading.Thread(target=_cancel, args=(context,), name="tarry-interruption", daemon=True).start()


def _context() -> Any:
    """Spark's, where one is; PySpark is not loaded for this."""
    loaded: Any = sys.modules.get("pyspark")
    return None if loaded is None else loaded.SparkContext._active_spark_context  # it has no other way


def _cancel(context: Any) -> None:
    while True:
        with suppress(Exception):
            context.cancelAllJobs()
        time.sleep(_EVERY)

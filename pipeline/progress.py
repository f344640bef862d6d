"""How far Spark's tasks are, on a terminal: a line on stderr that is written over."""

import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager

from pyspark.sql import SparkSession

_EVERY = 0.5
"""Seconds."""


@contextmanager
def shown(spark: SparkSession, what: str) -> Generator[None]:
    """While the `with` runs."""
    if not sys.stderr.isatty():
        yield
        return
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(spark, what, over), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def _watch(spark: SparkSession, what: str, over: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    while not over.wait(_EVERY):
        done = tasks = 0
        for number in tracker.getActiveStageIds():
            stage = tracker.getStageInfo(number)
            if stage is not None:
                done, tasks = done + stage.numCompletedTasks, tasks + stage.numTasks
        sys.stderr.write(f"\r\x1b[K{what}: {done} of {tasks} tasks")
        sys.stderr.flush()

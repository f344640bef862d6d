"""Shows how far Spark's tasks are, on a terminal: a line on stderr that is written over."""

import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from . import row_counts
from .row_counts import Rows

_EVERY = 0.5
"""Seconds between two updates."""


@contextmanager
def shown_by_rows(spark: SparkSession, what: str) -> Generator[Rows]:
    """Shows progress while the `with` runs, with the rows that tasks report to the `address` of what it gives."""
    if not sys.stderr.isatty():
        yield Rows()
        return
    host = spark.sparkContext.getConf().get("spark.driver.host", "127.0.0.1") or "127.0.0.1"
    with row_counts.listening(host) as rows, shown(spark, what, rows):
        yield rows


@contextmanager
def shown(spark: SparkSession, what: str, rows: Rows | None = None) -> Generator[None]:
    """Shows progress while the `with` runs."""
    if not sys.stderr.isatty():
        yield
        return
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(spark, what, rows, over), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def _watch(spark: SparkSession, what: str, rows: Rows | None, over: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    began = 0.0
    """When the first rows came: before that there is no pace to show."""
    while not over.wait(_EVERY):
        done = tasks = 0
        for number in tracker.getActiveStageIds():
            stage = tracker.getStageInfo(number)
            if stage is not None:
                done, tasks = done + stage.numCompletedTasks, tasks + stage.numTasks
        counted = ""
        if rows is not None and rows.count:
            began = began or time.monotonic() - _EVERY
            counted = f"{rows.count:,} rows, {rows.count / (time.monotonic() - began):,.0f} a second, "
        sys.stderr.write(f"\r\x1b[K{what}: {counted}{done} of {tasks} tasks")
        sys.stderr.flush()

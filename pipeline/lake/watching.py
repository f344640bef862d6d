"""The archive that goes on: Spark's Structured Streaming asks the source what has come, and each batch is archived.

A batch is a set of ranges, not of rows: the tasks that write the files read those ranges themselves. What the
checkpoint remembers decides nothing. A batch goes from the lake's own positions on up to its end, so that one that
comes twice, or after a loss of the checkpoint, adds nothing twice and leaves nothing out.
"""

import signal
import tempfile
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from ..errors import PipelineError
from ..source import source
from ..spark_errors import translate
from ..store_connection import absolute
from .archive import RANGED, Archiver
from .object_store import in_object_store

_TIMED_EVERY = 300.0
"""Seconds between looks for dead letters, cancelled messages and fires, which go by time."""

_ALL = 1 << 62
"""Rows: a batch reaches to the end at once, whatever the checkpoint remembers; its steps are of the archiver's size."""


def watch(archiver: Archiver, every: int, over: threading.Event) -> None:
    """Archives until `over` is set, looking each `every` seconds; then ends what it has begun."""
    queries: list[StreamingQuery] = []
    with _checkpoints(archiver.lake.place) as place:
        try:
            archiver.catch_up(over)  # what a batch was cut off from is in no later batch
            queries += [_follow(archiver, table, every, f"{place}/{table}") for table in RANGED]
            while not over.is_set():
                archiver.step_timed()
                archiver.erase()
                if _wait(queries, over):
                    return
        finally:
            archiver.finish()
            for query in queries:
                query.stop()


@contextmanager
def _checkpoints(lake: str) -> Generator[str]:
    """Where Spark keeps them: with the lake, or on this machine while it runs, where Spark cannot write to the lake."""
    if not in_object_store(lake):
        yield f"{lake}/_watch"
        return
    with tempfile.TemporaryDirectory(prefix="tarry-", ignore_cleanup_errors=True) as folder:
        yield Path(folder).as_uri()


def _wait(queries: list[StreamingQuery], over: threading.Event) -> bool:
    """Until it is time for the rest; True when it is over. Raises what a query died of."""
    waited = 0.0
    while waited < _TIMED_EVERY:
        if over.wait(0.2):
            return True
        waited += 0.2
        for query in queries:
            if query.isActive:
                continue
            error = query.exception()
            raise (translate(error) if error is not None else None) or PipelineError("Spark has ended the stream")
    return False


def _follow(archiver: Archiver, table: str, every: int, checkpoint: str) -> StreamingQuery:
    spark = archiver.spark()
    source.register(spark)
    stream = (
        spark.readStream.format("tarry")
        .option("dsn", absolute(archiver.dsn))
        .option("table", table)
        .option("as", "ranges")
        .option("rows", str(_ALL))
        .load()
    )
    writer = stream.writeStream.foreachBatch(_batch(archiver, table)).trigger(processingTime=f"{every} seconds")
    return writer.option("checkpointLocation", checkpoint).queryName(f"tarry archive {table}").start()


def _batch(archiver: Archiver, table: str) -> Callable[[DataFrame, int], None]:
    def archive(ranges: DataFrame, _number: int) -> None:
        upto: dict[str, int] = {}
        for row in ranges.select("mark", "last").collect():  # a row per task at most
            upto[row["mark"]] = max(upto.get(row["mark"], 0), row["last"])
        while upto and archiver.step(table, upto):
            pass

    return archive


@contextmanager
def until_told(over: threading.Event) -> Generator[None, None, None]:
    """SIGTERM and SIGINT set the event, inside of it."""

    def end(_number: int, _frame: Any) -> None:
        over.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

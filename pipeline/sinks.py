"""Gives Arrow batches to a function in Spark's workers, and brings the result of each task back to the driver.

Without pandas, Spark offers that to writers of data sources only. They are made where they are used, so that nothing
that they hold, such as a DSN with its password, is in an option, which Spark shows in several places.
"""

import pickle
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from .arrow import Batch
from .spark_errors import translated

T = TypeVar("T")


class _Done(WriterCommitMessage):
    def __init__(self, result: Any) -> None:
        self.result = result


class _Writer(DataSourceArrowWriter):
    def __init__(self, work: Callable[[Iterator[Batch]], Any], results: str) -> None:
        self._work = work
        self._results = results

    def write(self, iterator: Iterator[Batch]) -> WriterCommitMessage:
        return _Done(self._work(iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Spark calls this in a process of its own beside the driver, hence the file."""
        Path(self._results).write_bytes(pickle.dumps([cast("_Done", message).result for message in messages]))


def drain(frame: DataFrame, work: Callable[[Iterator[Batch]], T]) -> list[T]:
    """Runs `work` over the rows of each partition; returns the results, which must be small.

    Raises the pipeline's own errors as they were raised in a task.
    """
    with tempfile.TemporaryDirectory(prefix="tarry-") as folder:
        results = Path(folder) / "results"

        class Sink(DataSource):
            @classmethod
            def name(cls) -> str:
                return "tarry_sink"

            def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
                return _Writer(work, str(results))

        frame.sparkSession.dataSource.register(Sink)
        with translated():
            frame.write.format("tarry_sink").mode("append").save()
        return cast("list[T]", pickle.loads(results.read_bytes()))  # noqa: S301  # we wrote it

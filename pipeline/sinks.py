"""Gives Arrow batches to a function in Spark's workers, and brings the result of each task back to the driver.

What the function holds, such as a DSN with its password, goes along as a part of its code, which Spark shows nowhere.
"""

import pickle
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from pyspark.sql import DataFrame

from .arrow import Batch, pa
from .spark_errors import translated

T = TypeVar("T")


def drain(frame: DataFrame, work: Callable[[Iterator[Batch]], T]) -> list[T]:
    """Runs `work` over the rows of each partition; returns the results, which must be small.

    Raises the pipeline's own errors as they were raised in a task.
    """

    def run(batches: Iterator[Batch]) -> Iterator[Any]:
        yield pa.RecordBatch.from_pydict({"result": [pickle.dumps(work(batches))]})

    rows: Any = frame  # PySpark's types of this call are partly unknown
    with translated():
        done = rows.mapInArrow(run, "result binary").collect()
    return [pickle.loads(row.result) for row in done]  # noqa: S301  # we wrote it

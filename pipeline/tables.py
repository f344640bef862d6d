"""The tables that a job looks at, each message once, wherever its rows lie.

`history.open_tables` makes them of the store, of the lake, or of both together; tests make them of literal rows.
"""

from typing import Any

from attrs import frozen
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType


@frozen
class Tables:
    """DataFrames with the schemas of `schemas`, by their names there.

    Without a store, what the lake has not is empty.
    """

    messages: DataFrame
    deliveries: DataFrame
    claims: DataFrame
    retries: DataFrame
    returns: DataFrame
    dead: DataFrame
    timers: DataFrame
    cancelled: DataFrame
    queues: DataFrame
    cursors: DataFrame
    tallies: DataFrame


def no_rows(spark: Any, schema: StructType) -> DataFrame:
    """A DataFrame without rows. (PySpark's types of this call are partly unknown.)"""
    frame: DataFrame = spark.createDataFrame([], schema)
    return frame

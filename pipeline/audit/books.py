"""What the audit wants to know beside the tables: seeks, what outboxes did that is not counted yet, and how many dead
letters the store itself has, whatever of them is in a lake.

All are small: a seek is what an operator did by hand, an outbox has a row per topic, letters are counted by group.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from attrs import frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType, TimestampType

from ...store.ids import SHARDS_OF_DELAY
from ..arrow import pa
from ..columns import arrow_schema
from ..history import open_live
from ..link import Link
from ..times import moment

SEEKS = StructType(
    [
        StructField("topic", StringType(), False),
        StructField("group", StringType(), False),
        StructField("group_id", IntegerType(), False),
        StructField("queue_id", IntegerType(), False),
        StructField("number", LongType(), False),  # in the delivery log, which has no entry of this number
        StructField("sought_at", TimestampType(), False),
        StructField("position_before", LongType(), False),
        StructField("position_after", LongType(), False),
        StructField("released", LongType(), False),
    ]
)
"""Groups that an operator moved, by queue."""

OUTBOX = StructType(
    [
        StructField("topic", StringType(), False),
        StructField("topic_id", IntegerType(), False),
        StructField("uncounted", LongType(), False),  # timers that a user's own transaction wrote
        StructField("scheduled", LongType(), False),  # of those it cancelled, how many had not been counted either
        StructField("cancelled", LongType(), False),
    ]
)
"""By topic, what users' own transactions did that the tallies do not know of yet; without a row: nothing."""


class Books(Protocol):
    """Reads them anew at each call."""

    def seeks(self) -> DataFrame: ...

    def outbox(self) -> DataFrame: ...

    def letters(self) -> DataFrame: ...


@frozen
class StoreBooks:
    """Those of the store behind a DSN."""

    spark: SparkSession
    dsn: str

    def seeks(self) -> DataFrame:
        """With the schema `SEEKS`."""
        rows = self._rows(
            "SELECT t.name, g.name, s.group_id, s.queue_id, s.number, s.sought_at, s.position_before, s.position_after,"
            " s.released FROM seek s JOIN consumer_group g ON g.id = s.group_id JOIN topic t ON t.id = g.topic_id"
        )
        return frame(
            self.spark,
            [
                (_text(topic), _text(group), *ids, moment(int(at)), before, after, out)
                for topic, group, *ids, at, before, after, out in rows
            ],
            SEEKS,
        )

    def outbox(self) -> DataFrame:
        """With the schema `OUTBOX`. Only MySQL has outboxes; its timers are gone through shard by shard."""
        if not self.dsn.startswith("mysql"):
            return frame(self.spark, [], OUTBOX)
        uncounted: dict[int, int] = {}
        for shard in range(SHARDS_OF_DELAY):
            sql = f"SELECT topic_id, SUM(uncounted) FROM delay WHERE shard = {shard} GROUP BY topic_id"  # noqa: S608
            for topic_id, count in self._rows(sql):
                uncounted[topic_id] = uncounted.get(topic_id, 0) + int(count)
        gone = self._rows("SELECT topic_id, SUM(scheduled), COUNT(*) FROM outbox_cancel GROUP BY topic_id")
        cancels = {topic_id: (int(scheduled), int(count)) for topic_id, scheduled, count in gone}
        names = {int(id_): _text(name) for id_, name in self._rows("SELECT id, name FROM topic")}
        rows = [
            (name, id_, uncounted.get(id_, 0), *cancels.get(id_, (0, 0)))
            for id_, name in names.items()
            if uncounted.get(id_) or id_ in cancels
        ]
        return frame(self.spark, rows, OUTBOX)

    def letters(self) -> DataFrame:
        """As `counted` has them."""
        return counted(open_live(self.spark, self.dsn, "dead", "group_id"))

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        with Link(self.dsn) as opened:
            return list(opened.rows(sql))


def counted(dead: DataFrame) -> DataFrame:
    """(group_id, letters): how many dead letters a group has; without a row: none."""
    return dead.groupBy("group_id").agg(f.count("*").alias("letters"))


def frame(spark: Any, rows: Sequence[Sequence[object]], schema: StructType) -> DataFrame:
    """Rows as a DataFrame that needs no job. (PySpark's types of this call are partly unknown.)"""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    fields = arrow_schema(schema)
    table = pa.table([pa.array(list(c), one.type) for c, one in zip(columns, fields, strict=True)], schema=fields)
    made: DataFrame = spark.createDataFrame(table, schema)
    return made


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else bytes(value).decode("utf-8", "replace")

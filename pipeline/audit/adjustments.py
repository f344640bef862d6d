"""What the audit reads beside the tables: seeks, uncounted changes of outboxes, and the store's own dead letters.

All are small: a seek is what an operator did by hand, an outbox has a row per topic, letters are counted by group.
"""

from collections import Counter
from typing import Protocol

from attrs import frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from ...store.ids import SHARDS_OF_DELAY
from ..columns import frame
from ..history import open_live
from ..schemas import INT, LONG, TEXT, TIME, schema_of
from ..store_connection import StoreConnection, text_of
from ..times import moment

SEEKS = schema_of(
    ("topic", TEXT),
    ("group", TEXT),
    ("group_id", INT),
    ("queue_id", INT),
    ("number", LONG),  # in the delivery log, which has no entry of this number
    ("sought_at", TIME),
    ("position_before", LONG),
    ("position_after", LONG),
    ("released", LONG),
)
"""Groups that an operator moved, by queue."""

OUTBOX = schema_of(
    ("topic", TEXT),
    ("topic_id", INT),
    ("uncounted", LONG),  # timers that a user's own transaction wrote
    ("scheduled", LONG),  # of those it cancelled, how many had not been counted either
    ("cancelled", LONG),
    ("replaced", LONG),
    ("suppressed", LONG),  # always 0: that is done at promotion
)
"""By topic, the changes of users' own transactions that are not in the tallies yet; without a row: none."""


class Adjustments(Protocol):
    """Reads the adjustments, anew at each call."""

    def seeks(self) -> DataFrame: ...

    def outbox(self) -> DataFrame: ...

    def letters(self) -> DataFrame: ...


@frozen
class StoreAdjustments:
    """The adjustments of the store behind a DSN."""

    spark: SparkSession
    dsn: str

    def seeks(self) -> DataFrame:
        """With the schema `SEEKS`."""
        with StoreConnection(self.dsn) as connection:
            rows = connection.fetch("seek.all")
        names = ("topic", "group")
        seeks = [row | {n: text_of(row[n]) for n in names} | {"sought_at": moment(row["sought_at"])} for row in rows]
        return frame(self.spark, seeks, SEEKS)

    def outbox(self) -> DataFrame:
        """With the schema `OUTBOX`. Only MySQL has outboxes; its timers are gone through shard by shard."""
        if not self.dsn.startswith("mysql"):
            return frame(self.spark, [], OUTBOX)
        uncounted: Counter[int] = Counter()
        with StoreConnection(self.dsn) as connection:
            for shard in range(SHARDS_OF_DELAY):
                uncounted.update(
                    {row["topic_id"]: int(row["uncounted"]) for row in connection.fetch("delay.uncounted", shard)}
                )
            sums = {row["topic_id"]: row for row in connection.fetch("outbox_cancel.sums")}
            topics = {row["id"]: text_of(row["name"]) for row in connection.fetch("topic.all")}
        rows = [
            {"scheduled": 0, "cancelled": 0, "replaced": 0, "suppressed": 0}
            | sums.get(id_, {})
            | {"topic": name, "topic_id": id_, "uncounted": uncounted[id_]}
            for id_, name in topics.items()
            if uncounted[id_] or id_ in sums
        ]
        return frame(self.spark, rows, OUTBOX)

    def letters(self) -> DataFrame:
        """With the columns of `counted`."""
        return counted(open_live(self.spark, self.dsn, "dead", "group_id"))


def counted(dead: DataFrame) -> DataFrame:
    """(group_id, letters): how many dead letters a group has; without a row: none."""
    return dead.groupBy("group_id").agg(f.count("*").alias("letters"))

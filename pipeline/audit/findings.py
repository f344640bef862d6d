"""The findings of an audit: one row per offence, in one shape for all kinds."""

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from ..schemas import INT, LONG, TEXT, TIME, schema_of

FINDINGS = schema_of(
    ("kind", TEXT),  # one of KINDS
    ("topic", TEXT, True),
    ("group", TEXT, True),  # null: of the topic
    ("hour", TIME, True),  # in which the message came into the stream; null: of counters
    ("id", LONG, True),  # of the message
    ("queue_id", INT, True),
    ("offset", LONG, True),
    ("detail", TEXT, True),
)

KINDS = {
    "topic_counters": "accepted is not streamed + cancelled + replaced + suppressed + expired + pending",
    "group_counters": "cursor moves are not acked + dead + retried + parked + claimed + expired + skipped + sought",
    "group_rows": "the log does not have what a counter has counted",
    "ladder_rows": "what went onto the ladder neither rests there nor came back",
    "letter_rows": "what died is not in the dead letters",
    "log_gap": "an entry of the delivery log is missing",
    "missing": "a message that the group has passed has no fate",
    "doubled": "a message has more than one fate, with no seek, replay or redrive to account for it",
    "claimed_twice": "a place in a queue was handed out twice, with no seek between",
    "no_letter": "a message died and is not in the dead letters",
    "early": "in the stream, or handed out, before its time",
    "past_its_time": "handed out after it had expired",
    "hole": "an offset without a message",
    "streamed_twice": "one id at two places of the stream",
    "waiting_and_streamed": "promoted, and waiting still",
    "cancelled_and_streamed": "cancelled, and in the stream",
    "cancelled_and_waiting": "cancelled, and waiting still",
    "copy_differs": "the lake's copy is not the store's",
    "not_in_lake": "archived, and not in the lake",
    "not_in_store": "in the lake, and gone from the store before retention came to it",
}
"""The kinds of findings, and their meaning."""

KEY = ("kind", "topic", "group", "id", "queue_id", "offset")
"""What makes two findings the same."""


def finding(rows: DataFrame, kind: str | Column, detail: Column) -> DataFrame:
    """Rows as findings of a kind, or each of a kind of its own; columns that the rows do not have are null.

    The hour is that of their `streamed_at`.
    """
    there = {name: f.col(name) for name in rows.columns if name in FINDINGS.names} | {
        "kind": f.lit(kind),  # a column stays one
        "detail": detail,
    }
    if "streamed_at" in rows.columns:
        there["hour"] = f.date_trunc("hour", "streamed_at")
    return rows.select(
        *(there.get(field.name, f.lit(None)).cast(field.dataType).alias(field.name) for field in FINDINGS.fields)
    )


def together(*some: DataFrame) -> DataFrame:
    """All findings in one."""
    return reduce(DataFrame.unionByName, some)


def again(first: DataFrame, second: DataFrame) -> DataFrame:
    """The findings that were found both times, as they were the second time."""
    known = first.select(*(f.col(name).alias(f"_{name}") for name in KEY)).distinct()
    same = reduce(Column.__and__, (f.col(name).eqNullSafe(f.col(f"_{name}")) for name in KEY))
    return second.join(known, same, "left_semi")


def listed(findings: DataFrame, limit: int) -> DataFrame:
    """The first findings of each kind, `limit` at most, with how many there are in `total`."""
    kind = Window.partitionBy("kind")
    order = kind.orderBy("topic", "group", "queue_id", "offset", "id")
    rows = findings.withColumn("total", f.count("*").over(kind)).withColumn("place", f.row_number().over(order))
    return rows.where(f.col("place") <= limit).orderBy("kind", "place").drop("place")

"""The figure of schedules: what became of their fire times, and how late their messages went.

A function from `Tables` to a DataFrame, as those of `figures`. Durations are milliseconds.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ..schemas import LONG, TEXT, TIME, Tables
from .columns import percentiles, schema, shaped
from .figures import MOST
from .window import MINUTE, Window

SCHEDULES = schema(
    ("schedule", TEXT),
    ("topic", TEXT),
    ("fired", LONG),  # in time
    ("caught_up", LONG),  # fired more than a minute late: servers were down, or the message before was unsettled
    ("missed", LONG),  # left out, since its turn came too late
    ("overlapped", LONG),  # left out, since the message before was unsettled
    ("queued", LONG),  # kept back until the one before is settled, still
    ("cancelled", LONG),
    ("run", LONG),  # asked for
    ("backfilled", LONG),
    ("late_p50", LONG),  # of fired and caught up: from when its message was due to the stream
    ("late_p99", LONG),
    ("longest", LONG),
    ("last", TIME),  # the last of these fire times
)


def schedules(tables: Tables, window: Window) -> DataFrame:
    """`SCHEDULES`: the fire times of the window, those with the most that were late or left out first."""
    every = tables.fires.where(window.has(F.col("fire_at")))
    fires = every.groupBy("schedule_id", "fire_at").agg(  # of each fire time the last outcome
        *(F.max_by(name, "at").alias(name) for name in ("schedule", "topic", "outcome", "message_id")),
        F.max("at").alias("at"),
    )
    due = tables.messages.select(F.col("id").alias("message_id"), "deliver_at")
    known = fires.join(due, "message_id", "left")
    fired = F.col("outcome") == "fired"
    # If its message is not known any more: from the fire time, jitter included.
    late = F.when(fired, F.greatest(F.lit(0), F.unix_millis("at") - F.unix_millis(F.coalesce("deliver_at", "fire_at"))))
    counts = ("missed", "overlapped", "cancelled", "run", "backfilled")
    rows = (
        known.withColumn("late", late)
        .groupBy("schedule_id")
        .agg(
            *(F.max_by(name, "at").alias(name) for name in ("schedule", "topic")),
            F.count_if(fired & (F.col("late") <= MINUTE)).alias("fired"),
            F.count_if(fired & (F.col("late") > MINUTE)).alias("caught_up"),
            F.count_if(F.col("outcome") == "kept").alias("queued"),
            *(F.count_if(F.col("outcome") == name).alias(name) for name in counts),
            percentiles(F.col("late"), 0.5, 0.99).alias("p"),
            F.max("late").alias("longest"),
            F.max("fire_at").alias("last"),
        )
        .select("*", F.col("p")[0].alias("late_p50"), F.col("p")[1].alias("late_p99"))
        .orderBy(F.expr("missed + overlapped + caught_up").desc(), F.desc("fired"), "schedule")
        .limit(MOST)
    )
    return shaped(rows, SCHEDULES)

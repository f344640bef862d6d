"""The figures of flow: how much came and was done with in each step of the window, and how evenly queues are filled.

Functions as those of `figures`.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ..tables import Tables
from .columns import ACKED, DOUBLE, FAILED, INT, LONG, LOST, TEXT, TIME, count_if, has_outcome, schema, shaped
from .figures import MOST
from .window import Window

RATE = schema(
    ("at", TIME),  # the beginning of the step
    ("seconds", DOUBLE),  # how long the step is
    ("streamed", LONG),  # messages that came into the stream
    ("acked", LONG),  # deliveries, in all groups
    ("failed", LONG),  # the same: failed, died, or their lease ran out
)


def rate(tables: Tables, window: Window) -> DataFrame:
    """`RATE`: each step of the window, also those in which nothing happened."""
    came = tables.messages.select(F.col("streamed_at").alias("time"), F.lit("streamed").alias("what"))
    ended = tables.deliveries.unionByName(tables.claims).select(
        F.coalesce("settled_at", "ended_at").alias("time"),
        F.when(has_outcome(ACKED), F.lit("acked")).when(has_outcome((*FAILED, *LOST, "dead")), F.lit("failed")),
    )
    rows = came.union(ended).where(window.has(F.col("time")) & F.col("what").isNotNull())
    kinds = ("streamed", "acked", "failed")
    begin, last = F.timestamp_millis(F.lit(window.since)), F.timestamp_millis(F.lit(window.until - 1))
    step = F.make_dt_interval(secs=F.lit(window.step / 1000))
    counted = rows.groupBy(window.begin_of(F.col("time"), window.step).alias("at")).agg(
        *(count_if(F.col("what") == kind).alias(kind) for kind in kinds)
    )
    moments = counted.sparkSession.range(1).select(F.explode(F.sequence(begin, last, step)).alias("at"))
    long = F.least(F.lit(window.step), F.lit(window.until) - F.unix_millis("at")) / 1000
    grid = moments.join(F.broadcast(counted), "at", "left").fillna(0, list(kinds)).withColumn("seconds", long)
    return shaped(grid.orderBy("at"), RATE)


QUEUES = schema(
    ("topic", TEXT),
    ("queues", LONG),
    ("messages", LONG),  # that came into the stream
    ("fullest", INT),  # the number of the queue that most of them went to
    ("fullest_messages", LONG),
    ("emptiest_messages", LONG),
    ("skew", DOUBLE),  # fullest_messages / the mean of the topic's queues: 1 is even
)


def queues(tables: Tables, window: Window) -> DataFrame:
    """`QUEUES` of topics with more than one queue, the most uneven first. A queue that nothing came to counts where the
    store or an earlier message tells of it."""
    of_window = count_if(window.has(F.col("streamed_at"))).alias("messages")
    counts = tables.messages.groupBy("topic", "queue").agg(of_window)
    known = tables.queues.where("group_id = 0").select("topic", "queue", F.lit(0).cast("long").alias("messages"))
    each = counts.unionByName(known).groupBy("topic", "queue").agg(F.sum("messages").alias("messages"))
    rows = (
        each.groupBy("topic")
        .agg(
            F.count("*").alias("queues"),
            F.max_by("queue", F.struct(F.col("messages"), -F.col("queue"))).alias("fullest"),
            F.max("messages").alias("fullest_messages"),
            F.min("messages").alias("emptiest_messages"),
            F.sum("messages").alias("messages"),
        )
        .where("queues > 1 AND messages > 0")
        .withColumn("skew", F.col("fullest_messages") * F.col("queues") / F.col("messages"))
        .orderBy(F.desc("skew"), F.desc("messages"), "topic")
        .limit(MOST)
    )
    return shaped(rows, QUEUES)

"""The figures that follow each message through each group: backlog, lateness, groups that are slow.

Each is a function from duties (see `duties`) to a DataFrame with an explicit schema. Durations are milliseconds.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F  # noqa: N812

from ..schemas import LONG, TEXT, TIME
from .columns import percentiles, schema, shaped, span
from .figures import MOST
from .window import MINUTE, Window

MOST_LINES = 12
"""Groups in the backlog over time."""

MOST_TOPICS = 20
"""Rows of the heat map."""

BACKLOG = schema(
    ("topic", TEXT),
    ("group", TEXT),
    ("at", TIME),
    ("arrived", LONG),  # in the step that ends at `at`
    ("settled", LONG),
    ("backlog", LONG),  # at `at`: what came into the stream before it, and is not settled
)


def backlog(duties: DataFrame, window: Window) -> DataFrame:
    """`BACKLOG`: the groups with the highest peaks, from the window's beginning to its end, in equal steps."""
    came = F.struct(F.col("streamed_at").alias("time"), F.lit(1).alias("arrived"), F.lit(0).alias("settled"))
    went = F.struct(F.col("settled_at").alias("time"), F.lit(0).alias("arrived"), F.lit(1).alias("settled"))
    begin, end = F.timestamp_millis(F.lit(window.since)), F.timestamp_millis(F.lit(window.until))
    step = F.make_dt_interval(secs=F.lit(window.step / 1000))
    ends = F.least(window.begin_of(F.col("e.time"), window.step) + step, end)
    group = ["topic", "group"]
    summed = (
        duties.select(*group, F.explode(F.array(came, went)).alias("e"))
        .where(F.col("e.time") < end)
        .groupBy(*group, F.when(F.col("e.time") < begin, begin).otherwise(ends).alias("at"))
        .agg(F.sum("e.arrived").alias("arrived"), F.sum("e.settled").alias("settled"))
    )
    so_far = Over.partitionBy(*group).orderBy("at")
    running = summed.withColumn("backlog", F.sum(F.col("arrived") - F.col("settled")).over(so_far))
    peaks = (
        running.groupBy(*group)
        .agg(F.max("backlog").alias("peak"), F.sum("arrived").alias("all"))
        .orderBy(F.desc("peak"), F.desc("all"), *group)
        .limit(MOST_LINES)
    )
    moments = F.array_union(F.sequence(begin, end, step), F.array(end))
    grid = peaks.select(*group, "peak", "all", F.explode(moments).alias("at"))
    opening = F.col("at") == begin
    rows = (
        grid.join(running, [*group, "at"], "left")
        .withColumn("backlog", F.coalesce(F.last("backlog", ignorenulls=True).over(so_far), F.lit(0)))
        .withColumn("arrived", F.when(~opening, F.coalesce("arrived", F.lit(0))))
        .withColumn("settled", F.when(~opening, F.coalesce("settled", F.lit(0))))
        .orderBy(F.desc("peak"), F.desc("all"), *group, "at")
    )
    return shaped(rows, BACKLOG)


LATENESS = schema(
    ("topic", TEXT),
    ("hour", TIME),  # the beginning of the step in which they were due: an hour; less in a short window, or more
    ("handed_out", LONG),
    ("waiting", LONG),  # at the end of the window nobody had had them
    ("p50", LONG),  # from due to the first hand-out; what waits counts with what it has waited so far
    ("p99", LONG),
    ("p999", LONG),
    ("streamed_p99", LONG),  # from due to the stream: what Tarry itself needed; the rest is waiting for a consumer
    ("latest_id", LONG),  # of the latest of them
)


def lateness(duties: DataFrame, window: Window) -> DataFrame:
    """`LATENESS` of the topics with the most messages, the biggest first, by hour."""
    late = _lateness(window)
    due = duties.where(window.has(F.col("due"))).withColumn("late", late).where("late IS NOT NULL")
    biggest = due.groupBy("topic").agg(F.count("*").alias("n")).orderBy(F.desc("n"), "topic").limit(MOST_TOPICS)
    rows = (
        due.join(F.broadcast(biggest), "topic")
        .groupBy("topic", "n", window.begin_of(F.col("due"), window.cell).alias("hour"))
        .agg(
            F.count_if(F.col("handed_at").isNotNull()).alias("handed_out"),
            F.count_if(F.col("handed_at").isNull()).alias("waiting"),
            percentiles(F.col("late"), 0.5, 0.99, 0.999).alias("p"),
            percentiles(span("streamed_at", "due"), 0.99)[0].alias("streamed_p99"),
            F.max_by("id", "late").alias("latest_id"),
        )
        .select("*", *(F.col("p")[i].alias(name) for i, name in enumerate(("p50", "p99", "p999"))))
        .orderBy(F.desc("n"), "topic", "hour")
    )
    return shaped(rows, LATENESS)


PUNCTUALITY = schema(
    ("handed_out", LONG),
    ("waiting", LONG),  # due in the window, and at its end nobody had had them
    ("p50", LONG),  # from due to the first hand-out; what waits counts with what it has waited so far
    ("p99", LONG),
    ("p999", LONG),
    ("streamed_p99", LONG),
    ("early", LONG),  # handed out before they were due: there must be none
    ("unsettled", LONG),  # at the end of the window, in all groups
    ("behind", LONG),  # groups whose oldest message no consumer had had for more than a minute
)


def punctuality(duties: DataFrame, window: Window) -> DataFrame:
    """`PUNCTUALITY`: all topics and groups, one row."""
    due = window.has(F.col("due"))
    handed, waiting = due & F.col("handed_at").isNotNull(), due & _waits(window) & F.col("handed_at").isNull()
    behind = _waits(window) & (F.unix_millis("due") < window.until - MINUTE)
    rows = duties.agg(
        F.count_if(handed).alias("handed_out"),
        F.count_if(waiting).alias("waiting"),
        percentiles(F.when(due, _lateness(window)), 0.5, 0.99, 0.999).alias("p"),
        percentiles(F.when(handed | waiting, span("streamed_at", "due")), 0.99)[0].alias("streamed_p99"),
        F.count_if(handed & (F.col("handed_at") < F.col("due"))).alias("early"),
        F.count_if(_unsettled(window)).alias("unsettled"),
        F.count_distinct(F.when(behind, F.struct("topic", "group"))).alias("behind"),
    ).select("*", *(F.col("p")[i].alias(name) for i, name in enumerate(("p50", "p99", "p999"))))
    return shaped(rows, PUNCTUALITY)


SLOW_GROUPS = schema(
    ("topic", TEXT),
    ("group", TEXT),
    ("arrived", LONG),
    ("settled", LONG),
    ("unsettled", LONG),  # at the end of the window
    ("waiting", LONG),  # of them, those that no consumer had had
    ("oldest", LONG),  # how long the oldest of these had waited since it was due
    ("oldest_id", LONG),
    ("late_p50", LONG),  # of what was handed out in the window, and of what waits at its end
    ("late_p99", LONG),
)


def slow_groups(duties: DataFrame, window: Window) -> DataFrame:
    """`SLOW_GROUPS`: the one whose oldest message waits longest first, then by lateness."""
    waits = _waits(window)
    late = F.when(window.has(F.col("handed_at")), span("handed_at", "due")).when(waits, _so_far(window))
    rows = (
        duties.groupBy("topic", "group")
        .agg(
            F.count_if(window.has(F.col("streamed_at"))).alias("arrived"),
            F.count_if(window.has(F.col("settled_at"))).alias("settled"),
            F.count_if(_unsettled(window)).alias("unsettled"),
            F.count_if(waits).alias("waiting"),
            (F.lit(window.until) - F.unix_millis(F.min(F.when(waits, F.col("due"))))).alias("oldest"),
            F.min_by("id", F.when(waits, F.col("due"))).alias("oldest_id"),
            percentiles(late, 0.5, 0.99).alias("p"),
        )
        .select("*", F.col("p")[0].alias("late_p50"), F.col("p")[1].alias("late_p99"))
        .where("arrived + settled + unsettled > 0")
        .orderBy(F.desc_nulls_last("oldest"), F.desc_nulls_last("late_p99"), "topic", "group")
        .limit(MOST)
    )
    return shaped(rows, SLOW_GROUPS)


def _unsettled(window: Window) -> Column:
    """Whether the message is in the stream at the end of the window, and its group has not settled it."""
    return _by("streamed_at", window) & ~_by("settled_at", window)


def _waits(window: Window) -> Column:
    """Whether, besides, no consumer has had it by then."""
    return _unsettled(window) & ~_by("handed_at", window)


def _lateness(window: Window) -> Column:
    """How late a message was handed out, or how late it is at the end of the window if it waits then: the longer all
    stands still, the later. Null for others."""
    handed = F.when(F.col("handed_at").isNotNull(), span("handed_at", "due"))
    return handed.when(_waits(window), _so_far(window))


def _so_far(window: Window) -> Column:
    return F.lit(window.until) - F.unix_millis("due")


def _by(time: str, window: Window) -> Column:
    """Whether this time had come by the end of the window."""
    return F.col(time).isNotNull() & (F.col(time) < F.timestamp_millis(F.lit(window.until)))

"""The figures of the history itself: how much came, who did what with it, what went wrong, and how evenly it came.

Each is a function from `Tables` to a DataFrame with an explicit schema, aggregated and limited to what can be shown.
Counts are of the window; durations are milliseconds. `duty_figures` has those that follow each message.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F  # noqa: N812

from ..schemas import INT, LONG, SUPPRESSED, TEXT, TIME, Tables
from .columns import (
    ACKED,
    DEAD,
    DOUBLE,
    FAILED,
    LOST,
    due_of_message,
    handed_out,
    has_outcome,
    percentiles,
    schema,
    shaped,
    span,
)
from .window import MINUTE, Window

MOST = 50
"""Rows of a ranking."""
_FIRST = 15
"""Most reasons, or clients, in a ranking of these."""
_EACH = 3
"""Groups of each of them that get a row before others get more: 15 times 3 is less than `MOST`."""

_REASON_LENGTH = 160
_HISTORY = "array<struct<at bigint, client string, reason string>>"

OVERVIEW = schema(
    ("messages", LONG),  # that came into the stream
    ("cancelled", LONG),
    ("suppressed", LONG),  # by their guards
    ("replaced", LONG),  # ever, by timers and schedules: there are no rows of them; null: only a store knows
    ("waiting", LONG),  # for their time, now
    ("overdue", LONG),  # messages and retries whose time is over, and that are not in the stream; of a window to now
    ("oldest_overdue", LONG),  # how long the first of them is due
    ("deliveries", LONG),  # hand-outs that ended or are open
    ("acked", LONG),
    ("failed", LONG),
    ("lost", LONG),  # their lease ran out
    ("dead", LONG),  # letters
    ("expired", LONG),  # and were a group's to handle; those taken by retention among them
    ("unplaced", LONG),  # deliveries of which it is not known what message they were of
    ("first", TIME),  # messages that are known of, in the window or before it
    ("last", TIME),
)


def overview(tables: Tables, window: Window) -> DataFrame:
    """`OVERVIEW`: one row."""
    messages = tables.messages.agg(
        F.count_if(window.has(F.col("streamed_at"))).alias("messages"),
        F.min("streamed_at").alias("first"),
        F.max("streamed_at").alias("last"),
    )
    handled = tables.handled.where(window.has(F.col("claimed_at")))
    deliveries = handled.agg(
        F.count_if(handed_out()).alias("deliveries"),
        F.count_if(has_outcome(ACKED)).alias("acked"),
        F.count_if(has_outcome(FAILED)).alias("failed"),
        F.count_if(has_outcome(LOST)).alias("lost"),
        F.count_if(F.col("message_queue_id").isNull()).alias("unplaced"),
    )
    ended = window.has(F.coalesce("settled_at", "ended_at", "claimed_at"))
    expired = tables.handled.agg(F.count_if((F.col("outcome") == "expired") & ended).alias("expired"))
    cancelled = tables.cancelled.agg(*_left(window))
    replaced = tables.tallies.agg(F.sum("replaced").alias("replaced"))
    dead = tables.dead.agg(F.count_if(window.has(F.col("dead_at"))).alias("dead"))
    timers = tables.timers.select("due", F.lit(1).alias("timer"))
    both = timers.unionByName(tables.retries.where("NOT parked").select("due", F.lit(0).alias("timer")))
    over = F.lit(window.is_now) & (F.unix_millis("due") < window.until)
    waiting = both.agg(
        F.count_if(F.col("timer") == 1).alias("waiting"),
        F.count_if(over).alias("overdue"),
        (F.lit(window.until) - F.unix_millis(F.min(F.when(over, F.col("due"))))).alias("oldest_overdue"),
    )
    rows = messages.crossJoin(deliveries).crossJoin(cancelled).crossJoin(dead).crossJoin(waiting)
    rows = rows.crossJoin(expired).crossJoin(replaced)
    return shaped(rows, OVERVIEW)


def _left(window: Window) -> list[Column]:
    """Of cancelled messages: how many somebody cancelled, and how many their guards suppressed."""
    suppressed, left = F.col("reason").eqNullSafe(SUPPRESSED), window.has(F.col("cancelled_at"))
    return [F.count_if(left & ~suppressed).alias("cancelled"), F.count_if(left & suppressed).alias("suppressed")]


TOPICS = schema(
    ("topic", TEXT),
    ("messages", LONG),
    ("scheduled", LONG),  # of them, those that were to come later than they were accepted
    ("cancelled", LONG),
    ("suppressed", LONG),
    ("waiting", LONG),  # for their time, now
    ("before", LONG),  # messages in as long a time before the window; null: nothing is known of then
    ("growth", DOUBLE),  # (messages - before) / before
)


def topics(tables: Tables, window: Window) -> DataFrame:
    """`TOPICS`, those with the most messages first."""
    streamed = tables.messages.groupBy("topic").agg(
        F.count_if(window.has(F.col("streamed_at"))).alias("messages"),
        F.count_if(window.has(F.col("streamed_at")) & (F.col("deliver_at") > F.col("accepted_at"))).alias("scheduled"),
        F.count_if(window.before(F.col("streamed_at"))).alias("earlier"),
    )
    cancelled = tables.cancelled.groupBy("topic").agg(*_left(window))
    waiting = tables.timers.groupBy("topic").agg(F.count("*").alias("waiting"))
    reaches = tables.messages.agg(F.unix_millis(F.min("streamed_at")).alias("reaches"))
    joined = streamed.join(cancelled, "topic", "full").join(waiting, "topic", "full").fillna(0)
    before = F.when(F.col("reaches") <= window.since - window.length, F.col("earlier"))
    growth = (F.col("messages") - F.col("before")) / F.nullif(F.col("before"), F.lit(0))
    rows = (
        joined.crossJoin(F.broadcast(reaches))
        .withColumn("before", before)
        .withColumn("growth", growth)
        .where("messages + cancelled + suppressed + waiting > 0")
        .orderBy(F.desc("messages"), F.desc("waiting"), "topic")
        .limit(MOST)
    )
    return shaped(rows, TOPICS)


HANDLING = schema(("topic", TEXT), ("group", TEXT), ("handled", LONG), ("p50", LONG), ("p99", LONG), ("longest", LONG))


def handling(tables: Tables, window: Window) -> DataFrame:
    """`HANDLING`: from the hand-out to the ack or the fail, the slowest p99 first. Lost leases are not in it."""
    handled = tables.handled.where(has_outcome((*ACKED, *FAILED, "dead")) & window.has(F.col("settled_at")))
    took = span("settled_at", "claimed_at")
    rows = (
        handled.groupBy("topic", "group")
        .agg(F.count("*").alias("handled"), percentiles(took, 0.5, 0.99).alias("p"), F.max(took).alias("longest"))
        .select("*", F.col("p")[0].alias("p50"), F.col("p")[1].alias("p99"))
        .orderBy(F.desc("p99"), "topic", "group")
        .limit(MOST)
    )
    return shaped(rows, HANDLING)


LADDER = schema(
    ("attempt", INT),
    ("deliveries", LONG),
    ("acked", LONG),
    ("failed", LONG),  # and went to the next rung
    ("lost", LONG),  # the same, since the lease ran out
    ("dead", LONG),
    ("other", LONG),  # open, given back, released by a seek, or parked
)


def ladder(tables: Tables, window: Window) -> DataFrame:
    """`LADDER`: what became of first, second, ... attempts, handed out in the window."""
    handed = tables.handled.where(handed_out() & window.has(F.col("claimed_at")) & F.col("attempt").isNotNull())
    rows = (
        handed.groupBy("attempt")
        .agg(
            F.count("*").alias("deliveries"),
            F.count_if(has_outcome(ACKED)).alias("acked"),
            F.count_if(has_outcome(FAILED)).alias("failed"),
            F.count_if(has_outcome(["lost"])).alias("lost"),
            F.count_if(has_outcome(DEAD)).alias("dead"),
        )
        .withColumn("other", F.expr("deliveries - acked - failed - lost - dead"))
        .orderBy("attempt")
        .limit(MOST)
    )
    return shaped(rows, LADDER)


DEAD_LETTERS = schema(
    ("topic", TEXT),
    ("group", TEXT),
    ("reason", TEXT),  # of the last attempt; null: none was given
    ("dead", LONG),
    ("first", TIME),
    ("last", TIME),
    ("last_id", LONG),  # of the last message that died of it
    ("reason_dead", LONG),  # of this reason, in all groups
)


def dead_letters(tables: Tables, window: Window) -> DataFrame:
    """`DEAD_LETTERS` of the most frequent reasons, by group."""
    last = F.try_element_at(F.from_json("history", _HISTORY), F.lit(-1))
    reason = F.nullif(F.substring(F.trim(last["reason"]), 1, _REASON_LENGTH), F.lit(""))
    rows = (
        tables.dead.where(window.has(F.col("dead_at")))
        .groupBy("topic", "group", reason.alias("reason"))
        .agg(
            F.count("*").alias("dead"),
            F.min("dead_at").alias("first"),
            F.max("dead_at").alias("last"),
            F.max_by("id", "dead_at").alias("last_id"),
        )
    )
    return shaped(_foremost(rows, "reason", "dead"), DEAD_LETTERS)


def _foremost(rows: DataFrame, name: str, count: str) -> DataFrame:
    """Rows by (`topic`, `group`, `name`) of the names that have most in all groups, the biggest rows first.

    With `NAME_COUNT`, the sum over all groups: a sum over the rows that a ranking shows would leave out the small ones.
    """
    summed = f"{name}_{count}"
    order = (F.desc(count), "topic", "group", F.asc_nulls_last(name))
    first = (
        rows.groupBy(F.col(name).alias("_name"))
        .agg(F.sum(count).alias(summed))
        .orderBy(F.desc(summed), F.asc_nulls_last("_name"))
        .limit(_FIRST)
    )
    place = F.row_number().over(Over.partitionBy(name).orderBy(*order))
    return (
        rows.join(F.broadcast(first), F.col(name).eqNullSafe(F.col("_name")))
        .withColumn("_place", place)
        .orderBy(F.col("_place") > _EACH, *order)
        .limit(MOST)
        .orderBy(*order)
    )


LOST_LEASES = schema(
    ("client", TEXT),
    ("topic", TEXT),
    ("group", TEXT),
    ("lost", LONG),  # messages that it held when a lease ran out, or when it was found dead
    ("dead", LONG),  # of them, those that went to the dead letters
    ("deliveries", LONG),
    ("share", DOUBLE),  # lost / deliveries
    ("held_p50", LONG),  # how long it had had them
    ("last", TIME),
    ("client_lost", LONG),  # by this client, in all groups
)


def lost_leases(tables: Tables, window: Window) -> DataFrame:
    """`LOST_LEASES` of the clients that ran out of time or went away most, by group."""
    ended = F.coalesce("settled_at", "ended_at")
    handed = tables.handled.where(handed_out() & window.has(ended))
    gone = has_outcome(LOST)
    rows = (
        handed.groupBy("client", "topic", "group")
        .agg(
            F.count_if(gone).alias("lost"),
            F.count_if(has_outcome(["lost_dead"])).alias("dead"),
            F.count("*").alias("deliveries"),
            percentiles(F.when(gone, span("settled_at", "claimed_at")), 0.5)[0].alias("held_p50"),
            F.max(F.when(gone, F.col("settled_at"))).alias("last"),
        )
        .where("lost > 0")
        .withColumn("share", F.col("lost") / F.col("deliveries"))
    )
    return shaped(_foremost(rows, "client", "lost"), LOST_LEASES)


DUE_MINUTES = schema(
    ("minute", TIME),
    ("messages", LONG),
    ("waiting", LONG),  # of them, those that are still to come
    ("topic", TEXT),  # the one with the most
    ("topic_messages", LONG),
)


def due_minutes(tables: Tables, window: Window) -> DataFrame:
    """`DUE_MINUTES`, the busiest first. With a window that ends now, the future is in it too."""
    ahead = window.has(F.col("due"))
    if window.is_now:
        ahead |= F.unix_millis("due") >= window.until
    streamed = tables.messages.select("topic", due_of_message(), F.lit(0).alias("waiting"))
    streamed = streamed.where(window.has(F.col("due")))
    waiting = tables.timers.where(ahead).select("topic", "due", F.lit(1).alias("waiting"))
    due = F.unix_millis("due")
    by_topic = (
        streamed.unionByName(waiting)
        .groupBy(F.timestamp_millis(due - F.pmod(due, F.lit(MINUTE))).alias("minute"), "topic")
        .agg(F.count("*").alias("n"), F.sum("waiting").alias("waiting"))
    )
    biggest = F.max_by(F.struct("topic", "n"), F.struct("n", "topic"))
    rows = (
        by_topic.groupBy("minute")
        .agg(F.sum("n").alias("messages"), F.sum("waiting").alias("waiting"), biggest.alias("most"))
        .select("*", F.col("most.topic").alias("topic"), F.col("most.n").alias("topic_messages"))
        .orderBy(F.desc("messages"), "minute")
        .limit(MOST)
    )
    return shaped(rows, DUE_MINUTES)


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
    ended = tables.handled.select(
        F.coalesce("settled_at", "ended_at").alias("time"),
        F.when(has_outcome(ACKED), F.lit("acked")).when(has_outcome((*FAILED, *LOST, "dead")), F.lit("failed")),
    )
    rows = came.union(ended).where(window.has(F.col("time")) & F.col("what").isNotNull())
    kinds = ("streamed", "acked", "failed")
    begin, last = F.timestamp_millis(F.lit(window.since)), F.timestamp_millis(F.lit(window.until - 1))
    step = F.make_dt_interval(secs=F.lit(window.step / 1000))
    counted = rows.groupBy(window.begin_of(F.col("time"), window.step).alias("at")).agg(
        *(F.count_if(F.col("what") == kind).alias(kind) for kind in kinds)
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
    """`QUEUES` of topics with more than one queue, the most uneven first. A queue to which no message came counts if
    the store or an earlier message shows it."""
    of_window = F.count_if(window.has(F.col("streamed_at"))).alias("messages")
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

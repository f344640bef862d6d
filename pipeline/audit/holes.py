"""Offsets without holes: every offset of a queue below its end has a message, unless retention took it.

They are counted a thousand offsets at a time: only stretches that have too few are gone through one by one.
"""

from attrs import evolve
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from .evidence import Evidence, Scope, small
from .findings import finding

_STRETCH = 1000
_HELD_SINCE = "INTERVAL 10 MINUTES"
"""How long a message that was held may outlive its neighbours: the cleaner goes round once a minute."""


def check(evidence: Evidence, scope: Scope) -> DataFrame:
    """The offsets that are missing.

    Messages that retention took were below the floor of their queue, or between messages that were still held at that
    time. The tombstones of a queue count as messages, in sight or not.
    """
    own = evidence.queues.where("group_id = 0").select("topic", "queue_id", "next_offset", "holes")
    there = evidence.messages.select("queue_id", "offset", "id", "streamed_at")
    bounds = small(bounds_of(evidence, scope).join(own.select("queue_id", "holes"), "queue_id"))
    spans = bounds.withColumn("stretch", f.explode(_stretches(f.col("low"), f.col("high")))).select(
        "topic",
        "queue_id",
        "holes",
        f.greatest("low", f.col("stretch") * _STRETCH).alias("begin"),
        f.least("high", (f.col("stretch") + 1) * _STRETCH).alias("end"),
        "stretch",
    )
    counts = (
        there.select("queue_id", "offset")
        .distinct()
        .join(f.broadcast(bounds.select("queue_id", "low", "high")), "queue_id")
        .where("offset >= low AND offset < high")
        .groupBy("queue_id", f.floor(f.col("offset") / _STRETCH).alias("stretch"))
        .agg(f.count("*").alias("there"))
    )
    thin = spans.join(counts, ["queue_id", "stretch"], "left").where("coalesce(there, 0) < end - begin")
    thin = evidence.keep(thin)
    # Few stretches are thin, and only their messages go through a shuffle.
    near = there.withColumn("stretch", f.floor(f.col("offset") / _STRETCH)).join(
        f.broadcast(thin.select("queue_id", "stretch")), ["queue_id", "stretch"], "left_semi"
    )
    wanted = thin.select(
        "topic", "queue_id", "holes", "stretch", f.explode(f.expr("sequence(begin, end - 1)")).alias("offset")
    )
    absent = wanted.join(near.select("queue_id", "offset"), ["queue_id", "offset"], "left_anti")
    tombs = there.where("id < 0").groupBy("queue_id").agg(f.count("*").alias("tombs"))
    surplus = absent.groupBy("queue_id").agg(f.count("*").alias("absent"))
    offences = (
        absent.join(surplus, "queue_id").join(tombs, "queue_id", "left").where("absent > holes - coalesce(tombs, 0)")
    )
    times = near.groupBy("queue_id", "stretch").agg(f.min("streamed_at").alias("streamed_at"))
    offences = offences.join(times, ["queue_id", "stretch"], "left")
    detail = f.format_string("%d offsets of the queue are without a message", "absent")
    return finding(offences, "hole", detail)


def lost(evidence: Evidence, scope: Scope, store: DataFrame, lake: DataFrame) -> DataFrame:
    """Messages that the lake has and the store has no more, though retention has not come that far.

    `store` and `lake` have the schema of messages. Together they have no hole there: the lake stands in for the store.
    """
    columns = ("topic", "topic_id", "queue_id", "offset", "id", "streamed_at", "expires_at")
    absent = check(evolve(evidence, messages=evidence.keep(store.select(*columns))), evolve(scope, archived=False))
    there = lake.select("queue_id", "offset", "id", "streamed_at")
    offences = absent.select("topic", "queue_id", "offset").join(there, ["queue_id", "offset"])
    return finding(offences, "not_in_store", f.lit("in the lake only"))


def bounds_of(evidence: Evidence, scope: Scope) -> DataFrame:
    """By queue of a topic: from `low` on and below `high` every offset should have its message (topic, queue_id)."""
    own = evidence.queues.where("group_id = 0").select("topic", "queue_id", "next_offset", "floor")
    there = evidence.messages.join(f.broadcast(own.drop("topic")), "queue_id")
    if not scope.archived:
        there = there.where("offset >= floor")
    since = f.lit(True) if scope.since is None else f.col("streamed_at") >= f.lit(scope.since)
    # The first message that nobody holds: retention has not come this far, or it would be gone.
    free = there.where(since).join(held(evidence, scope), ["queue_id", "offset"], "left_anti")
    first = free.groupBy("queue_id").agg(f.min("offset").alias("free"))
    last = evidence.messages.where(f.col("streamed_at") >= f.lit(scope.until))
    ends = last.groupBy("queue_id").agg(f.min("offset").alias("later"))
    spans = own.join(f.broadcast(first), "queue_id", "left").join(f.broadcast(ends), "queue_id", "left")
    nothing_gone = f.when(f.col("floor") == 0, f.lit(0)) if scope.since is None else f.lit(None)
    return spans.select(
        "topic",
        "queue_id",
        f.coalesce(nothing_gone, "free", "next_offset").cast("long").alias("low"),
        f.least("next_offset", "later").cast("long").alias("high"),
    ).where("low < high")


def held(evidence: Evidence, scope: Scope) -> DataFrame:
    """(queue_id, offset) of messages that a group holds or held a moment ago: they outlive their neighbours."""
    place = [f.col("message_queue_id").alias("queue_id"), f.col("message_offset").alias("offset")]
    lately = f.col("settled_at") >= f.lit(scope.until) - f.expr(_HELD_SINCE)
    busy = evidence.handed.where(~f.col("ended") | lately).select(*place)
    waiting = evidence.returns.join(
        f.broadcast(evidence.cursors.select("group_id", "queue_id", "position")), ["group_id", "queue_id"]
    ).where("offset >= position")
    # One that expires later outlives the hard limit, for a group that has yet to claim it.
    behind = evidence.cursors.groupBy("queue_id").agg(f.min("position").alias("position"))
    lasting = evidence.messages.where(f.col("expires_at") > f.lit(scope.until)).join(f.broadcast(behind), "queue_id")
    lasting = lasting.where("offset >= position").select("queue_id", "offset")
    rows = busy.unionByName(evidence.retries.select(*place)).unionByName(waiting.select(*place))
    return rows.unionByName(lasting).distinct()


def _stretches(low: Column, high: Column) -> Column:
    return f.sequence(f.floor(low / _STRETCH), f.floor((high - 1) / _STRETCH))

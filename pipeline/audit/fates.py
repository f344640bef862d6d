"""Row by row: every message that a group has passed has one fate in that group, and every fate is accounted for.

A pass begins when a message is claimed from its topic's queue, or when a replay or a redrive puts it onto the ladder
anew; it ends acked, dead, expired, skipped or released by a seek, or is still on its way: claimed, on a rung, parked,
or back from the ladder and not claimed yet. So for each message and group, ends + on the way = beginnings.

A message that a group passes over without a claim (by tags, by retention, by a seek, or parking) leaves no row, only
counters: there can be no more messages without a row than these have counted.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from .evidence import Evidence, Scope
from .findings import finding, together

_ENDS = ("acked", "acked_outside", "dead", "lost_dead", "expired", "skipped")
_AWAY = ("suspended", "parked", "released")
_MESSAGE = ("group_id", "queue_id", "offset")
"""A message as a group sees it, by its place in the topic's queue."""


def check(evidence: Evidence, scope: Scope, lived: DataFrame) -> DataFrame:
    """Messages without a fate, or with too many; `lived` are the `lives` of this evidence."""
    known = lived.where("NOT before_log")
    silent = known.where("passed_over").join(f.broadcast(evidence.blind), ["group_id", "queue_id"], "left_anti")
    silent = _of_those(
        silent, ["group_id", "queue_id"], f.count("*").alias("silent"), _unrowed(evidence), "silent > unrowed"
    )
    ends, begins = f.col("ends") + f.col("waiting"), f.col("own") + f.col("fresh")
    # A message of an ordered topic that a seek brings again while it lies parked is parked once, and has two rows.
    parked = evidence.cursors_after.where("parked > 0").select("group_id")
    moved = evidence.seeks.join(f.broadcast(parked), "group_id", "left_semi").select("group_id").distinct()
    followed = known.join(f.broadcast(moved), "group_id", "left_anti")
    lost, twice = followed.where(ends < begins), followed.where(ends > begins)
    anew = known.where("fresh > 0")
    anew = _of_those(anew, ["group_id"], f.sum("fresh").alias("anew"), _spare(evidence), "anew > redriven")
    sums = f.format_string(
        "begun %d times and %d times anew; ended %d times, %d on the way", "own", "fresh", "ends", "waiting"
    )
    return together(
        finding(
            silent, "missing", f.format_string("%d without a row, %d accounted for by counters", "silent", "unrowed")
        ),
        finding(lost, "missing", sums),
        finding(twice, "doubled", sums),
        finding(anew, "doubled", f.format_string("%d come anew, %d replayed or redriven", "anew", "redriven")),
        _claimed_twice(evidence, scope),
    )


def hours(lived: DataFrame) -> DataFrame:
    """By topic, group and hour: the fates of the messages that the group has passed, from their `lives`."""
    fate = (
        f.when(f.col("open") > 0, "claimed")
        .when(f.col("parked") > 0, "parked")
        .when(f.col("waiting") > 0, "retrying")
        .when(f.col("last").isin("acked", "acked_outside"), "acked")
        .when(f.col("last").isin("dead", "lost_dead"), "dead")
        .when(f.col("last").isin("expired", "skipped", "released"), f.col("last"))
        .when(f.col("passed_over"), "no_row")
        .otherwise("missing")
    )
    fates = lived.where("below").withColumn("fate", fate)
    columns = ("acked", "dead", "retrying", "parked", "claimed", "expired", "skipped", "released", "no_row", "missing")
    return (
        fates.groupBy("topic", "group", f.date_trunc("hour", "streamed_at").alias("hour"))
        .agg(f.count("*").alias("messages"), *(f.count_if(f.col("fate") == name).alias(name) for name in columns))
        .orderBy("topic", "group", "hour")
    )


def lives(evidence: Evidence, scope: Scope) -> DataFrame:
    """A row for each message and group, if the group has passed the message or still has rows of it.

    own: claims from the topic's queue; fresh: how often it came onto the ladder anew; ends, waiting; last, last_at: the
    last of the ends; passed_over: below the group's position, without a claim; below: below the position; before_log:
    older than what is left of the log; due, claimed_at: its time, and when the group was first handed it.
    """
    messages = evidence.messages.where("id >= 0").where(f.col("streamed_at") < f.lit(scope.until))
    if scope.since is not None:
        messages = messages.where(f.col("streamed_at") >= f.lit(scope.since))
    own = evidence.cursors.join(f.broadcast(evidence.queues.where("group_id = 0").select("queue_id")), "queue_id")
    cursors = own.select("group", *_MESSAGE[:2], "origin", "position").join(
        f.broadcast(horizons(evidence)), "group_id", "left"
    )
    seen = messages.join(f.broadcast(cursors), "queue_id")
    rows = seen.join(_flows(evidence), [*_MESSAGE], "left")
    below = (f.col("offset") >= f.col("origin")) & (f.col("offset") < f.col("position"))
    rows = rows.withColumn("below", below).where(below | f.col("own").isNotNull())
    rows = rows.select(
        "topic",
        "group",
        *_MESSAGE,
        "id",
        "streamed_at",
        "due",
        "claimed_at",
        "below",
        "last",
        "last_at",
        *(f.coalesce(name, f.lit(0)).alias(name) for name in (*_COUNTS, "fresh")),
        f.coalesce(f.col("streamed_at") < f.col("horizon"), f.lit(False)).alias("before_log"),
    )
    passed = f.col("below") & (f.col("own") == 0)
    sought, over = _seeks_over(evidence, "position_before", "position_after")
    skipped = rows.where(passed).join(f.broadcast(sought), over, "left_semi").select(*_MESSAGE)
    skipped = skipped.distinct().withColumn("by_seek", f.lit(True))
    rows = rows.join(skipped, [*_MESSAGE], "left")
    return rows.withColumn("passed_over", passed & f.col("by_seek").isNull()).withColumn(
        "last", f.when(f.col("by_seek") & f.col("last").isNull(), "released").otherwise(f.col("last"))
    )


def horizons(evidence: Evidence) -> DataFrame:
    """By group_id: messages from before `horizon` may have rows that retention has taken."""
    never = f.lit("9999-12-31").cast("timestamp")
    begins = evidence.ledger.select(
        "group_id", "queue_id", f.col("entry").alias("number"), f.col("entry_at").alias("at")
    )
    sought = evidence.seeks.select("group_id", "queue_id", f.col("number").alias("seek"))
    logs_begin = evidence.cursors.select("group_id", "queue_id", "next_delivery").join(
        begins, ["group_id", "queue_id"], "left"
    )
    # What stands before the first entry that is left are seeks, or entries that are gone.
    before = f.coalesce("number", "next_delivery")
    cut = (
        logs_begin.withColumn("before", before)
        .join(f.broadcast(sought), ["group_id", "queue_id"], "left")
        .groupBy("group_id", "queue_id", "before", "at")
        .agg(f.count_if(f.col("seek") < f.col("before")).alias("seeks"))
        .where("before > seeks")
        .select("group_id", f.coalesce("at", never).alias("at"))
    )
    floors = evidence.queues.where("group_id > 0 AND floor > 0").select("group_id", "queue_id")
    oldest = evidence.returns.groupBy("group_id", "queue_id").agg(f.min("streamed_at").alias("at"))
    gone = floors.join(oldest, ["group_id", "queue_id"], "left").select("group_id", f.coalesce("at", never).alias("at"))
    return cut.unionByName(gone).groupBy("group_id").agg(f.max("at").alias("horizon"))


_COUNTS = ("own", "ends", "waiting", "open", "parked", "parkings")


def _flows(evidence: Evidence) -> DataFrame:
    """By message and group: how often it began, how often it ended, and how often it is on the way."""
    kinds = (_handed(evidence), _returned(evidence), _resting(evidence))
    return (
        together(*map(_flowed, kinds))
        .groupBy(*_MESSAGE)
        .agg(
            *(f.sum(name).alias(name) for name in _COUNTS),
            f.greatest(f.sum("fresh"), f.lit(0)).alias("fresh"),
            f.max("end")["outcome"].alias("last"),
            f.max("end")["at"].alias("last_at"),
            f.min("claimed_at").alias("claimed_at"),
        )
    )


def _flowed(rows: DataFrame) -> DataFrame:
    """Rows in one shape: a count that is not there is 0, an end or a claim that is not there null."""
    absent = {name: f.lit(0) for name in _COUNTS} | {
        "end": f.lit(None).cast("struct<at: timestamp, outcome: string>"),
        "claimed_at": f.lit(None).cast("timestamp"),
    }
    return rows.withColumns({name: value for name, value in absent.items() if name not in rows.columns}).select(
        "group_id",
        f.col("message_queue_id").alias("queue_id"),
        f.col("message_offset").alias("offset"),
        *_COUNTS,
        "fresh",
        "end",
        "claimed_at",
    )


def _handed(evidence: Evidence) -> DataFrame:
    """Messages that were claimed."""
    outcome, mine = f.col("outcome"), f.col("own")
    away = outcome.isin(*_AWAY) & (f.col("attempt") == 1) & ~(mine & (outcome == "released"))
    ends = outcome.isin(*_ENDS) | (mine & (outcome == "released"))
    return evidence.handed.where("message_offset IS NOT NULL").select(
        "group_id",
        "message_queue_id",
        "message_offset",
        "claimed_at",
        _one(mine).alias("own"),
        _one(ends).alias("ends"),
        _one(outcome == "open").alias("waiting"),
        _one(outcome == "open").alias("open"),
        _one(outcome == "parked").alias("parkings"),
        # A message given back uncounted in its first attempt comes again in its first attempt.
        (_one(~mine & (f.col("attempt") == 1)) - _one(away)).alias("fresh"),
        # A message that expired in the log alone has no time of its own.
        f.when(ends, f.struct(f.coalesce("settled_at", "ended_at").alias("at"), outcome.alias("outcome"))).alias("end"),
    )


def _returned(evidence: Evidence) -> DataFrame:
    """Messages that came back from the ladder and were not claimed."""
    claimed = evidence.handed.where("NOT own").select("group_id", "queue_id", "offset")
    cursors = evidence.cursors.select("group_id", "queue_id", "position")
    returns = evidence.returns.join(claimed, ["group_id", "queue_id", "offset"], "left_anti")
    passed = f.col("offset") < f.col("position")  # and without a claim: skipped or expired
    return returns.join(f.broadcast(cursors), ["group_id", "queue_id"]).select(
        "group_id",
        "message_queue_id",
        "message_offset",
        _one(passed).alias("ends"),
        _one(~passed).alias("waiting"),
        _one(f.col("attempt") == 1).alias("fresh"),
        f.when(passed, f.struct(f.col("streamed_at").alias("at"), f.lit("expired").alias("outcome"))).alias("end"),
    )


def _resting(evidence: Evidence) -> DataFrame:
    """Messages that are on the ladder, or parked."""
    return evidence.retries.select(
        "group_id",
        "message_queue_id",
        "message_offset",
        f.lit(1).alias("waiting"),
        _one(f.col("parked")).alias("parked"),
        _one(f.col("attempt") == 1).alias("fresh"),
    )


def _one(condition: Column) -> Column:
    return f.when(condition, 1).otherwise(0)


def _of_those(rows: DataFrame, by: list[str], total: Column, limits: DataFrame, over: str) -> DataFrame:
    """Rows of the groups or queues whose total is over their limit, with both numbers; there are few."""
    totals = rows.groupBy(*by).agg(total).join(f.broadcast(limits), by).where(over)
    return rows.join(f.broadcast(totals), by)


def _unrowed(evidence: Evidence) -> DataFrame:
    """By group and queue: how many messages were passed without a claim, by the counters that were read last."""
    may = ("expired", "skipped", "parked")
    counted = sum((f.col(name) for name in may), f.lit(0))
    rowed = sum((f.col(f"{name}_rows") for name in may), f.lit(0))
    both = evidence.cursors_after.join(evidence.ledger, ["group_id", "queue_id"], "left")
    unrowed = f.greatest(counted - f.coalesce(rowed, f.lit(0)), f.lit(0))
    return both.select("group_id", "queue_id", unrowed.alias("unrowed"))


def _spare(evidence: Evidence) -> DataFrame:
    """By group: how many messages may have come onto the ladder anew: redriven, replayed, or parked without a claim."""
    rows = evidence.ledger.groupBy("group_id").agg(f.sum("parked_rows").alias("rows"))
    counted = evidence.cursors_after.groupBy("group_id").agg(
        f.sum("redriven").alias("put_back"), f.sum("parked").alias("parkings")
    )
    unrowed = f.greatest(f.col("parkings") - f.coalesce("rows", f.lit(0)), f.lit(0))
    return counted.join(rows, "group_id", "left").select("group_id", (f.col("put_back") + unrowed).alias("redriven"))


def _claimed_twice(evidence: Evidence, scope: Scope) -> DataFrame:
    """Places in a queue that were claimed more often than seeks went back over them."""
    times = evidence.handed.groupBy("group", *_MESSAGE).agg(f.count("*").alias("times"), f.max("own").alias("own"))
    again = times.where("times > 1").join(f.broadcast(evidence.blind), ["group_id", "queue_id"], "left_anti")
    sought, back = _seeks_over(evidence, "position_after", "position_before")
    counted = again.join(f.broadcast(sought), back, "left").groupBy("group", *_MESSAGE, "times", "own")
    offences = counted.agg(f.count("seek_queue_id").alias("seeks")).where("times > seeks + 1")
    places = evidence.messages.select("topic", "queue_id", "offset", "id", "streamed_at")
    topics = evidence.queues.select(f.col("queue_id"), f.col("topic").alias("topic_of"))
    offences = offences.join(places, ["queue_id", "offset"], "left").join(f.broadcast(topics), "queue_id", "left")
    offences = offences.withColumn("topic", f.coalesce("topic", "topic_of"))
    offences = offences.where(f.coalesce(f.col("streamed_at") < f.lit(scope.until), f.lit(True)))
    detail = f.format_string("claimed %d times, sought back %d times", "times", "seeks")
    return finding(offences, "claimed_twice", detail)


def _seeks_over(evidence: Evidence, low: str, high: str) -> tuple[DataFrame, Column]:
    """Seeks, and the condition that one went over a message, from the lower of its positions to the higher."""
    names = {"group_id": "seek_group_id", "queue_id": "seek_queue_id"}
    sought = evidence.seeks.select("group_id", "queue_id", low, high).withColumnsRenamed(names)
    of_queue = (f.col("group_id") == f.col("seek_group_id")) & (f.col("queue_id") == f.col("seek_queue_id"))
    return sought, of_queue & (f.col("offset") >= f.col(low)) & (f.col("offset") < f.col(high))

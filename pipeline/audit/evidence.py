"""The evidence of an audit: the tables without their bodies, each read once, the counters before the rows and after.

The service goes on meanwhile. Counters only grow, so what the rows add up to lies between the two readings of their
counter. Claims are read before the delivery log, into which they go: one that ends meanwhile may be seen in both, never
in neither, and is taken from the log.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from attrs import field, frozen
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from ..columns import frame
from ..schemas import Tables
from .adjustments import OUTBOX, SEEKS, Adjustments, counted

_HANDED = (
    "topic",
    "group",
    "group_id",
    "queue_id",
    "number",
    "claim",
    "offset",
    "message_queue_id",
    "message_offset",
    "attempt",
    "outcome",
    "claimed_at",
    "settled_at",
    "ended_at",
)
_PLACE = ("message_queue_id", "message_offset", "attempt")


@frozen
class Scope:
    """Which messages are looked at: those that came into the stream from `since` on and before `until`."""

    until: datetime
    since: datetime | None = None
    archived: bool = False
    """Whether there is a lake: then dead letters that were redriven or purged are still in sight."""


@frozen
class Evidence:
    """Everything that the checks use."""

    messages: DataFrame
    """topic, topic_id, queue_id, offset, id, streamed_at, due: its time, or when it was accepted, if that was
    later; expires_at."""
    handed: DataFrame
    """A row per message and claim, `ended` or open; `own`: from the queue of its topic, not back from the ladder."""
    ledger: DataFrame
    """The sums of `handed`, see `ledger_of`."""
    retries: DataFrame
    returns: DataFrame
    dead: DataFrame
    letters: DataFrame
    """See `adjustments.counted`: of the store alone."""
    timers: DataFrame
    cancelled: DataFrame
    seeks: DataFrame
    queues: DataFrame
    cursors: DataFrame
    tallies: DataFrame
    outbox: DataFrame
    queues_after: DataFrame
    cursors_after: DataFrame
    tallies_after: DataFrame
    outbox_after: DataFrame
    blind: DataFrame
    """(group_id, queue_id) that were sought, but whose seeks are not in sight."""
    kept: list[DataFrame] = field(factory=list[DataFrame])

    def keep(self, frame: DataFrame) -> DataFrame:
        """Keeps a frame that several checks use, so that it is computed once."""
        self.kept.append(frame.persist())
        return frame

    def close(self) -> None:
        """Lets Spark drop the frames that it keeps."""
        for one in self.kept:
            one.unpersist()


def look(tables: Tables, topics: Sequence[str] | None = None, adjustments: Adjustments | None = None) -> Evidence:
    """Reads the tables, of all topics or of these, in the order in which rows go from one to the next.

    Nothing is read twice: when a worker is lost with some of the rows, the audit fails, and may be repeated.
    """

    def some(table: DataFrame) -> DataFrame:
        return table if topics is None else table.where(f.col("topic").isin(list(topics)))

    def read(table: DataFrame, *columns: str | Column) -> DataFrame:
        # Not persist(): Spark would take the second reading of a table for the first.
        return some(table).select(*columns).localCheckpoint()

    spark = tables.cursors.sparkSession

    def read_counters() -> tuple[DataFrame, DataFrame, DataFrame, DataFrame]:
        outbox = frame(spark, [], OUTBOX) if adjustments is None else adjustments.outbox()
        queues, cursors, tallies, outbox = (
            small(some(table)) for table in (tables.queues, tables.cursors, tables.tallies, outbox)
        )
        return queues, cursors, tallies, outbox

    before = read_counters()
    due = f.greatest("deliver_at", "accepted_at").alias("due")
    messages = read(tables.messages, "topic", "topic_id", "queue_id", "offset", "id", "streamed_at", due, "expires_at")
    timers = read(tables.timers, "topic", "topic_id", "id")
    cancelled = read(tables.cancelled, "topic", "id")
    claims = read(tables.claims, *_HANDED)
    retries = read(tables.retries, "topic", "group_id", *_PLACE, "parked")
    returns = read(tables.returns, "topic", "group_id", "queue_id", "offset", *_PLACE, "streamed_at", "due")
    deliveries = read(tables.deliveries, *_HANDED)
    dead = read(tables.dead, "topic", "group", "group_id", "id", "dead_at", "queue_id", "offset")
    letters = small(counted(tables.dead) if adjustments is None else adjustments.letters())
    seeks = small(some(frame(spark, [], SEEKS) if adjustments is None else adjustments.seeks()))
    after = read_counters()
    both = handed(claims, deliveries).persist()
    ledger = small(ledger_of(both, seeks, before[1]))
    cursors_after = after[1]
    moved = cursors_after.where("sought <> 0").select("group_id", "queue_id")
    blind = small(moved.join(seeks, ["group_id", "queue_id"], "left_anti"))
    rows = (messages, both, ledger, retries, returns, dead, letters, timers, cancelled, seeks)
    return Evidence(*rows, *before, *after, blind, kept=[both])


def small(frame: DataFrame) -> DataFrame:
    """The same rows, known to the planner and all in one place: frames made of them need no shuffle.

    For tables with a row per queue, cursor, topic or seek; the driver holds them.
    """
    rows: Any = frame  # PySpark's types of these calls are partly unknown
    made: DataFrame = rows.sparkSession.createDataFrame(rows.toArrow(), frame.schema)
    return made.coalesce(1)


def handed(claims: DataFrame, deliveries: DataFrame) -> DataFrame:
    """Open and ended claims in one, each claim once."""
    key = ["group_id", "queue_id", "claim"]
    ended = deliveries.join(f.broadcast(claims.select(*key).distinct()), key, "left_semi").select(*key).distinct()
    still = claims.join(f.broadcast(ended), key, "left_anti").select(*_HANDED).withColumn("ended", f.lit(False))
    own = f.col("message_queue_id").eqNullSafe(f.col("queue_id"))
    return deliveries.select(*_HANDED).withColumn("ended", f.lit(True)).unionByName(still).withColumn("own", own)


OUTCOMES = {
    "acked": ("acked",),
    "dead": ("dead", "lost_dead"),
    "retried": ("retried", "lost", "suspended"),
    "expired": ("expired",),
    "skipped": ("skipped",),
    "parked": ("parked",),
}
"""The outcomes in the log, by the counter of a cursor that counts them."""


def ledger_of(handed: DataFrame, seeks: DataFrame, cursors: DataFrame) -> DataFrame:
    """The sums by group and queue, in one pass over the rows.

    claimed: in open claims; acked_rows and so on, by `OUTCOMES`; entries, first: how many entries of the log are in
    sight, seeks among them, and from which number on; entry, entry_at: the first that is no seek, and when it ended.
    """
    outcome, ended = f.col("outcome"), f.col("ended")
    ways = {name: outcome.isin(*words) for name, words in OUTCOMES.items()}
    # A seek puts messages claimed from a retry queue back onto the ladder; others count as sought.
    ways["retried"] = ways["retried"] | (outcome == "released") & ~f.col("own")
    counts = {f"{name}_rows": f.count_if(where) for name, where in ways.items()}
    counts["claimed"] = f.count_if(~ended & outcome.isin("open", "acked_outside"))
    cursor = ["group_id", "queue_id"]
    entries = handed.groupBy(*cursor, "number", "ended").agg(
        *(value.alias(name) for name, value in counts.items()), f.min("ended_at").alias("ended_at")
    )
    sought = seeks.select(
        *(f.col(name) for name in (*cursor, "number")),
        f.lit(True).alias("ended"),
        *(f.lit(0).cast("long").alias(name) for name in counts),
        f.lit(None).cast("timestamp").alias("ended_at"),
    )
    ends = cursors.select(*cursor, f.col("next_delivery").alias("upto"))
    numbers = entries.unionByName(sought).join(f.broadcast(ends), cursor, "left")
    logged = f.when(ended & (f.col("number") < f.col("upto")), f.col("number"))
    entry = f.when(f.col("ended_at").isNotNull(), f.col("number"))
    return numbers.groupBy(*cursor).agg(
        *(f.sum(name).alias(name) for name in counts),
        f.count_distinct(logged).alias("entries"),
        f.min(logged).alias("first"),
        f.min(entry).alias("entry"),
        f.min_by("ended_at", entry).alias("entry_at"),
    )

"""What the audit looks at: the tables without their bodies, each read once, the counters before the rows and after.

The service goes on meanwhile. Counters only grow, so what the rows add up to lies between the two readings of their
counter. Claims are read before the delivery log, into which they go: one that ends meanwhile may be seen in both, never
in neither, and is taken from the log.
"""

from collections.abc import Sequence
from datetime import datetime

from attrs import field, frozen
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from .books import OUTBOX, SEEKS, Books, frame
from .tables import Tables

_HANDED = (
    *("topic", "group", "group_id", "queue_id", "number", "claim", "offset", "message_queue_id", "message_offset"),
    *("attempt", "outcome", "settled_at", "ended_at"),
)
_PLACE = ("message_queue_id", "message_offset", "attempt")


@frozen
class Scope:
    """Which messages are looked at: those that came into the stream from `since` on and before `until`."""

    until: datetime
    since: datetime | None = None
    archived: bool = False
    """There is a lake: dead letters that were redriven or purged are still in sight."""


@frozen
class Sight:
    """Everything that the checks are made of."""

    messages: DataFrame
    """topic, topic_id, queue_id, offset, id, streamed_at."""
    handed: DataFrame
    """A row per message and claim, `ended` or open; `own`: from the queue of its topic, not back from the ladder."""
    retries: DataFrame
    returns: DataFrame
    dead: DataFrame
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
    kept: list[DataFrame] = field(factory=list[DataFrame])

    def keep(self, frame: DataFrame) -> DataFrame:
        """What several checks are made of is worked out once."""
        self.kept.append(frame.persist())
        return frame

    def close(self) -> None:
        """Gives back what Spark keeps of it."""
        for one in self.kept:
            one.unpersist()


def look(tables: Tables, topics: Sequence[str] | None = None, books: Books | None = None) -> Sight:
    """Reads the tables, of all topics or of these, in the order in which rows go from one to the next.

    What has been read is not read again: when a worker is lost with some of it, the audit fails, and may be repeated.
    """

    def read(table: DataFrame, *columns: str) -> DataFrame:
        some = table if topics is None else table.where(f.col("topic").isin(list(topics)))
        # Not persist(): Spark would take the second reading of a table for the first.
        return (some.select(*columns) if columns else some).localCheckpoint()

    spark = tables.cursors.sparkSession

    def read_counters() -> tuple[DataFrame, DataFrame, DataFrame, DataFrame]:
        outbox = frame(spark, [], OUTBOX) if books is None else books.outbox()
        return read(tables.queues), read(tables.cursors), read(tables.tallies), read(outbox)

    before = read_counters()
    messages = read(tables.messages, "topic", "topic_id", "queue_id", "offset", "id", "streamed_at")
    timers = read(tables.timers, "topic", "topic_id", "id")
    cancelled = read(tables.cancelled, "topic", "id")
    claims = read(tables.claims, *_HANDED)
    retries = read(tables.retries, "topic", "group_id", *_PLACE, "parked")
    returns = read(tables.returns, "topic", "group_id", "queue_id", "offset", *_PLACE, "streamed_at")
    deliveries = read(tables.deliveries, *_HANDED)
    dead = read(tables.dead, "topic", "group", "group_id", "id", "dead_at", "queue_id", "offset")
    seeks = read(frame(spark, [], SEEKS) if books is None else books.seeks())
    after = read_counters()
    both = handed(claims, deliveries).persist()
    rows = (messages, both, retries, returns, dead, timers, cancelled, seeks)
    return Sight(*rows, *before, *after, kept=[both])


def handed(claims: DataFrame, deliveries: DataFrame) -> DataFrame:
    """Open and ended claims in one, each claim once."""
    key = ["group_id", "queue_id", "claim"]
    ended = deliveries.join(f.broadcast(claims.select(*key).distinct()), key, "left_semi").select(*key).distinct()
    still = claims.join(f.broadcast(ended), key, "left_anti").select(*_HANDED).withColumn("ended", f.lit(False))
    own = f.col("message_queue_id").eqNullSafe(f.col("queue_id"))
    return deliveries.select(*_HANDED).withColumn("ended", f.lit(True)).unionByName(still).withColumn("own", own)

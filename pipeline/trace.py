"""The time line of messages: everything that the store and the lake know of them, in the order in which it happened.

What a group's consumers did is told by the delivery log and the open claims; why they failed, by the history that the
next delivery, the retry, the return or the dead letter carries.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own documentation has it

from .report.columns import INT, LONG, TEXT, TIME, schema, shaped
from .tables import Tables

TIMELINE = schema(
    ("at", TIME),
    ("topic", TEXT),
    ("id", LONG),
    ("key", TEXT),
    ("what", TEXT),  # one of EVENTS
    ("group", TEXT),
    ("client", TEXT),
    ("attempt", INT),
    ("reason", TEXT),  # why it failed
    ("queue", INT),  # where it lies in the stream: at `streamed`
    ("offset", LONG),
    ("held_ms", LONG),  # since the hand-out that this ends
)

EVENTS = (
    "accepted",
    "cancelled",
    "due",
    "streamed",
    "expired",  # no longer in the stream when it was claimed
    "skipped",  # its tag was not asked for
    "returned",  # from the ladder into the retry queue
    "claimed",
    "acked",
    "failed",
    "lease_lost",
    "suspended",
    "released",  # by a seek, which closed its claim
    "parked",  # behind one of its key that has to come back first
    "dead",
    "waiting",  # for its time, or on the ladder: `at` is when that is over
)
"""Those of one millisecond are in this order."""

_ENDS = {
    "acked": "acked",
    "acked_outside": "acked",
    "retried": "failed",
    "dead": "failed",
    "lost": "lease_lost",
    "lost_dead": "lease_lost",
    **{outcome: outcome for outcome in ("suspended", "released", "parked", "expired", "skipped")},
}
_HISTORY = "array<struct<at bigint, client string, reason string>>"
_OF = ["topic", "id", "key"]
_WITH_REASON = ["failed", "lease_lost"]


def with_key(tables: Tables, key: str) -> DataFrame:
    """All messages of a business key: `topic`, `id`, `accepted_at`."""
    return _found(tables, F.col("key") == key)


def with_ids(tables: Tables, ids: Sequence[int]) -> DataFrame:
    """Those of these ids that are known: `topic`, `id`, `accepted_at`."""
    return _found(tables, F.col("id").isin(list(ids)))


def _found(tables: Tables, wanted: Column) -> DataFrame:
    places = (tables.messages, tables.timers, tables.cancelled, tables.dead)
    first, *others = (place.where(wanted).select("topic", "id", "accepted_at") for place in places)
    for other in others:
        first = first.unionByName(other)
    return first.groupBy("topic", "id").agg(F.min("accepted_at").alias("accepted_at"))


def timeline(tables: Tables, ids: Sequence[int]) -> DataFrame:
    """`TIMELINE` of the messages of these ids, one after the other by id, each in order of time."""
    wanted = F.col("id").isin(list(ids))
    messages, timers, cancelled, dead = (
        table.where(wanted) for table in (tables.messages, tables.timers, tables.cancelled, tables.dead)
    )
    places = messages.select("queue_id", "offset", *_OF).unionByName(dead.select("queue_id", "offset", *_OF))
    places = F.broadcast(places.dropDuplicates(["queue_id", "offset"]))
    handled = _placed(tables.deliveries.unionByName(tables.claims), places)
    retries, returns = _placed(tables.retries, places), _placed(tables.returns, places)
    events = [
        *_before_any_group(messages, timers, cancelled, dead),
        *_handled(handled),
        _event(returns, "returned", "streamed_at", group="group", attempt="attempt"),
        _event(retries.where("not parked"), "waiting", "due", group="group", attempt="attempt"),
        _event(retries.where("parked"), "parked", "due", group="group", attempt="attempt"),
        _event(dead, "dead", "dead_at", group="group"),
    ]
    every = events[0]
    for more in events[1:]:
        every = every.unionByName(more)
    order = F.array_position(F.array(*(F.lit(event) for event in EVENTS)), F.col("what"))
    told = _with_reasons(every.distinct(), [handled, retries, returns, dead])
    return shaped(told.orderBy("id", "at", order, "group", "attempt"), TIMELINE)


def _before_any_group(messages: DataFrame, timers: DataFrame, cancelled: DataFrame, dead: DataFrame) -> list[DataFrame]:
    """A dead letter tells it too, of a message that is gone."""
    later = messages.where(F.col("deliver_at") > F.col("accepted_at"))
    return [
        *(_event(rows, "accepted", "accepted_at") for rows in (messages, timers, cancelled, dead)),
        _event(later, "due", "deliver_at"),
        _event(messages, "streamed", "streamed_at", queue="queue", offset="offset"),
        _event(cancelled, "cancelled", "cancelled_at"),
        _event(timers, "waiting", "due"),
    ]


def _handled(handled: DataFrame) -> list[DataFrame]:
    """Hand-outs and how they ended."""
    words = F.create_map(*(F.lit(word) for pair in _ENDS.items() for word in pair))
    never = (F.col("outcome") == "parked") & F.col("settled_at").isNull()  # it lay in the claim, and nobody had it
    rows = handled.where(~never).select(
        "*",
        F.coalesce("settled_at", "ended_at", "claimed_at").alias("over"),
        F.try_element_at(words, F.col("outcome")).alias("end"),
        (F.unix_millis("settled_at") - F.unix_millis("claimed_at")).alias("held"),
    )
    had = rows.where(~F.col("outcome").isin("skipped", "expired"))
    passed = rows.where(F.col("outcome").isin("skipped", "expired"))
    over = had.where("outcome <> 'open'")
    dead = had.where(F.col("outcome").isin("dead", "lost_dead"))  # the letter itself may have been redriven or purged
    who = {"group": "group", "client": "client", "attempt": "attempt"}
    return [
        _event(had, "claimed", "claimed_at", **who),
        _event(over, F.col("end"), "over", **who, held_ms="held"),
        _event(passed, F.col("end"), "over", group="group", attempt="attempt"),
        _event(dead, "dead", "over", group="group"),
    ]


def _placed(rows: DataFrame, places: DataFrame) -> DataFrame:
    """Those that are about the messages of these places, with what these are called."""
    lies = places.withColumnsRenamed({"queue_id": "message_queue_id", "offset": "message_offset"})
    return rows.drop("topic").join(lies, ["message_queue_id", "message_offset"])


def _event(rows: DataFrame, what: str | Column, at: str, **told: str) -> DataFrame:
    """One event to a row; `told` has the columns that say more of it."""
    word = F.lit(what) if isinstance(what, str) else what
    known = {"at": F.col(at), "what": word, **{name: F.col(name) for name in _OF}}
    known |= {name: F.col(f"`{column}`") for name, column in told.items()}
    empty = F.lit(None)
    return rows.select(
        *(known.get(field.name, empty).cast(field.dataType).alias(field.name) for field in TIMELINE.fields)
    )


def _with_reasons(events: DataFrame, carriers: Sequence[DataFrame]) -> DataFrame:
    """Why each attempt failed, from the history of those that came after it."""
    entries = [
        rows.select("id", "group", F.posexplode(F.from_json("history", _HISTORY)).alias("place", "entry"))
        for rows in carriers
    ]
    every = entries[0]
    for more in entries[1:]:
        every = every.unionByName(more)
    reasons = every.groupBy("id", "group", (F.col("place") + 1).alias("attempt")).agg(
        F.max("entry.reason").alias("told")
    )
    joined = events.drop("reason").join(F.broadcast(reasons), ["id", "group", "attempt"], "left")
    return joined.withColumn("reason", F.when(F.col("what").isin(_WITH_REASON), F.col("told")))

"""Duties: one row for each message and each group that has to handle it, with how far the group has come with it.

From these rows come backlog, lateness and the groups that are slow. A duty is a message that the group was handed, or
has yet to be handed. Messages that its cursor passed over without a hand-out are none: those before the group's
beginning, those a seek went past, those retention took.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ..schemas import INT, LONG, TEXT, TIME, Tables
from .columns import FINAL, due_of_message, handed_out, has_outcome, schema, shaped
from .window import Window

DUTIES = schema(
    ("topic", TEXT),
    ("group", TEXT),
    ("queue_id", INT),
    ("offset", LONG),
    ("id", LONG),
    ("due", TIME),
    ("streamed_at", TIME),
    ("handed_at", TIME),  # the first time, of the first attempt
    ("settled_at", TIME),  # for good; the first time, if it was redriven or replayed
)

_PLACE = ["group_id", "queue_id", "offset"]


def duties(tables: Tables, window: Window) -> DataFrame:
    """`DUTIES`. It takes two shuffles by message; nothing of it comes to the driver."""
    message = {"queue_id": F.col("message_queue_id"), "offset": F.col("message_offset")}
    handled = tables.handled.where("message_queue_id IS NOT NULL").withColumns(message)
    taken = _taken(handled)
    cursors = _cursors(tables, handled, window)
    messages = tables.messages.select("queue_id", "offset", "id", due_of_message(), "streamed_at")
    bound = messages.join(F.broadcast(cursors.drop("topic", "group")), "queue_id")
    rows = bound.join(taken, _PLACE, "left").where(F.col("taken").isNotNull() | (F.col("offset") >= F.col("position")))
    names = cursors.select("group_id", "topic", "group").distinct()
    return shaped(rows.join(F.broadcast(names), "group_id"), DUTIES)


def _taken(handled: DataFrame) -> DataFrame:
    """All messages that were ever claimed, by group and message."""
    ended = F.coalesce("settled_at", "ended_at", "claimed_at")
    return handled.groupBy(*_PLACE).agg(
        F.lit(1).alias("taken"),
        F.min(F.when((F.col("attempt") == 1) & handed_out(), F.col("claimed_at"))).alias("handed_at"),
        F.min(F.when(has_outcome(FINAL), ended)).alias("settled_at"),
    )


def _cursors(tables: Tables, handled: DataFrame, window: Window) -> DataFrame:
    """By group and queue, the offset from which on messages without a delivery have yet to be handed out.

    For the present the store knows it; for the past it is the furthest offset that was handed out.
    """
    names = ["group_id", "topic", "group"]
    seen = handled.groupBy(*names, "queue_id").agg((F.max("offset") + 1).alias("seen"))
    known = tables.cursors.select(*names, "queue_id", "origin", F.col("position").alias("stands"))
    order: list[str] = ["stands", "seen"] if window.is_now else ["seen", "origin"]
    position: Column = F.coalesce(*order)
    return (
        seen.join(known, [*names, "queue_id"], "full")
        .select(*names, "queue_id", position.alias("position"))
        .where(F.col("position").isNotNull())
    )

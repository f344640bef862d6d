"""What the store and the lake both should have: the tables of each side, and from where to where none may miss a row.

A side may lack what retention has taken from the store, and what has come since the archiver last looked.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from ..history import Twofold, open_twofold
from ..lake.archive import OVERLAP
from ..lake.tenure import archived_by
from ..link import Link
from ..source.spans import ends
from .books import frame

REACHES = StructType(
    [
        StructField("table", StringType(), False),
        StructField("owner", IntegerType(), False),  # the group's id, of a cancelled message the topic's
        StructField("queue", IntegerType(), False),  # of deliveries, else 0
        StructField("reach", LongType(), False),
    ]
)
"""How far the archive has come, of all that the store still knows: a number of the delivery log, else milliseconds."""

SHORT = StructType(
    [
        StructField("topic", StringType(), False),
        StructField("there", LongType(), False),
        StructField("archived", LongType(), False),
    ]
)
"""Topics of whose cancelled messages the lake has fewer than were written."""

_REST = 10_000
"""Milliseconds: what was done so shortly before the archiver looked may not have been committed."""
_NAMES = {"deliveries": "delivery", "dead": "dead", "cancelled": "cancelled"}
"""The store's names of what goes by time."""


@frozen
class Pairs:
    """The sides, and what is known of them."""

    store: Mapping[str, DataFrame]
    lake: Mapping[str, DataFrame]
    reaches: DataFrame
    """With the schema `REACHES`."""
    short: DataFrame
    """With the schema `SHORT`."""


def open_pairs(
    spark: SparkSession, dsn: str, lake: str, *, topics: Sequence[str] | None = None, since: int | None = None
) -> Pairs:
    """From `since` on, Unix milliseconds, and from where retention has come to. (What it has taken since then is found
    to be missing, and at a second look is not.)"""
    with Link(dsn) as link:
        rows = link.rows("SELECT what, until FROM cleaned_until")
        taken = {bytes(what).decode(): int(until) + 1 for what, until in rows}
        asked = archived_by(link)
        whole = link.kind == "sqlite"
    begins = {table: max(since or 0, taken.get(name, 0)) or None for table, name in _NAMES.items()}
    both = open_twofold(spark, dsn, lake, begins | {"messages": since}, topics=topics)
    looked = 0
    messages = both.snapshots.get("messages")
    if asked is not None and messages is not None and asked[0] == messages.identity():
        looked = asked[1] + OVERLAP - _REST
    short = _short(both, topics)
    reaches = _reaches(both, looked, None if whole else {topic for topic, *_ in short})
    return Pairs(both.store, both.lake, frame(spark, reaches, REACHES), frame(spark, short, SHORT))


def _short(both: Twofold, topics: Sequence[str] | None) -> list[tuple[str, int, int]]:
    snapshot = both.snapshots.get("cancelled")
    if snapshot is None:
        return []
    there = snapshot.rows()
    names = [name for name in both.facts.topics.values() if topics is None or name in topics]
    written = {name: snapshot.position(name) or 0 for name in names}
    return [(name, there.get(name, 0), many) for name, many in written.items() if there.get(name, 0) < many]


def _reaches(both: Twofold, looked: int, short: set[str] | None) -> list[tuple[Any, ...]]:
    """`looked`: when the archiver last looked, by time.

    `short`: the topics that lack a cancelled message in the lake; of others a user's transaction may have been open
    while the archiver looked, and be found the next time. None: there are no such transactions.
    """
    facts, rows = both.facts, list[tuple[Any, ...]]()
    if (log := both.snapshots.get("deliveries")) is not None:
        marks = ends("deliveries", facts)
        positions = log.positions(marks)
        for mark in marks:
            group_id, _, queue_id = mark.partition(":")
            rows.append(("deliveries", int(group_id), int(queue_id), positions.get(mark, 0)))
    if (dead := both.snapshots.get("dead")) is not None:
        reach = max(dead.position("") or 0, looked)
        rows += [("dead", group_id, 0, reach) for group_id in facts.groups]
    if (cancelled := both.snapshots.get("cancelled")) is not None:
        position = cancelled.position("") or 0
        rows += [
            ("cancelled", id_, 0, max(position, looked if short is None or name in short else 0))
            for id_, name in facts.topics.items()
        ]
    return rows

"""The rows that store and lake both should have: the tables of each side, and the ranges where none may miss a row.

A side may lack rows that retention has taken from the store, and rows that have come since the archiver last looked.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

from attrs import frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from ..columns import frame
from ..history import Reads
from ..lake import erasures
from ..lake.archive import OVERLAP
from ..lake.archiver_lease import archived_by
from ..schemas import IN_LAKE, INT, LONG, TEXT, schema_of
from ..source.spans import ends
from ..store_connection import StoreConnection, text_of

REACHES = schema_of(
    ("table", TEXT),
    ("owner", INT),  # the group's id, of a cancelled message the topic's, of a fire the schedule's
    ("queue", INT),  # of deliveries, else 0
    ("reach", LONG),
)
"""How far the archive has come, for all owners that the store still knows: a number of the delivery log, else
milliseconds."""

SHORT = schema_of(("topic", TEXT), ("there", LONG), ("archived", LONG))
"""Topics for which the lake has fewer cancelled messages than were written."""

_REST = 10_000
"""Milliseconds: changes made so shortly before the archiver looked may not have been committed."""
_ERASED = ("messages", "dead")
_NAMES = {"deliveries": "delivery", "dead": "dead", "cancelled": "cancelled", "fires": "fire"}
"""The store's names of the tables from which retention takes rows by time."""


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
    """Opens both sides: from `since` on, Unix milliseconds, and from where retention has come to. (Rows that it takes
    after that are found to be missing, and at a second look are not.)"""
    with StoreConnection(dsn) as connection:
        taken = {text_of(row["what"]): row["until"] + 1 for row in connection.fetch("cleaned_until.all")}
        asked = archived_by(connection)
        whole = connection.kind == "sqlite"
        erased, places = erasures.pending(connection)
    begins = {table: max(since or 0, taken.get(name, 0)) or None for table, name in _NAMES.items()}
    begins["messages"] = since
    reads = Reads(spark, dsn, lake, topics)
    store = {table: reads.live(table, None, since=begins[table]) for table in IN_LAKE}
    archived = {table: reads.archived(table, since=begins[table]) for table in IN_LAKE}
    if erased:
        store, archived = _unerased(store, erased, places), _unerased(archived, erased, [])
    looked = 0
    messages = reads.places.snapshots.get("messages")
    if asked is not None and messages is not None and asked[0] == messages.identity():
        looked = asked[1] + OVERLAP - _REST
    short = _short(reads)
    reaches = _reaches(reads, looked, None if whole else {row["topic"] for row in short})
    return Pairs(store, archived, frame(spark, reaches, REACHES), frame(spark, short, SHORT))


def _unerased(
    side: Mapping[str, DataFrame], ids: Sequence[int], places: Sequence[tuple[int, int]]
) -> dict[str, DataFrame]:
    """Leaves out messages that the store has erased and the lake has yet to: until then their copies differ.

    Of deliveries only the history is left out; if it is null on the store's side, it is not compared.
    """
    kept = {
        table: rows.where(~f.col("id").isin(list(ids))) if table in _ERASED else rows for table, rows in side.items()
    }
    theirs = reduce(
        lambda found, place: found | (f.col("message_queue_id") == place[0]) & (f.col("message_offset") == place[1]),
        places,
        f.lit(False),
    )
    history = f.when(~f.coalesce(theirs, f.lit(False)), f.col("history"))
    return kept | {"deliveries": side["deliveries"].withColumn("history", history)}


def _short(reads: Reads) -> list[dict[str, Any]]:
    snapshot = reads.places.snapshots.get("cancelled")
    if snapshot is None:
        return []
    there = snapshot.rows()
    names = [name for name in reads.facts.topics.values() if reads.topics is None or name in reads.topics]
    return [
        {"topic": name, "there": there.get(name, 0), "archived": archived}
        for name in names
        if there.get(name, 0) < (archived := snapshot.position(name) or 0)
    ]


def _reaches(reads: Reads, looked: int, short: set[str] | None) -> Iterator[dict[str, Any]]:
    """`looked`: when the archiver last looked, by time.

    `short`: the topics that lack a cancelled message in the lake; of others a user's transaction may have been open
    while the archiver looked, and be found the next time. None: there are no such transactions.
    """
    facts, snapshots = reads.facts, reads.places.snapshots
    if (log := snapshots.get("deliveries")) is not None:
        marks = ends("deliveries", facts)
        positions = log.positions(marks)
        for mark in marks:
            group, _, queue = mark.partition(":")
            reach = positions.get(mark, 0)
            yield {"table": "deliveries", "owner": int(group), "queue": int(queue), "reach": reach}
    if (dead := snapshots.get("dead")) is not None:
        reach = max(dead.position("") or 0, looked)
        for group_id in facts.groups:
            yield {"table": "dead", "owner": group_id, "queue": 0, "reach": reach}
    if (cancelled := snapshots.get("cancelled")) is not None:
        position = cancelled.position("") or 0
        for topic_id, name in facts.topics.items():
            reach = max(position, looked if short is None or name in short else 0)
            yield {"table": "cancelled", "owner": topic_id, "queue": 0, "reach": reach}
    if (fires := snapshots.get("fires")) is not None:
        reach = max(fires.position("") or 0, looked)
        for schedule_id in facts.schedules:
            yield {"table": "fires", "owner": schedule_id, "queue": 0, "reach": reach}

"""An audit from a store and a lake to its report: two looks, the equations, the findings. Bounded in all."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from attrs import evolve
from pyspark.sql import DataFrame, SparkSession

from ..history import open_table, open_tables
from . import balances, fates
from .adjustments import StoreAdjustments
from .evidence import Scope, look
from .findings import KINDS, listed
from .job import Audit, confirmed
from .pairs import open_pairs

_ROWS = 1000
"""Lines of a table that are shown."""
_MARGIN = timedelta(hours=1)
"""Messages are in the order of their commits, and only nearly in that of their times: so much more is read."""


def examine(
    spark: SparkSession, dsn: str, lake: str | None, scope: Scope, topics: Sequence[str] | None, limit: int
) -> dict[str, Any]:
    """The report: the equations, what was found, `limit` of each kind, and what only counters tell of."""
    first = _look(spark, dsn, lake, scope, topics)
    later: list[Audit] = []

    def look_again(some: Sequence[str] | None) -> Audit:
        later.append(_look(spark, dsn, lake, scope, some or topics))
        return later[-1]

    found = _rows(listed(confirmed(first, look_again), limit), len(KINDS) * limit)
    kinds: dict[str, dict[str, Any]] = {}
    for row in found:
        kind, total = row.pop("kind"), row.pop("total")
        entry = kinds.setdefault(kind, {"what": KINDS[kind], "total": total, "listed": []})
        entry["listed"].append(row | {"id": None if row["id"] is None else str(row["id"])})
    report = {
        "clean": not kinds,
        "from": scope.since,
        "to": scope.until,
        "topics": settled(_rows(balances.topics(first.evidence), _ROWS), kinds.get("topic_counters")),
        "groups": settled(_rows(balances.groups(first.evidence), _ROWS), kinds.get("group_counters")),
        "hours": _rows(fates.hours(first.lives), _ROWS),
        "unchecked": _rows(first.unchecked(), _ROWS),
        "findings": kinds,
    }
    for one in (first, *later):
        one.evidence.close()
    return report


def settled(rows: list[dict[str, Any]], broken: dict[str, Any] | None) -> list[dict[str, Any]]:
    """An equation that did not hold at the first look and did at the second is no finding: its parts moved."""
    listed: list[dict[str, Any]] = [] if broken is None else broken["listed"]
    if broken is not None and broken["total"] > len(listed):
        return rows
    topics = {one["topic"] for one in listed}
    moved = {"holds": None, "busy": True}
    return [row if row["holds"] or row["topic"] in topics else row | moved for row in rows]


def _look(spark: SparkSession, dsn: str, lake: str | None, scope: Scope, topics: Sequence[str] | None) -> Audit:
    tables = open_tables(spark, dsn, lake, topics=topics, moving=True)
    since = None if scope.since is None else int((scope.since - _MARGIN).timestamp() * 1000)
    pairs = None if lake is None else open_pairs(spark, dsn, lake, topics=topics, since=since)
    if since is not None:  # what waits or is claimed is looked at whole: counters are of all times
        some = ("messages", "deliveries", "dead")
        late = {name: open_table(spark, dsn, lake, name, topics=topics, since=since) for name in some}
        tables = evolve(tables, **late)
    return Audit.of(look(tables, topics, StoreAdjustments(spark, dsn)), scope, pairs)


def _rows(frame: DataFrame, limit: int) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.limit(limit).collect()]

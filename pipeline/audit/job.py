"""The audit of a store and a lake: every check over the evidence of a look at their tables, two looks, the report.

The report is bounded in all: equations, findings, and what could be checked by counters only.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from attrs import frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from ..history import open_tables
from . import balances, copies, earliness, fates, holes, log_copies, promotions
from .adjustments import StoreAdjustments
from .evidence import Evidence, Scope, look
from .findings import KINDS, again, listed, together
from .pairs import Pairs, open_pairs

_ROWS = 1000
"""Lines of a table that are shown."""
_TOPICS = 100
"""As many are named when a second look is limited to them; beyond that it looks at all."""
_MARGIN = timedelta(hours=1)
"""Messages are in the order of their commits, and only nearly in that of their times: so much more is read."""


@frozen
class Audit:
    """One look at the tables, and what it says."""

    evidence: Evidence
    scope: Scope
    lives: DataFrame
    """See `fates.lives`."""
    pairs: Pairs | None = None
    """What the store and the lake both have, where there is a lake."""

    @classmethod
    def of(cls, evidence: Evidence, scope: Scope, pairs: Pairs | None = None) -> "Audit":
        return cls(evidence, scope, evidence.keep(fates.lives(evidence, scope)), pairs)

    def findings(self) -> DataFrame:
        """All that is wrong, with the schema `findings.FINDINGS`; empty when all is well. It has been worked out.

        One check after the other: Spark plans a query anew whenever a stage of it is over, and all in one took longer
        to plan than to run.
        """
        checks = [
            balances.check(self.evidence, self.scope),
            fates.check(self.evidence, self.scope, self.lives),
            holes.check(self.evidence, self.scope),
            promotions.check(self.evidence),
            earliness.check(self.evidence, self.lives),
        ]
        if self.pairs is not None:
            messages = self.pairs.store["messages"], self.pairs.lake["messages"]
            checks += [
                copies.check(*messages),
                holes.lost(self.evidence, self.scope, *messages),
                log_copies.check(self.pairs, self.evidence, self.lives),
            ]
        return together(*(check.localCheckpoint() for check in checks))

    def unchecked(self) -> DataFrame:
        """(topic, group, what, count): messages that only counters tell of; `group` may be null.

        `below_floor`: gone from the store, and not in the lake. `before_log`: older than what is left of the log.
        `within_clocks`: claimed before their time, by no more than the clocks of two nodes may differ.
        """
        lowest = self.evidence.messages.groupBy("queue_id").agg(f.min("offset").alias("lowest"))
        own = self.evidence.queues.where("group_id = 0 AND floor > 0").join(lowest, "queue_id", "left")
        begin = f.coalesce("lowest", "next_offset") if self.scope.archived else f.col("floor")
        below = own.groupBy("topic", f.lit(None).cast("string").alias("group"))
        counts = {
            "below_floor": below.agg(f.sum(f.least("next_offset", begin)).alias("count")).where("count > 0"),
            "before_log": self.lives.where("before_log").groupBy("topic", "group").count(),
            "within_clocks": earliness.within_clocks(self.lives).groupBy("topic", "group").count(),
        }
        rows = (some.select("topic", "group", f.lit(what).alias("what"), "count") for what, some in counts.items())
        return together(*rows).orderBy("topic", "group", "what")


def confirmed(first: Audit, look_again: Callable[[Sequence[str] | None], Audit]) -> DataFrame:
    """What two looks agree on. The second is at the topics that the first found something in, and only then."""
    suspects = first.findings()
    topics = [row.topic for row in suspects.select("topic").distinct().limit(_TOPICS + 1).collect()]
    if not topics:
        return suspects
    second = look_again(None if len(topics) > _TOPICS or None in topics else topics)
    return again(suspects, second.findings())


def examine(
    spark: SparkSession, dsn: str, lake: str | None, scope: Scope, topics: Sequence[str] | None, limit: int
) -> dict[str, Any]:
    """The report: the equations, what was found, `limit` of each kind, and what only counters tell of."""
    first = _look(spark, dsn, lake, scope, topics)
    looks = [first]

    def look_again(some: Sequence[str] | None) -> Audit:
        looks.append(_look(spark, dsn, lake, scope, some or topics))
        return looks[-1]

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
    for one in looks:
        one.evidence.close()
    return report


def settled(rows: list[dict[str, Any]], broken: dict[str, Any] | None) -> list[dict[str, Any]]:
    """An equation that did not hold at the first look and did at the second is no finding: its parts moved."""
    told: list[dict[str, Any]] = [] if broken is None else broken["listed"]
    if broken is not None and broken["total"] > len(told):
        return rows
    topics = {one["topic"] for one in told}
    moved = {"holds": None, "busy": True}
    return [row if row["holds"] or row["topic"] in topics else row | moved for row in rows]


def _look(spark: SparkSession, dsn: str, lake: str | None, scope: Scope, topics: Sequence[str] | None) -> Audit:
    since = None if scope.since is None else int((scope.since - _MARGIN).timestamp() * 1000)
    # What waits or is claimed is looked at whole, and what was cancelled: counters are of all times.
    late = ("messages", "deliveries", "dead")
    tables = open_tables(spark, dsn, lake, topics=topics, since=since, limited=late, moving=True, bodies=False)
    pairs = None if lake is None else open_pairs(spark, dsn, lake, topics=topics, since=since)
    return Audit.of(look(tables, topics, StoreAdjustments(spark, dsn)), scope, pairs)


def _rows(frame: DataFrame, limit: int) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.limit(limit).collect()]

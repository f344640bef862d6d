"""`tarry pipeline audit`: do the books of the store, and of the lake, hold?"""

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from .codes import FAILED
from .options import AsJson, Dsn, LakePlace, Master, Since, Topics, Until, store_of, window
from .rows import show_rows
from .times import moment, told_time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ..audit import Audit
    from ..sight import Scope

_ROWS = 1000
"""Lines of a table that are shown."""
_MARGIN = timedelta(hours=1)
"""Messages are in the order of their commits, and only nearly in that of their times: so much more is read."""
_REST = timedelta(seconds=10)
"""What is younger than this when an audit begins is on its way, and left alone."""


def audit(
    *,
    dsn: Dsn = None,
    lake: LakePlace = None,
    topic: Topics = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, Parameter(help="Ids that are listed of each kind of finding.")] = 20,
    master: Master = None,
    as_json: AsJson = False,
) -> int:
    """Hold counters against counters, counters against rows, and every message against its fate in each group.

    Looked at are messages that came into the stream before --to, ten seconds ago unless given. Without --lake that is
    what the store still has.
    """
    if limit < 1:
        raise ValueError("--limit must be 1 or more")
    latest = datetime.now(UTC) - _REST
    begin, end = window(since, until or told_time(latest))
    from ..session import open_session

    spark = open_session("audit", master)
    try:
        from ..sight import Scope

        scope = Scope(
            latest if end is None else moment(end), None if begin is None else moment(begin), archived=lake is not None
        )
        report = examine(spark, store_of(dsn), lake, scope, topic, limit)  # counters are half of it, with a lake too
    finally:
        spark.stop()
    if as_json:
        sys.stdout.write(json.dumps(report, ensure_ascii=False, default=_text) + "\n")
    else:
        _print(report)
    return 0 if report["clean"] else FAILED


def examine(
    spark: "SparkSession", dsn: str, lake: str | None, scope: "Scope", topics: Sequence[str] | None, limit: int
) -> dict[str, Any]:
    """What is told: the equations, what was found, and what only counters tell of. Bounded, whatever the data."""
    from ..audit import confirmed
    from ..findings import KINDS, listed

    first = _look(spark, dsn, lake, scope, topics)
    later: list[Audit] = []

    def look_again(some: Sequence[str] | None) -> "Audit":
        later.append(_look(spark, dsn, lake, scope, some or topics))
        return later[-1]

    found = _rows(listed(confirmed(first, look_again), limit), len(KINDS) * limit)
    kinds: dict[str, dict[str, Any]] = {}
    for row in found:
        kind = row.pop("kind")
        told = kinds.setdefault(kind, {"what": KINDS[kind], "total": row.pop("total"), "listed": []})
        row.pop("total", None)
        told["listed"].append(row | {"id": None if row["id"] is None else str(row["id"])})
    report = {
        "clean": not kinds,
        "from": scope.since,
        "to": scope.until,
        "topics": _rows(first.topics(), _ROWS),
        "groups": _rows(first.groups(), _ROWS),
        "hours": _rows(first.hours(), _ROWS),
        "unchecked": _rows(first.unchecked(), _ROWS),
        "findings": kinds,
    }
    for one in (first, *later):
        one.sight.close()
    return report


def _look(spark: "SparkSession", dsn: str, lake: str | None, scope: "Scope", topics: Sequence[str] | None) -> "Audit":
    from attrs import evolve

    from ..audit import Audit
    from ..books import StoreBooks
    from ..history import open_table, open_tables
    from ..sight import look

    tables = open_tables(spark, dsn, lake, topics=topics)
    since = None if scope.since is None else int((scope.since - _MARGIN).timestamp() * 1000)
    copies: tuple[DataFrame, DataFrame] | None = None
    if lake is not None:
        mine = open_table(spark, dsn, None, "messages", topics=topics, since=since)
        copies = (mine, open_table(spark, None, lake, "messages", topics=topics, since=since))
    if since is not None:  # what waits or is claimed is looked at whole: counters are of all times
        some = ("messages", "deliveries", "dead")
        late = {name: open_table(spark, dsn, lake, name, topics=topics, since=since) for name in some}
        tables = evolve(tables, **late)
    return Audit.of(look(tables, topics, StoreBooks(spark, dsn)), scope, copies)


def _rows(frame: "DataFrame", limit: int) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.limit(limit).collect()]


def _text(value: object) -> str:
    return told_time(value) if isinstance(value, datetime) else str(value)


_TABLES = {
    "topics": ("topic", "accepted", "streamed", "cancelled", "expired", "pending", "waiting", "holds"),
    "groups": (
        *("topic", "group", "queue", "retry", "moves", "acked", "dead", "retried", "parked", "claimed", "expired"),
        *("skipped", "sought", "holds"),
    ),
    "hours": (
        *("topic", "group", "hour", "messages", "acked", "dead", "retrying", "parked", "claimed", "expired"),
        *("skipped", "released", "no_row", "missing"),
    ),
}
_UNCHECKED = {
    "below_floor": "{count} messages of {topic} below the floor, not in the lake: by counters only",
    "before_log": "{count} messages of {topic}, {group} are older than the delivery log: by counters only",
}


def _print(report: dict[str, Any]) -> None:
    for name, columns in _TABLES.items():
        _print_table(columns, report[name])
    for row in report["unchecked"]:
        print(_UNCHECKED[row["what"]].format(**row))
    busy = sum(1 for name in ("topics", "groups") for row in report[name] if row["busy"])
    if busy:
        print(f"{busy} counters moved while they were read: held against what they may have been")
    for kind, told in report["findings"].items():
        print(f"\n{kind}: {told['total']}, {told['what']}")
        _print_table(("topic", "group", "hour", "id", "queue_id", "offset", "detail"), told["listed"])
    print("clean" if report["clean"] else f"not clean: {sum(t['total'] for t in report['findings'].values())} findings")


def _print_table(columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> None:
    show_rows(columns, [["" if row[name] is None else _text(row[name]) for name in columns] for row in rows])

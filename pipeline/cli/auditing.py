"""`tarry pipeline audit`: do the books of the store, and of the lake, hold?"""

import json
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

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
    dsn: str | None = None,
    lake: str | None = None,
    topic: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    since: Annotated[str | None, Parameter(name="--from")] = None,
    until: Annotated[str | None, Parameter(name="--to")] = None,
    limit: int = 20,
    master: str | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """Hold counters against counters, counters against rows, and every message against its fate in each group.

    Parameters
    ----------
    dsn
        The store. Default: TARRY_DSN, or sqlite:///tarry.db.
    lake
        The archive, a path or URL; without it only what the store still has can be looked at.
    topic
        Only this topic; may be given several times.
    since
        Only messages that came into the stream at this time or later, RFC 3339.
    until
        Only messages that came into the stream before; ten seconds ago unless given.
    limit
        Ids that are listed of each kind of finding.
    master
        Spark's master, such as local[2] or spark://host:7077.
    as_json
        One JSON object instead of tables.
    """
    if limit < 1:
        raise ValueError("--limit must be 1 or more")
    begin, end = _time("--from", since), _time("--to", until) or datetime.now(UTC) - _REST
    if begin is not None and begin >= end:
        raise ValueError("--from must be before --to")
    from ..session import open_session

    spark = open_session("audit", master)
    try:
        from ..sight import Scope

        store = dsn or os.environ.get("TARRY_DSN") or "sqlite:///tarry.db"  # its counters are half of it
        report = examine(spark, store, lake, Scope(end, begin, archived=lake is not None), topic or None, limit)
    finally:
        spark.stop()
    if as_json:
        sys.stdout.write(json.dumps(report, ensure_ascii=False, default=_text) + "\n")
    else:
        _print(report)
    return 0 if report["clean"] else 1


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
    from ..history import open_tables
    from ..sight import look

    tables = open_tables(spark, dsn, lake, topics=topics)
    since = None if scope.since is None else int((scope.since - _MARGIN).timestamp() * 1000)
    copies: tuple[DataFrame, DataFrame] | None = None
    if lake is not None:
        mine = open_tables(spark, dsn, None, topics=topics, since=since)
        theirs = open_tables(spark, None, lake, topics=topics, since=since)
        copies = (mine.messages, theirs.messages)
    if since is not None:  # what waits or is claimed is looked at whole: counters are of all times
        some = open_tables(spark, dsn, lake, topics=topics, since=since)
        tables = evolve(tables, messages=some.messages, deliveries=some.deliveries, dead=some.dead)
    return Audit.of(look(tables, topics, StoreBooks(spark, dsn)), scope, copies)


def _rows(frame: "DataFrame", limit: int) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.limit(limit).collect()]


def _time(option: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = datetime.min
    if moment.tzinfo is None:
        raise ValueError(f"{option} must be a time with its zone, such as 2026-01-31T08:00:00Z")
    return moment.astimezone(UTC)


def _text(value: object) -> str:
    if isinstance(value, datetime):
        # Spark gives times without a zone, in that of this machine.
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return str(value)


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
        _print_table(columns, [[row[column] for column in columns] for row in report[name]])
    for row in report["unchecked"]:
        _line(_UNCHECKED[row["what"]].format(**row))
    busy = sum(1 for name in ("topics", "groups") for row in report[name] if row["busy"])
    if busy:
        _line(f"{busy} counters moved while they were read: held against what they may have been")
    for kind, told in report["findings"].items():
        _line(f"\n{kind}: {told['total']}, {told['what']}")
        columns = ("topic", "group", "hour", "id", "queue_id", "offset", "detail")
        _print_table(columns, [[row[column] for column in columns] for row in told["listed"]])
    _line("clean" if report["clean"] else f"not clean: {sum(t['total'] for t in report['findings'].values())} findings")


def _line(text: str) -> None:
    sys.stdout.write(text + "\n")


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table on a terminal, lines with tabs in a pipe."""
    cells = [["" if value is None else _text(value) for value in row] for row in rows]
    if not sys.stdout.isatty():
        for row in (columns, *cells):
            sys.stdout.write("\t".join(row) + "\n")
        return
    table = Table(box=box.SIMPLE_HEAD, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)

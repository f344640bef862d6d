"""`tarry pipeline audit`: checks whether everything in the store, and in the lake, adds up."""

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from cyclopts import Parameter

from ...store.printable import json_text, print_table
from ...store.whole_number import whole_number
from ..errors import FAILED
from ..times import moment, time_text
from .options import AsJson, Dsn, LakeUrl, Master, Since, Topics, Until, store_of, window

_REST = timedelta(seconds=10)
"""Messages that are younger than this when an audit begins may be on their way, and are left out."""


def audit(
    *,
    dsn: Dsn = None,
    lake: LakeUrl = None,
    topic: Topics = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, Parameter(help="Ids that are listed of each kind of finding.", converter=whole_number)] = 20,
    master: Master = None,
    as_json: AsJson = False,
) -> int:
    """Check counters against counters, counters against rows, and the fate of every message in each group.

    Messages are checked that came into the stream before --to, ten seconds ago unless given. Without --lake these are
    the messages that the store still has.
    """
    if limit < 1:
        raise ValueError("--limit must be 1 or more")
    latest = datetime.now(UTC) - _REST
    begin, end = window(since, until or time_text(latest))
    from ..session import check, close_session, open_session

    check()
    from ..history import check as check_places

    dsn = store_of(dsn)  # the counters are in the store, with a lake too
    spark = open_session("audit", master, check_places(dsn, lake, topic))
    try:
        from ..audit.evidence import Scope
        from ..audit.job import examine

        scope = Scope(
            latest if end is None else moment(end), None if begin is None else moment(begin), archived=lake is not None
        )
        report = examine(spark, dsn, lake, scope, topic, limit)
    finally:
        close_session(spark)
    if as_json:
        sys.stdout.write(json_text(report, default=_text) + "\n")
    else:
        _print(report)
    return 0 if report["clean"] else FAILED


def _text(value: object) -> str:
    return time_text(value) if isinstance(value, datetime) else str(value)


_TABLES = {
    "topics": (
        "topic",
        "accepted",
        "streamed",
        "cancelled",
        "replaced",
        "suppressed",
        "expired",
        "pending",
        "waiting",
        "holds",
    ),
    "groups": (
        "topic",
        "group",
        "queue",
        "retry",
        "moves",
        "acked",
        "dead",
        "retried",
        "parked",
        "claimed",
        "expired",
        "skipped",
        "sought",
        "holds",
    ),
    "hours": (
        "topic",
        "group",
        "hour",
        "messages",
        "acked",
        "dead",
        "retrying",
        "parked",
        "claimed",
        "expired",
        "skipped",
        "released",
        "no_row",
        "missing",
    ),
}
_UNCHECKED = {
    "below_floor": "{count} messages of {topic} below the floor, not in the lake: by counters only",
    "within_clocks": "{count} messages of {topic}, {group} were claimed less than a second before their time, as clocks"
    " of nodes may differ",
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
    for kind, entry in report["findings"].items():
        print(f"\n{kind}: {entry['total']}, {entry['what']}")
        _print_table(("topic", "group", "hour", "id", "queue_id", "offset", "detail"), entry["listed"])
    print("clean" if report["clean"] else f"not clean: {sum(t['total'] for t in report['findings'].values())} findings")


def _print_table(columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> None:
    cells = ([row[name] for name in columns] for row in rows)
    print_table(columns, [[time_text(c) if isinstance(c, datetime) else c for c in some] for some in cells])

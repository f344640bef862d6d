"""`tarry pipeline trace`."""

import json
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib import import_module
from typing import Annotated, Any

from cyclopts import Parameter
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

NOT_FOUND = 3
_COLUMNS = ("at", "event", "group", "client", "attempt", "reason", "place", ">held")


def trace(
    *,
    id: Annotated[list[str] | None, Parameter(negative=())] = None,  # noqa: A002  # the option's name
    key: str | None = None,
    topic: Annotated[list[str] | None, Parameter(negative=())] = None,
    dsn: Annotated[str | None, Parameter(env_var="TARRY_DSN")] = None,
    lake: str | None = None,
    max: int = 100,  # noqa: A002  # the option's name
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    master: str | None = None,
) -> int:
    """Tell everything that is known of a message, or of all messages of a business key, in order of time.

    Parameters
    ----------
    id
        The message; may be repeated.
    key
        All messages of this business key.
    topic
        Only of this topic; may be repeated.
    dsn
        The store; sqlite:///tarry.db when there is no --lake either.
    lake
        The lake, a folder or URL.
    max
        At most so many messages, the first that were accepted.
    as_json
        A line of JSON for each event.
    master
        Spark's master, such as local[2]; under spark-submit it is the cluster's.
    """
    if (id is None) == (key is None):
        raise ValueError("say which message: --id ID, or --key KEY")
    ids = [_number(text) for text in id or ()]
    if not 1 <= max <= 1000:
        raise ValueError("--max: from 1 to 1000")
    if dsn is None and lake is None:
        dsn = "sqlite:///tarry.db"
    from ..session import check, open_session

    check()
    from pyspark.sql import functions as F  # noqa: N812

    from ..tasks import suit_this_machine
    from ..trace import timeline, with_ids, with_key

    history: Any = import_module("tarry.pipeline.history")
    spark = open_session("trace", master)
    suit_this_machine(spark)
    tables = history.open_tables(spark, dsn, lake, topics=topic)
    known = with_ids(tables, ids) if key is None else with_key(tables, key)
    found = known.orderBy("accepted_at", "id").limit(max + 1).select("topic", "id", F.unix_millis("accepted_at"))
    messages = [(str(row[0]), int(row[1]), int(row[2])) for row in found.collect()]
    if not messages:
        what = f"message {', '.join(id or ())}" if key is None else f"message with the key {key}"
        print(f"tarry pipeline: there is no {what}, as far as is known", file=sys.stderr)
        return NOT_FOUND
    if len(messages) > max:
        print(f"tarry pipeline: there are more than {max} messages; these are the first", file=sys.stderr)
        messages = messages[:max]
    # Nothing happens to a message before it is accepted: the days before need not be read.
    topics, since = sorted({row[0] for row in messages}), min(row[2] for row in messages)
    tables = history.open_tables(spark, dsn, lake, topics=topics, since=since)
    events = timeline(tables, [row[1] for row in messages])
    show((event.asDict() for event in events.toLocalIterator()), as_json=as_json)
    return 0


def show(events: Iterable[Mapping[str, Any]], *, as_json: bool) -> None:
    """A table to each message on a terminal, lines with tabs in a pipe, or lines of JSON."""
    if as_json:
        for event in events:
            told = {**event, "id": str(event["id"]), "at": _time(event["at"])}
            print(json.dumps({name: value for name, value in told.items() if value is not None}, ensure_ascii=False))
        return
    if not sys.stdout.isatty():
        print("\t".join(("id", "topic", "key", *(column.lstrip(">") for column in _COLUMNS))))
        for event in events:
            cells = (str(event["id"]), event["topic"], event["key"] or "", *_cells(event))
            print("\t".join(cell.replace("\t", " ").replace("\n", " ") for cell in cells))
        return
    table: Table | None = None
    console, current = Console(), None
    for event in events:
        if event["id"] != current:
            if table is not None:
                console.print(table)
            current = event["id"]
            title = f"message {event['id']} of {event['topic']}" + (f", key {event['key']}" if event["key"] else "")
            table = Table(box=box.SIMPLE_HEAD, header_style="bold", title=Text(title), title_justify="left")
            for column in _COLUMNS:
                table.add_column(column.lstrip(">"), justify="right" if column[0] == ">" else "left", overflow="fold")
        if table is not None:
            table.add_row(*(Text(cell) for cell in _cells(event)))
    if table is not None:
        console.print(table)


def _cells(event: Mapping[str, Any]) -> list[str]:
    """In the order of `_COLUMNS`."""
    place = "" if event["offset"] is None else f"queue {event['queue']}, offset {event['offset']}"
    held = "" if event["held_ms"] is None else f"{event['held_ms']} ms"
    told = [event["event"], event["group"], event["client"], event["attempt"], event["reason"]]
    return [_time(event["at"]) or "", *("" if value is None else str(value) for value in told), place, held]


def _time(value: datetime | None) -> str | None:
    """RFC 3339 in UTC. Spark gives times without a zone, in that of this machine."""
    if value is None:
        return None
    utc = value.astimezone(UTC)
    return utc.strftime("%Y-%m-%dT%H:%M:%S.") + f"{utc.microsecond // 1000:03}Z"


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) < 1 << 63):
        raise ValueError(f'--id: "{text}" is not an id: ids are decimal numbers, as publish answers them')
    return int(text)

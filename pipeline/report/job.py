"""The job: every figure out of the tables, and the page, as files in a folder.

The driver holds what is shown and nothing else: each figure is aggregated and limited before it comes here.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib import import_module
from io import BytesIO
from time import time
from typing import Any

from attrs import frozen
from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812

from ..schemas import VERSION
from ..tables import Tables
from ..times import moment, told_time
from .catalogue import FIGURES, Figure
from .duties import duties
from .output import Folder
from .page import page
from .window import HOUR, LOOK_AHEAD, LOOK_BACK, Window, window_around

Rows = Sequence[Mapping[str, Any]]


@frozen
class Known:
    """Where the rows come from: what the other would know is not in the report."""

    store: bool
    lake: bool


@frozen
class Made:
    """A figure that was made: `rows` for the page, `table` is the same as Arrow."""

    figure: Figure
    rows: Rows
    table: Any


@frozen
class Report:
    """What `write` writes."""

    title: str
    window: Window
    known: Known
    topics: Sequence[str]
    made: Mapping[str, Made]

    @property
    def messages(self) -> int:
        """In the window."""
        return int(self.made["overview"].rows[0]["messages"])

    def page(self) -> str:
        rows = {name: made.rows for name, made in self.made.items()}
        return page(self.title, self.window, rows, store=self.known.store, lake=self.known.lake, topics=self.topics)

    def write(self, folder: Folder) -> str:
        """Writes `figures/` and, last, `index.html`; returns the path of that. Raises `PipelineError`."""
        for name, made in self.made.items():
            folder.write(f"figures/{name}.parquet", _parquet(made.table))
            folder.write(f"figures/{name}.json", self._json(made))
        return folder.write("index.html", self.page().encode())

    def _json(self, made: Made) -> bytes:
        figure = made.figure
        content = {
            "figure": figure.name,
            "title": figure.title,
            "tells": figure.tells,
            "version": VERSION,
            "from": moment(self.window.since),
            "to": moment(self.window.until),
            "topics": list(self.topics),
            "columns": {field.name: field.dataType.simpleString() for field in figure.schema.fields},
            "rows": made.rows,
        }
        return json.dumps(content, default=_told, ensure_ascii=False, indent=1).encode()


@frozen
class Wanted:
    """Of which rows a report is made; None: of all to that side. Milliseconds."""

    since: int | None
    until: int | None


def wanted(since: int | None, until: int | None) -> Wanted:
    """The rows that a report of a window needs: also those before it, for what was waiting when it began, and for
    growth; and those after it, for claims that ended later."""
    if since is None:
        return Wanted(None, None if until is None else until + LOOK_AHEAD)
    length = (_present() if until is None else until) - since
    return Wanted(since - max(LOOK_BACK, length), None if until is None else until + LOOK_AHEAD)


def make_report(
    tables: Tables,
    known: Known,
    *,
    since: int | None = None,
    until: int | None = None,
    title: str = "",
    topics: Sequence[str] = (),
) -> Report:
    """Every figure of a window, in milliseconds; without an end, until now or the last message. Runs Spark."""
    window = reach(tables, since, until)
    each = duties(tables, window).persist(StorageLevel.DISK_ONLY)
    try:
        made = {figure.name: _made(figure, tables, each, window) for figure in FIGURES}
    finally:
        each.unpersist()
    return Report(title or "Report", window, known, topics, made)


def reach(tables: Tables, since: int | None = None, until: int | None = None) -> Window:
    """The window asked for. An end that is open lies at the first or the last thing that is known of."""
    if since is not None and until is not None:
        return Window(since, until)
    messages = tables.messages.agg(F.unix_millis(F.min("streamed_at")), F.unix_millis(F.max("streamed_at")))
    handled = tables.deliveries.agg(F.unix_millis(F.min("claimed_at")), F.unix_millis(F.max("ended_at")))
    ends = [row for frame in (messages, handled) for row in frame.collect() if row[0] is not None]
    first = min((row[0] for row in ends), default=_present() - HOUR)
    last = max((row[1] for row in ends), default=_present())
    around = window_around(first, max(first, last))
    begin = around.since if since is None else since
    end = max(around.until, begin + 1) if until is None else until
    return Window(min(begin, end - 1), end, is_now=until is None)


def _present() -> int:
    return round(time() * 1000)


def _made(figure: Figure, tables: Tables, each: Any, window: Window) -> Made:
    frame: Any = figure.frame(tables, each, window)  # Arrow has no types
    table = frame.toArrow()
    return Made(figure, table.to_pylist(), table)


def _parquet(table: Any) -> bytes:
    parquet: Any = import_module("pyarrow.parquet")
    held = BytesIO()
    parquet.write_table(table, held)
    return held.getvalue()


def _told(value: object) -> str:
    if isinstance(value, datetime):
        return told_time(value)
    raise TypeError(f"no JSON for {value!r}")

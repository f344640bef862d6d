"""The job: makes every figure out of the tables, and the page, and writes them as files into a folder.

The driver holds only what is shown: each figure is aggregated and limited before it comes here.
"""

import json
import time
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

from attrs import frozen
from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812

from ..arrow import pq
from ..schemas import VERSION, Tables
from ..store_connection import StoreConnection, text_of
from ..times import moment, time_text
from .catalogue import FIGURES, Figure
from .charts import Rows
from .duties import duties
from .output import Folder
from .page import Known, page
from .window import LOOK_AHEAD, LOOK_BACK, Window, window_to_now


@frozen
class Made:
    """A figure that was made: `rows` for the page, `table` is the same as Arrow."""

    figure: Figure
    rows: Rows
    table: Any


@frozen
class Report:
    """A report, as `write` writes it."""

    title: str
    window: Window
    known: Known
    topics: Sequence[str]
    made: Mapping[str, Made]

    @property
    def messages(self) -> int:
        """How many messages came into the stream in the window."""
        return int(self.made["overview"].rows[0]["messages"])

    def page(self) -> str:
        rows = {name: made.rows for name, made in self.made.items()}
        return page(self.title, self.window, rows, self.known, self.topics)

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
        return json.dumps(content, default=time_text, ensure_ascii=False, indent=1).encode()


def known_of(dsn: str | None, lake: str | None) -> Known:
    """What is known beside the rows, before Spark starts. Raises `PipelineError` when the store cannot be asked."""
    if dsn is None:
        return Known(store=False, lake=lake, now=round(time.time() * 1000))
    with StoreConnection(dsn) as connection:
        unread = frozenset(text_of(row["name"]) for row in connection.fetch("topic.unread"))
        return Known(store=True, lake=lake, now=connection.now(), unread=unread)


def wanted(since: int | None, until: int | None, now: int) -> tuple[int | None, int | None]:
    """From when and until when rows are needed for the report of a window, in milliseconds; None: all to that side.

    Rows before the window are needed for messages that were waiting when it began, and for growth; those after it for
    claims that ended later.
    """
    end = None if until is None else until + LOOK_AHEAD
    if since is None:
        return None, end
    length = (now if until is None else until) - since
    return since - max(LOOK_BACK, length), end


def make_report(
    tables: Tables,
    known: Known,
    *,
    since: int | None = None,
    until: int | None = None,
    title: str = "",
    topics: Sequence[str] = (),
) -> Report:
    """Every figure of a window, in milliseconds; without an end, until now. Runs Spark."""
    window = reach(tables, known.now, since, until)
    each = duties(tables, window).persist(StorageLevel.DISK_ONLY)
    try:
        made = {figure.name: _made(figure, tables, each, window) for figure in FIGURES}
    finally:
        each.unpersist()
    return Report(title or "Report", window, known, topics, made)


def reach(tables: Tables, now: int, since: int | None = None, until: int | None = None) -> Window:
    """The window asked for; by default it begins with the first row that is known, and ends now."""
    if since is not None:
        return Window(since, until) if until is not None else window_to_now(since, None, now)
    messages = tables.messages.agg(F.unix_millis(F.min("streamed_at")))
    handled = tables.deliveries.agg(F.unix_millis(F.min("claimed_at")))
    found = [row[0] for row in messages.union(handled).collect() if row[0] is not None]
    first = min(found, default=None)
    if until is None:
        return window_to_now(None, first, now)
    return Window(min(window_to_now(None, first, until).since, until - 1), until)


def _made(figure: Figure, tables: Tables, each: Any, window: Window) -> Made:
    frame: Any = figure.make(each if figure.of_duties else tables, window)  # Arrow has no types
    table = frame.toArrow()
    return Made(figure, table.to_pylist(), table)


def _parquet(table: Any) -> bytes:
    held = BytesIO()
    pq.write_table(table, held)
    return held.getvalue()

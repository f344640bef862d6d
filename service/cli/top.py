"""The command `top`: shows the topics and nodes of a server, live on a terminal, or once without one and for
scripts."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from attrs import frozen
from cyclopts import Parameter

from ...client import Tarry, TarryError
from ...store.printable import visible
from .flags import flag, whole
from .overview import Overview, Sort, look, worst
from .printing import UsageError, print_json
from .server import HERE, Server

_ROW: Mapping[bool, str] = {True: "yes", False: "no"}
_HEADINGS = 7
"""Lines of the screen that are neither a topic's nor a node's."""


@frozen
class _Column:
    head: str
    width: int
    """The least width in letters; a terminal that is too narrow does not show the last columns."""
    cell: Callable[[Mapping[str, Any]], object]


def _lag(topic: Mapping[str, Any]) -> str:
    lag, group = worst(topic["groups"])
    return f"{lag} {group}" if group else ""


_TOPICS = (
    _Column("topic", 16, lambda one: one["topic"]),
    _Column(">published/s", 11, lambda one: f"{one['published_rate']:.1f}"),
    _Column(">delivered/s", 11, lambda one: f"{one['delivered_rate']:.1f}"),
    _Column(">backlog", 9, lambda one: one["backlog"]),
    _Column(">late p99 ms", 11, lambda one: one["late_p99"]),
    _Column(">pending", 9, lambda one: one["pending"]),
    _Column(">held back", 9, lambda one: one["held_back"]),
    _Column(">late p50 ms", 11, lambda one: one["late_p50"]),
    _Column("largest lag", 11, _lag),
)
_NODES = (
    _Column("node", 16, lambda one: one["node"] + ("*" if one["duties"] else "")),
    _Column("alive", 5, lambda one: _ROW[one["alive"]]),
    _Column(">timers", 9, lambda one: one["timers"]),
    _Column(">behind ms", 9, lambda one: one["hand_behind"]),
    _Column(">shards", 6, lambda one: len(one["shards"])),
    _Column("version", 9, lambda one: one["version"]),
    _Column("started", 24, lambda one: one["started_at"]),
)


def top(
    *,
    once: Annotated[bool, flag("Look once, print it and end.")] = False,
    every: Annotated[int, whole("Seconds between two looks.")] = 2,
    sort: Annotated[Sort, Parameter(help="By messages a second, what waits, or name.")] = "rate",
    max: Annotated[  # noqa: A002 - the contract's word
        int, whole("So many topics at most, 1 to 100.")
    ] = 20,
    server: Server = HERE,
) -> int:
    """Watch topics and nodes: rates, backlog, lateness, lag.

    It runs until Ctrl-C. Without a terminal, and with --json, it looks once.
    """
    if every < 1:
        raise UsageError("--every is 1 or more")
    if not 1 <= max <= 100:
        raise UsageError("--max is from 1 to 100")
    with server.client() as tarry:
        if once or server.json or not sys.stdout.isatty() or os.environ.get("TERM") in ("dumb", "unknown"):
            return _print(look(tarry, sort, max, None), server)
        return _watch(tarry, server.url, sort, max, every)


def _print(seen: Overview, server: Server) -> int:
    if server.json:
        print_json(seen.record)
        return 0
    for columns, records in ((_TOPICS, seen.record["topics"]), (_NODES, seen.record["nodes"])):
        rows = [[column.cell(record) for column in columns] for record in records]
        server.show([], [column.head for column in columns], rows)
    return 0


def _watch(tarry: Tarry, url: str, sort: Sort, limit: int, every: int) -> int:
    from rich.console import Console
    from rich.live import Live

    console = Console()
    seen: Overview | None = None
    trouble = ""
    try:
        with Live(console=console, screen=True, auto_refresh=False, transient=True) as live:
            while True:
                try:
                    seen, trouble = look(tarry, sort, limit, seen), ""
                except TarryError as error:  # keep showing the last look, and try again
                    trouble = str(error)
                live.update(_screen(seen, trouble, url, console.width, console.height), refresh=True)
                time.sleep(every)
    except KeyboardInterrupt:
        return 0  # the only way to end it


def _screen(seen: Overview | None, trouble: str, url: str, width: int, height: int) -> Any:
    from rich.console import Group
    from rich.text import Text

    lines: list[Any] = []
    at = "" if seen is None else seen.record["at"]
    lines.append(Text(f"tarry top  {visible(url)}  {at}", style="bold", no_wrap=True, overflow="ellipsis"))
    if trouble:
        lines.append(Text(visible(trouble), style="red", no_wrap=True, overflow="ellipsis"))
    if seen is not None:
        topics, nodes = seen.record["topics"], seen.record["nodes"]
        room = max(1, height - _HEADINGS - len(nodes) - bool(trouble))
        lines.append(_table(_TOPICS, topics[:room], width))
        lines.append(_table(_NODES, nodes, width))
    return Group(*lines)


def _table(columns: tuple[_Column, ...], records: list[Mapping[str, Any]], width: int) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold reverse", pad_edge=False, padding=(0, 2, 0, 0))
    shown, taken = list[_Column](), 0
    for column in columns:
        taken += column.width + 2
        if shown and taken > width:
            break
        shown.append(column)
        side: Literal["left", "right"] = "right" if column.head.startswith(">") else "left"
        table.add_column(
            column.head.lstrip(">"), justify=side, no_wrap=True, overflow="ellipsis", min_width=min(column.width, width)
        )
    for record in records:
        cells = (column.cell(record) for column in shown)
        table.add_row(*(Text("" if cell is None else visible(str(cell))) for cell in cells))
    return table

"""What a command prints: a table on a terminal, tab-separated lines in a pipe, one JSON line per item with `--json`.

Keys, reasons and bodies are others' text: nothing of it reaches a terminal but through here (`store.printable`).
Answers go to stdout; notes and progress to stderr, progress only on a terminal. Rich honours NO_COLOR by itself.
"""

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from ...store.printable import json_text, visible

_OWN = "\n\t"
"""What our own lines are made of."""


def print_json(item: Any) -> None:
    """One line."""
    sys.stdout.write(json_text(item) + "\n")
    sys.stdout.flush()


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table on a terminal, else lines with tabs. Columns that begin with `>` stand to the right."""
    names = [column.lstrip(">") for column in columns]
    if not sys.stdout.isatty():
        for row in (names, *rows):
            sys.stdout.write("\t".join(map(_cell, row)) + "\n")
        sys.stdout.flush()
        return
    from rich import box  # only a terminal needs it
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, header_style="bold")
    for name, column in zip(names, columns, strict=True):
        table.add_column(name, justify="right" if column.startswith(">") else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    Console().print(table)


def print_line(text: str) -> None:
    """A plain line on stdout."""
    sys.stdout.write(visible(text, keep=_OWN) + "\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """A line on stderr."""
    sys.stderr.write(visible(text, keep=_OWN) + "\n")
    sys.stderr.flush()


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, dict | list):
        return json_text(value)
    return visible(str(value))

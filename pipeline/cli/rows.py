"""Rows on stdout: a table on a terminal, lines with tabs in a pipe."""

import sys
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...store.printable import visible


def show_rows(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None, right: Sequence[str] = ()
) -> None:
    """`title` is for the terminal, and `right` names columns that stand to the right there."""
    if not sys.stdout.isatty():
        print("\t".join(columns))
        for row in rows:
            print("\t".join(map(visible, row)))
        sys.stdout.flush()
        return
    told = None if title is None else Text(visible(title))
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", title=told, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    Console().print(table)

"""Shows the result of a job: a small table on a terminal, one JSON line with `--json`."""

import sys
from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...store.printable import json_text, visible


def show_summary(figures: Mapping[str, Any], *, as_json: bool) -> None:
    """Prints the figures on stdout, in the order given; those that are None are left out of the table."""
    if as_json:
        sys.stdout.write(json_text(dict(figures)) + "\n")
        sys.stdout.flush()
        return
    shown = {name.replace("_", " "): value for name, value in figures.items() if value is not None}
    if not sys.stdout.isatty():
        for name, value in shown.items():
            sys.stdout.write(f"{name}\t{json_text(value) if isinstance(value, Mapping) else visible(str(value))}\n")
        sys.stdout.flush()
        return
    table = Table(box=box.SIMPLE, show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in shown.items():
        table.add_row(name, Text(_cell(value)))
    Console().print(table)


def _cell(value: Any) -> str:
    if isinstance(value, Mapping):
        return json_text(value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else visible(str(value))

"""Text of others, made fit for a terminal: keys, reasons and bodies are whatever their senders wrote.

What a terminal obeys instead of showing it (escape sequences, the C1 codes that some read as such, what turns the
direction of writing) is written as an escape that a reader knows. Whatever prints text that somebody else wrote, prints
it by way of this file.
"""

import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

# Lone surrogates too, which no stream takes: JSON may hold them.
_OBEYED = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_KNOWN = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def visible(text: str, *, keep: str = "") -> str:
    """The text with `\\x1b` for an escape, and so on. `keep` is left as it is: a note's own line ends."""
    return _OBEYED.sub(lambda match: match[0] if match[0] in keep else _KNOWN.get(match[0]) or _escape(match[0]), text)


def json_text(value: Any, *, default: Callable[[Any], Any] | None = None) -> str:
    """The value as JSON on one line. To a program it is the same JSON."""
    text = json.dumps(value, ensure_ascii=False, default=default)
    return _OBEYED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """A table on a terminal, with its title; else lines with tabs. Columns that begin with `>` stand to the right."""
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

    heading = None if title is None else Text(visible(title))
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", title=heading, title_justify="left")
    for name, column in zip(names, columns, strict=True):
        table.add_column(name, justify="right" if column.startswith(">") else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    Console().print(table)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, dict | list):
        return json_text(value)
    return visible(str(value))


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"

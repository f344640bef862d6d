"""Makes text from outside safe to print on a terminal: keys, reasons and bodies contain whatever their senders wrote.

Characters that a terminal obeys instead of showing (escape sequences, the C1 codes that some terminals treat as such,
changes of the writing direction) are printed as visible escapes. All code that prints text from outside uses this file.
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
    """The text with `\\x1b` in place of an escape character, and so on. Characters in `keep` are left as they are, such
    as the line ends of a note."""
    return _OBEYED.sub(lambda match: match[0] if match[0] in keep else _KNOWN.get(match[0]) or _escape(match[0]), text)


def json_text(value: Any, *, default: Callable[[Any], Any] | None = None) -> str:
    """The value as JSON on one line, with such characters escaped; a program reads the same value from it."""
    text = json.dumps(value, ensure_ascii=False, default=default)
    return _OBEYED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """Prints a table with its title on a terminal, else lines with tabs. Columns whose name begins with `>` are
    right-aligned."""
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

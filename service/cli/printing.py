"""What a command prints beside tables: one JSON line per item with `--json`, lines, notes, what was wrong with its use.

Keys, reasons and bodies are others' text: nothing of it reaches a terminal but through here (`store.printable`).
Answers go to stdout; notes and progress to stderr, progress only on a terminal. Rich honours NO_COLOR by itself.
"""

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from ...store.printable import json_text, print_table, visible

KEYS = "a command takes its key from TARRY_KEY, or from the file that TARRY_KEY_FILE names"
"""There is no flag for it: others see those. `--key` is a message's."""
_OWN = "\n\t"
"""What our own lines are made of."""


class UsageError(Exception):
    """The arguments do not go together; the text says what to write instead. Exit code 2."""


class NotThere(Exception):
    """There is nothing of this name; the text says of what. Exit code 3."""


def print_json(item: Any) -> None:
    """One line."""
    sys.stdout.write(json_text(item) + "\n")
    sys.stdout.flush()


def print_items(items: Iterable[Any], columns: Sequence[str], rows: Iterable[Sequence[object]], *, json: bool) -> None:
    """The items as JSON lines, or a table of these rows."""
    if not json:
        print_table(columns, rows)
        return
    for item in items:
        print_json(item)


def print_line(text: str) -> None:
    """A plain line on stdout."""
    sys.stdout.write(visible(text, keep=_OWN) + "\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """A line on stderr."""
    sys.stderr.write(visible(text, keep=_OWN) + "\n")
    sys.stderr.flush()

"""Prints the output of commands: JSON lines with `--json`, tables, plain lines and notes; and the errors of wrong
usage.

Keys, reasons and bodies are text from others: it reaches a terminal only through this file (`store.printable`), which
escapes it. Answers go to stdout; notes and progress to stderr, progress only on a terminal. Rich honours NO_COLOR by
itself.
"""

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from ...store.printable import json_text, print_table, visible

KEYS = "a command takes its key from TARRY_KEY, or from the file that TARRY_KEY_FILE names"
"""There is no flag for the client's key, since others can see flags. `--key` is the key of a message."""
_OWN = "\n\t"
"""Control characters that our own texts may contain."""


class UsageError(Exception):
    """The arguments are wrong or do not go together; the text says what to write instead. Exit code 2."""


class NotThere(Exception):
    """The named object does not exist; the text says which. Exit code 3."""


def print_json(item: Any) -> None:
    sys.stdout.write(json_text(item) + "\n")
    sys.stdout.flush()


def print_items(items: Iterable[Any], columns: Sequence[str], rows: Iterable[Sequence[object]], *, json: bool) -> None:
    """Prints the items as JSON lines, or these rows as a table."""
    if not json:
        print_table(columns, rows)
        return
    for item in items:
        print_json(item)


def print_line(text: str) -> None:
    sys.stdout.write(visible(text, keep=_OWN) + "\n")
    sys.stdout.flush()


def note(text: str) -> None:
    sys.stderr.write(visible(text, keep=_OWN) + "\n")
    sys.stderr.flush()

"""A table: its rows once, for the page, as CSV, and with the commands that ask for the same (pure)."""

import csv
import io
import shlex
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from attrs import field, frozen

from .api import path_and_query

Row = Mapping[str, Any]
_FORMULA = frozenset("=+-@")
"""With what a formula of a spreadsheet begins, also in the forms that NFKC takes for the same: full-width, raised."""


@frozen
class Column:
    """A column of a table."""

    name: str
    """The key in a row."""
    label: str
    kind: str = "text"
    """text, line, name, id, code, number, rate, time, duration, state or list: how it is shown. In a table of many
    columns parts (between commas), when (a time) and address may take a second line."""
    to: str = ""
    """The key in a row of the address that a cell leads to."""
    wide: bool = False
    """Left out where the screen is narrow."""


@frozen
class Table:
    """What is shown, and where it comes from."""

    name: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    path: str
    """Of the API, encoded."""
    query: Mapping[str, object] = field(factory=dict[str, object])
    cli: Sequence[str] = ()
    """The command that tells the same."""
    empty: str = "Nothing here."
    """A sentence for when there are no rows."""
    teach: str = ""
    """The command that would change that."""
    more: str | None = None
    """The cursor of the next page."""
    select: str = ""
    """The key in a row that a box to tick stands for."""
    stacked: bool = False
    """Where the screen is narrow each row is a list of its own: for rows of long texts, which else are cut off."""

    @property
    def address(self) -> str:
        """Of the API: what answers the same as JSON."""
        return path_and_query(self.path, self.query)

    def curl(self, origin: str, *, key: bool) -> str:
        """The command for a shell; `key`: one is asked for."""
        header = ' -H "Authorization: Bearer $TARRY_KEY"' if key else ""
        return f"curl -s{header} {shlex.quote(origin + self.address)}"

    @property
    def command(self) -> str:
        """The command line's, for a shell."""
        return shlex.join(self.cli)

    def mark(self, row: Row) -> str:
        """What a row is known by when the page comes anew: who is at one of its links stays with it."""
        names = [column.name for column in self.columns[:1]]
        names += [column.name for column in self.columns[1:] if column.kind in ("name", "id")]
        return quote("-".join([self.name, *(str(row.get(name, "")) for name in names)]))

    def csv(self) -> bytes:
        """All columns, with a line for their names."""
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow([column.name for column in self.columns])
        for row in self.rows:
            writer.writerow([_cell(row.get(column.name)) for column in self.columns])
        return text.getvalue().encode()


def _cell(value: object) -> object:
    if isinstance(value, list | tuple):
        value = " ".join(map(str, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if isinstance(value, str) and _is_formula(value):
        return "'" + value
    return "" if value is None else value


def _is_formula(text: str) -> bool:
    """Whether a spreadsheet may take it for one: some look behind white space, and what is not seen. With a tab or the
    end of a line no name begins."""
    seen = next((sign for sign in text if not _unseen(sign)), "")
    return text[:1] in ("\t", "\r", "\n") or not _FORMULA.isdisjoint(unicodedata.normalize("NFKC", seen))


def _unseen(sign: str) -> bool:
    """White space, marks of formats and of order such as U+FEFF, and control characters; fillers, too."""
    return sign.isspace() or unicodedata.category(sign)[0] in "CZM" or sign in "\u115f\u1160\u3164\uffa0"

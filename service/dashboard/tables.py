"""Tables: the same rows for the page and as CSV, with the commands that give the same data (pure)."""

import csv
import io
import re
import shlex
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from attrs import field, frozen

from .api import part, path_and_query

Row = Mapping[str, Any]
_KEY = re.compile(r"\{(\w+)\}")
_FORMULA = frozenset("=+-@")
"""Characters with which a spreadsheet's formula begins, also in forms that NFKC maps to them: full-width, raised."""


@frozen
class Column:
    name: str
    """The key of its cells in a row."""
    label: str
    kind: str = "text"
    """How cells are shown: text, line, name, id, code, number, rate, time, duration, state or list. In a table of many
    columns, parts (split at commas), when (a time) and address may take a second line."""
    to: str = ""
    """The address to which a cell links, with keys of its row in braces; an empty cell links nowhere."""
    wide: bool = False
    """Whether the column is left out on a narrow screen."""

    def link(self, row: Row) -> str:
        """The address to which the row's cell links, or empty."""
        return _KEY.sub(lambda key: part(row[key[1]]), self.to) if self.to and row[self.name] else ""


@frozen
class Table:
    """A table's rows and columns, and the calls that they come from."""

    name: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    path: str
    """The API's path, encoded."""
    query: Mapping[str, object] = field(factory=dict[str, object])
    cli: Sequence[str] = ()
    """The command of the command line that gives the same data."""
    empty: str = "Nothing here."
    """A sentence for when there are no rows."""
    teach: str = ""
    """A command that would create a row."""
    more: str | None = None
    """The cursor of the next page."""
    select: str = ""
    """The key in a row whose value a tick box sends; empty for no boxes."""
    stacked: bool = False
    """Whether each row becomes a list on a narrow screen: for rows of long texts, which would be cut off otherwise."""

    @property
    def address(self) -> str:
        """The API's address that gives the same data as JSON."""
        return path_and_query(self.path, self.query)

    def curl(self, origin: str, *, key: bool) -> str:
        """The curl command that gives the same data; `key`: whether a key is required."""
        header = ' -H "Authorization: Bearer $TARRY_KEY"' if key else ""
        return f"curl -s{header} {shlex.quote(origin + self.address)}"

    @property
    def command(self) -> str:
        return shlex.join(self.cli)

    def mark(self, row: Row) -> str:
        """Identifies a row when the page is updated, so that the focus stays on its links."""
        names = [column.name for column in self.columns[:1]]
        names += [column.name for column in self.columns[1:] if column.kind in ("name", "id")]
        return quote("-".join([self.name, *(str(row.get(name, "")) for name in names)]))

    def csv(self) -> bytes:
        """The table as CSV: all columns, with a header line."""
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
    """Whether a spreadsheet may take the text for a formula: some skip white space and invisible characters. No name
    begins with a tab or a line break, so these count as well."""
    seen = next((sign for sign in text if not _unseen(sign)), "")
    return text[:1] in ("\t", "\r", "\n") or not _FORMULA.isdisjoint(unicodedata.normalize("NFKC", seen))


def _unseen(sign: str) -> bool:
    """Whether a character is invisible: white space, control and format characters such as U+FEFF, combining marks, and
    fillers."""
    return sign.isspace() or unicodedata.category(sign)[0] in "CZM" or sign in "\u115f\u1160\u3164\uffa0"

"""The store's queries as SQLite reads them (see `store.queries` for the notation)."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, cast

import msgspec

from ..ports import Bound, Value
from ..queries import load_queries

_IDS = "(shard, id) IN (?*)"
_IDS_HERE = "(shard, id) IN (SELECT value & 15, value FROM json_each(?))"
_AT = "(shard, id) AT (?*)"
_AT_HERE = "(shard, id) IN (SELECT (max(value, ~value) & 15) + 16 * (value < 0), max(value, ~value) FROM json_each(?))"
# ANALYZE is never run here, and without it SQLite may prefer a part of the primary key to a whole index.
_INDEX = re.compile(r"/\*! FORCE INDEX \(((?:idx|udx)_\w+)\) \*/")

_WITHIN = re.compile(
    r"FROM (`?\w+`?(?: INDEXED BY \w+| /\*! FORCE INDEX \(PRIMARY\) \*/)?)\s+WHERE \(([^()?]+)\) WITHIN \(\?\*\)"
)
_GREATEST = re.compile(r"ON DUPLICATE KEY UPDATE (\w+) = GREATEST\(\1, VALUES\(\1\)\)")
_ROWS = re.compile(r"\(([^()?]+)\) IN \(\?\*\)")


@cache
def _text(query: str) -> str:
    text = (
        load_queries()[query]
        .replace(_IDS, _IDS_HERE)
        .replace(_AT, _AT_HERE)
        .replace("INSERT IGNORE", "INSERT OR IGNORE")
    )
    text = _GREATEST.sub(r"ON CONFLICT DO UPDATE SET \1 = max(\1, excluded.\1)", text)
    return _WITHIN.sub(_each_stretch, _INDEX.sub(r"INDEXED BY \1", text))


def _each_stretch(match: re.Match[str]) -> str:
    """Makes WITHIN a join that searches each range: planning as many ORs would take SQLite longer than reading."""
    *leading, last = [column.strip() for column in match[2].split(",")]
    conditions = [f"{column} = json_extract(span.value, '$[{place}]')" for place, column in enumerate(leading)]
    conditions.append(f"{last} >= json_extract(span.value, '$[{len(leading)}]')")
    conditions.append(f"{last} < json_extract(span.value, '$[{len(leading) + 1}]')")
    return " ".join(
        ["FROM (SELECT value FROM json_each(?)) AS span CROSS JOIN", match[1], "WHERE", " AND ".join(conditions)]
    )


def bind(query: str, values: Sequence[Bound]) -> tuple[str, list[Any]]:
    """The statement's text and its parameters.

    A list of numbers or of ranges is passed as one JSON parameter, so that the text stays the same and its plan is
    cached; a list of bytes or of rows is written out, since JSON has no bytes.
    """
    text = _text(query)
    flat: list[Any] = []
    for value in values:
        if not isinstance(value, list | tuple):
            flat.append(value)
        elif value and isinstance(value[0], bytes):
            text = text.replace("(?*)", f"({', '.join('?' * len(value))})", 1)
            flat.extend(value)
        elif value and isinstance(value[0], tuple) and _ROWS.search(text):
            text = _any_of(text, len(value))
            flat.extend(one for some in value for one in cast("Sequence[Value]", some))
        else:
            text = text.replace("(?*)", "(SELECT value FROM json_each(?))", 1)
            flat.append(msgspec.json.encode(value).decode())
    return text, flat


def _any_of(text: str, rows: int) -> str:
    """Makes a condition for each row: for a list of rows SQLite would read the whole table."""
    before, columns, after = _ROWS.split(text, maxsplit=1)
    row = " AND ".join(f"{column.strip()} = ?" for column in columns.split(","))
    return f"{before}({' OR '.join([row] * rows)}){after}"


@cache
def insert(query: str, width: int, rows: int = 1) -> str:
    """An INSERT of `rows` rows with `width` columns."""
    row = f"({', '.join('?' * width)})"
    return _text(query).replace("VALUES ?", f"VALUES {', '.join([row] * rows)}")


@cache
def draw() -> str:
    """The UPDATE that draws offsets and returns their end; a SELECT before an UPDATE would be two statements."""
    return f"{_text('queue.draw').rstrip(';')} RETURNING next_offset"

"""What is new of dead letters and cancelled messages, where there is little to look at: without Spark.

They are looked for by time, hours back, whatever the lake has of them. Beyond a bound nothing is told, and nothing kept
in memory: then it is work for Spark.
"""

from collections.abc import Sequence
from typing import Any

from ..arrow import Table, pa, pc
from ..link import absolute
from ..schemas import TABLES
from ..source.facts import Facts
from ..source.pages import read_span
from ..source.reads import fetcher
from ..source.shapes import TIMES
from ..source.spans import plan
from ..times import moment
from . import plain
from .lake import Snapshot

ROWS = 10_000
"""Of the lake, and of the store."""
_BYTES = 64 << 20


def fresh(dsn: str, facts: Facts, snapshot: Snapshot, keys: Sequence[str], since: int) -> Table | None:
    """The rows of the store from `since` on that the lake has not; None where that is too much to look at here."""
    table = snapshot.table
    known = plain.files(snapshot, {}, since=moment(since).date())
    if any(file.rows is None for file in known) or sum(file.rows or 0 for file in known) > ROWS:
        return None
    there = set(_keys(plain.read(snapshot, known, keys, {}), keys))
    fetch = fetcher(absolute(dsn))
    pages: list[Table] = []
    seen = size = 0
    for span in plan(table, facts):
        for page in read_span(fetch, span, TABLES[table], [f"{TIMES[table]} >= {since}"]):
            seen += page.num_rows
            new = page.filter(pa.array([key not in there for key in _keys(page, keys)], pa.bool_()))
            size += new.nbytes
            if seen > ROWS or size > _BYTES:
                return None
            if new.num_rows:
                pages.append(new)
    return pa.concat_tables(pages) if pages else pa.table([[]] * len(TABLES[table]), names=TABLES[table].names)


def _keys(rows: Table, keys: Sequence[str]) -> list[tuple[Any, ...]]:
    """Times as integers, which are the same wherever they come from."""
    columns = [
        pc.cast(rows[name], pa.int64()) if pa.types.is_timestamp(rows[name].type) else rows[name] for name in keys
    ]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))

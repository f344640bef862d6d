"""Rows of the lake read in this process, without Spark: only files that may hold what is wanted are opened.

Delta keeps the least and the greatest value of each number and time with every file, and ids are times, so that of a
lake of any size a handful of files may hold an id. Inside of them Parquet's own bounds leave out row groups.

`fresh` is what is new of dead letters, cancelled messages and fires, which are looked for by time, hours back,
whatever the lake has of them. Beyond a bound it says nothing, and keeps nothing in memory: then it is work for Spark.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import Any

from ..arrow import Table, pa, pc, pq
from ..columns import arrow_schema
from ..schemas import TABLES
from ..source.facts import Facts
from ..source.pages import read_span
from ..source.reads import fetcher
from ..source.shapes import TIMES
from ..source.spans import plan
from ..store_connection import absolute
from ..times import moment
from .file_errors import reading
from .lake import Snapshot
from .object_store import Access

ROWS = 10_000
"""Of the lake, and of the store."""
_BYTES = 64 << 20

Wanted = Mapping[str, Collection[Any]]
"""By column, the values of which a row has one."""
File = Mapping[str, Any]
"""What the table's log says of one, see `Snapshot.added`."""


def files(
    snapshot: Snapshot, wanted: Wanted, *, topics: Collection[str] | None = None, since: date | None = None
) -> list[File]:
    """Those of these topics, and of this day or later, whose bounds do not rule them out."""
    return [
        file
        for file in snapshot.added(topics=topics, since=since)
        if all(_may_hold(file, name, values) for name, values in wanted.items())
    ]


def _may_hold(file: File, name: str, values: Collection[Any]) -> bool:
    least, most = file.get(f"min.{name}"), file.get(f"max.{name}")
    if least is None or most is None:
        return True
    return any(least <= value <= most for value in values)


def read(snapshot: Snapshot, some: Sequence[File], columns: Sequence[str], wanted: Wanted) -> Table:
    """The rows of these files that have one of the wanted values in each column, with these columns of the table.

    Raises `LakeError`.
    """
    whole = arrow_schema(TABLES[snapshot.table])
    schema = pa.schema([whole.field(name) for name in columns])
    # What the table format has written anew says of texts that they are views, which no filter takes.
    in_file = pa.schema([one for one in whole if one.name != "topic"])
    inside = [name for name in columns if name != "topic"]
    where: Any = None
    for name, values in wanted.items():
        one = pc.field(name).isin(pa.array(list(values), whole.field(name).type))
        where = one if where is None else where & one
    access = Access.here()
    opened, root = access.filesystem(snapshot.place)
    found: list[Table] = []
    for file in some:
        with reading(access, snapshot.place, file["path"]):
            rows = pq.read_table(
                f"{root}/{file['path']}",
                columns=inside,
                filesystem=opened,
                filters=where,
                partitioning=None,
                schema=in_file,
            )
        values = [
            pa.repeat(pa.scalar(file["partition.topic"], pa.string()), rows.num_rows) if name == "topic" else rows[name]
            for name in columns
        ]
        found.append(pa.table(values, names=list(columns)).cast(schema))
    return pa.concat_tables(found) if found else schema.empty_table()


def fresh(dsn: str, facts: Facts, snapshot: Snapshot, keys: Sequence[str], since: int) -> Table | None:
    """The rows of the store from `since` on that the lake has not; None where that is too much to look at here."""
    table = snapshot.table
    known = files(snapshot, {}, since=moment(since).date())
    counts = [file.get("num_records") for file in known]
    if None in counts or sum(filter(None, counts)) > ROWS:  # None: the table does not tell
        return None
    there = set(_keys(read(snapshot, known, keys, {}), keys))
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

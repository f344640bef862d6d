"""Reads a span's rows as Arrow tables of a schema: bounded range reads one after the other, none of them long.

No statement reads more than some thousand rows or some megabytes, and each is a snapshot of its own, so that the
store's history of row versions is never held up. Between two of them the rows may change; those below an end do not.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from pyspark.sql.types import LongType, StructType

from ..arrow import Array, Batch, Table, pa, pc
from ..columns import arrow_schema, constant, looked_up, to_column
from .entries import exploded
from .reads import Fetch, fetcher
from .shapes import SHAPES, Shape
from .spans import Span

ROWS = 20_000
"""Most rows of a statement."""
_BYTES = 16 << 20
"""About the most bytes of bodies, headers and histories in a statement; one row may be larger."""
_PER_MESSAGE = 200
"""Bytes that a message of a claim is counted as: claims are exploded."""

_LONG = LongType()


def read_span(
    fetch: Fetch, span: Span, schema: StructType, wanted: Sequence[str] = (), rows: int = ROWS
) -> Iterator[Table]:
    """The span's rows, in tables of that schema, which may be a part of the table's. `wanted`: conditions in SQL."""
    shape = SHAPES[span.source]
    if span.owners is not None and not span.owners:
        return
    names = [field.name for field in schema.fields]
    if span.table in ("deliveries", "claims"):
        needed = list(shape.columns)
    else:
        needed = [name for name in shape.columns if name in names or (span.owners is not None and name == shape.owner)]
    conditions = [*(f"{column} = {value}" for column, value in span.place.items() if column != "back")]
    if shape.where:
        conditions.append(shape.where)
    if span.owners is not None:
        conditions.append(f"{shape.owner} IN ({', '.join(map(str, span.owners))})")
    conditions += wanted
    for first, last in _windows(fetch, shape, span, conditions, needed, rows):
        page = fetch(shape.select(needed, conditions, first, last, also="" if needed else f"{shape.key} AS `key`"))
        if page.num_rows:
            yield _finished(fetch, span, page, schema)


def read_spans(dsn: str, spans: Iterable[Span], schema: StructType, wanted: Sequence[str] = ()) -> Iterator[Batch]:
    """The rows of several spans, for Spark; an empty batch first, since it needs one."""
    fetch = fetcher(dsn)
    yield pa.RecordBatch.from_pylist([], schema=arrow_schema(schema))
    for span in spans:
        for table in read_span(fetch, span, schema, wanted):
            yield from table.combine_chunks().to_batches()


def _windows(
    fetch: Fetch, shape: Shape, span: Span, conditions: Sequence[str], needed: Sequence[str], rows: int
) -> Iterator[tuple[int, int]]:
    """Ranges of keys [first, last) that are each small enough for one statement."""
    heavy = [name for name in shape.heavy if name in needed]
    if shape.dense and not heavy:
        for first in range(span.first, span.last, rows):
            yield first, min(first + rows, span.last)
        return
    weight = " + ".join(
        f"size * {_PER_MESSAGE}" if name == "size" else f"COALESCE(LENGTH({shape.columns[name]}), 0)" for name in heavy
    )
    at = span.first
    while at < span.last:
        both = f"{shape.key} AS k, {weight or '0'} AS w"
        looked = fetch(shape.select((), conditions, at, span.last, also=both, limit=rows))
        if not looked.num_rows:
            return
        keys = looked["k"].to_pylist()
        sizes = pc.cumulative_sum(looked["w"].cast(pa.int64())).to_pylist()
        base = 0
        while keys:
            many = max(1, bisect_right(sizes, base + _BYTES))
            end = keys[many - 1] + 1
            if many == len(keys) and looked.num_rows < rows:
                end = span.last  # what has come since is of this span too
            yield at, end
            at, base = end, sizes[many - 1]
            keys, sizes = keys[many:], sizes[many:]
            while keys and keys[0] < at:  # keys that are not unique
                base = sizes[0]
                keys, sizes = keys[1:], sizes[1:]


def _finished(fetch: Fetch, span: Span, page: Table, schema: StructType) -> Table:
    if span.table in ("deliveries", "claims"):
        page = exploded(fetch, span, page)
    owners = span.owners or {}
    columns: list[Array] = []
    for field in schema.fields:
        if field.name in page.column_names:
            columns.append(to_column(page[field.name], field.dataType))
        elif span.owners is not None and field.name in ("topic", "group", "schedule"):
            ids = to_column(page[SHAPES[span.source].owner], _LONG)
            columns.append(looked_up(ids, owners, 0 if field.name == "topic" else 1))
        else:
            columns.append(constant(span.names[field.name], field.dataType, page.num_rows))
    return pa.Table.from_arrays(columns, schema=arrow_schema(schema))

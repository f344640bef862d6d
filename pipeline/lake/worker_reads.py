"""Rows of a lake in an object store, read by Spark's workers through pyarrow: Spark itself needs no jar for it.

A task is a list of pieces, and a piece is a range of bytes of a file: whoever has it reads the row groups that begin
there, one after the other. Files are as large as they like, and small ones share a task. What a job does not want of a
row is not asked for: Spark does not tell a Python source which columns a query uses, so the caller does.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ..arrow import Batch, ds, pa, pc
from ..columns import arrow_schema, constant
from ..schemas import LAKE_DAYS, lake_schema
from ..times import moment
from .file_errors import reading
from .object_store import Access

_PIECE = 64 << 20
"""Bytes of a file, at the most."""
_TASK = 128 << 20
"""Bytes, about."""
_OPENING = 4 << 20
"""What opening a file costs, in bytes that could be read meanwhile; Spark's own reader counts the same."""
_ROWS = 10_000
_BYTES = 8 << 20
"""Of a batch, at the most, about."""
_AHEAD = 4
"""Batches that are made ready while Spark takes one."""
_PARTS = ("topic", "day")
_EMPTY = pa.scalar(b"")

Piece = tuple[str, str, str, int, int]
"""Path below the table's folder, topic, day, and the range of bytes in which its row groups begin."""


def frame(
    spark: SparkSession,
    place: str,
    table: str,
    files: Iterable[Mapping[str, Any]],
    *,
    since: int | None = None,
    until: int | None = None,
    unread: Collection[str] = (),
) -> DataFrame:
    """The rows of these files of a table, as its log tells of them, whose time is in [since, until), Unix milliseconds.

    Columns that are `unread` are null, or empty where they may not be. What goes wrong in a task is a `LakeError`.
    """
    tasks = bundle(files, spark.sparkContext.defaultParallelism)
    reader = _Reader(tasks, partial(read, Access.here(), place, table, since=since, until=until, unread=unread))

    class Files(DataSource):
        @classmethod
        def name(cls) -> str:
            return "tarry_lake"

        def schema(self) -> StructType:
            return lake_schema(table)

        def reader(self, schema: StructType) -> DataSourceReader:
            return reader

    # Made where it is used, so that no key is in an option, which Spark shows around.
    spark.dataSource.register(Files)
    return spark.read.format("tarry_lake").load()


class _Reader(DataSourceReader):
    def __init__(self, tasks: list[list[Piece]], read_piece: Callable[[Piece], Iterator[Batch]]) -> None:
        self._tasks = tasks
        self._read_piece = read_piece

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(task) for task in self._tasks]

    def read(self, partition: InputPartition) -> Iterator[Batch]:
        for piece in partition.value:
            yield from self._read_piece(piece)


def bundle(files: Iterable[Mapping[str, Any]], workers: int) -> list[list[Piece]]:
    """Pieces of these files by task: of about the same size, and enough tasks for so many workers."""
    pieces = [piece for file in files for piece in _pieces(file)]
    pieces.sort(key=_weight, reverse=True)
    most = min(_TASK, max(_OPENING, sum(map(_weight, pieces)) // max(1, workers)))
    tasks: list[list[Piece]] = []
    weight = most
    for piece in pieces:
        if weight + _weight(piece) > most:
            tasks.append([])
            weight = 0
        tasks[-1].append(piece)
        weight += _weight(piece)
    return tasks


def _pieces(file: Mapping[str, Any]) -> Iterator[Piece]:
    size, day = file["size_bytes"], file["partition.day"].isoformat()
    for begin in range(0, max(1, size), _PIECE):
        yield file["path"], file["partition.topic"], day, begin, min(begin + _PIECE, max(1, size))


def _weight(piece: Piece) -> int:
    return piece[4] - piece[3] + _OPENING


def read(
    access: Access,
    place: str,
    table: str,
    piece: Piece,
    *,
    since: int | None = None,
    until: int | None = None,
    unread: Collection[str] = (),
) -> Iterator[Batch]:
    """The rows of a piece with `day`, in batches of some megabytes. Raises `LakeError`."""
    path, topic, day, begin, end = piece
    kinds = {one.name: one.dataType for one in lake_schema(table).fields}
    schema = arrow_schema(lake_schema(table))
    # What the table format has written anew says of texts that they are views: here it hears what they are to be.
    in_file = pa.schema([one for one in schema if one.name not in _PARTS])
    inside = [name for name in in_file.names if name not in unread]
    parted = {"topic": topic, "day": date.fromisoformat(day)}
    opened, root = access.filesystem(place)
    with reading(access, place, path):
        whole = ds.ParquetFileFormat().make_fragment(f"{root}/{path}", filesystem=opened)
        for group in _groups(whole, begin, end):
            rows = whole.subset(row_group_ids=[group]).to_batches(
                schema=in_file,
                columns=inside,
                filter=_within(LAKE_DAYS[table], since, until),
                batch_size=_rows_of(whole.metadata.row_group(group)),
                batch_readahead=_AHEAD,
                use_threads=False,
            )
            for some in rows:
                columns = [
                    constant(parted[name], kinds[name], some.num_rows)
                    if name in parted
                    else some[name]
                    if name in inside
                    else _nothing(schema.field(name), some.num_rows)
                    for name in schema.names
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _groups(file: Any, begin: int, end: int) -> list[int]:
    """The row groups that begin in this range of bytes."""
    known = file.metadata
    return [at for at in range(known.num_row_groups) if begin <= _place_of(known.row_group(at)) < end]


def _place_of(group: Any) -> int:
    first = group.column(0)
    at: int | None = first.dictionary_page_offset
    begin: int = first.data_page_offset
    return begin if at is None else min(at, begin)


def _rows_of(group: Any) -> int:
    """How many rows a batch may have: bodies may be large."""
    rows: int = group.num_rows * _BYTES // max(1, group.total_byte_size)
    return max(1, min(_ROWS, rows))


def _within(name: str, since: int | None, until: int | None) -> Any:
    kind = pa.timestamp("us", "UTC")
    limits = [pc.field(name) >= pa.scalar(moment(since), kind)] if since is not None else []
    limits += [pc.field(name) < pa.scalar(moment(until), kind)] if until is not None else []
    return None if not limits else limits[0] if len(limits) == 1 else limits[0] & limits[1]


def _nothing(field: Any, rows: int) -> Any:
    return pa.nulls(rows, field.type) if field.nullable else pa.repeat(_EMPTY.cast(field.type), rows)

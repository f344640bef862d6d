"""What a task of the archive does: reads its spans, and writes a Parquet file per topic and day.

Files are named at random, and belong to nothing until the driver has committed them. What a task that died left behind
is removed by a vacuum.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from attrs import define, field, frozen

from ..arrow import Array, Schema, Table, pa, pc, pq
from ..columns import arrow_schema
from ..errors import LakeError
from ..pace import Pace
from ..schemas import LAKE_DAYS, TABLES
from ..source.pages import ROWS, read_span
from ..source.reads import fetcher
from ..source.spans import Span
from .object_store import Access

_ROWS = 100_000
_BYTES = 64 << 20
"""Of a row group, about: bounds memory, and is what readers skip by."""
_OPEN = 8
"""Files at once; a task's rows come by time, so that few are needed."""
_STATS = ("integer", "long", "timestamp")


@frozen
class Added:
    """A file that a task has written below the folder of its table, and nobody has committed yet."""

    path: str
    size: int
    rows: int
    topic: str
    day: str
    stats: str
    """JSON, as Delta has it."""


def sync(path: Path) -> None:
    """Written through to the disk; a file that is gone is nobody's loss."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_spans(
    dsn: str, access: Access, place: str, table: str, spans: Sequence[Span], rate: float | None = None
) -> list[Added]:
    """Writes the rows of these spans below `place`, the folder of the table; `rate` is rows a second of this task."""
    return write_tables(access, place, table, _read(dsn, table, spans, Pace(rate)))


def _read(dsn: str, table: str, spans: Sequence[Span], pace: Pace) -> Iterator[Table]:
    fetch = fetcher(dsn)
    for span in spans:
        for page in read_span(fetch, span, TABLES[table], rows=pace.at_a_time(ROWS)):
            yield page
            pace.take(page.num_rows)
    pace.finish()


def write_tables(access: Access, place: str, table: str, pages: Iterable[Table]) -> list[Added]:
    """Writes tables of the schema of `table`. Raises `LakeError`; then nothing of it is left, as far as can be."""
    writer: _Writer | None = None
    try:
        writer = _Writer(access, place, table)
        for page in pages:
            writer.write(page)
        return writer.close()
    except BaseException as error:
        if writer is not None:
            writer.discard()
        if isinstance(error, OSError):
            raise LakeError(f"the lake at {place} cannot be written: {access.meant(error, place)}") from error
        raise


@define
class _File:
    """A file being written."""

    path: str
    topic: str
    day: str
    output: Any
    waiting: list[Table] = field(factory=list[Table])
    rows: int = 0
    least: dict[str, Any] = field(factory=dict[str, Any])
    most: dict[str, Any] = field(factory=dict[str, Any])


class _Writer:
    def __init__(self, access: Access, place: str, table: str) -> None:
        self._table = table
        self._files, self._root = access.filesystem(place)
        self._local = "://" not in place
        self._schema: Schema = pa.schema([f for f in arrow_schema(TABLES[table]) if f.name != "topic"])
        self._ranged = [f.name for f in TABLES[table].fields if f.dataType.typeName() in _STATS]
        self._open: dict[tuple[str, str], _File] = {}
        self._done: list[Added] = []

    def write(self, page: Table) -> None:
        days: Array = page[LAKE_DAYS[self._table]].cast(pa.date32())
        for topic in pc.unique(page["topic"]).to_pylist():
            of_topic: Array = pc.equal(page["topic"], topic)
            for day in pc.unique(days.filter(of_topic)).to_pylist():
                part = page.filter(pc.and_(of_topic, pc.equal(days, pa.scalar(day, pa.date32()))))
                self._append(topic, day.isoformat(), part.select(self._schema.names).cast(self._schema))

    def _append(self, topic: str, day: str, part: Table) -> None:
        file = self._open.pop((topic, day), None)
        if file is None:
            if len(self._open) >= _OPEN:
                self._finish(self._open.pop(next(iter(self._open))))
            file = self._begin(topic, day)
        self._open[topic, day] = file  # the last used stands last
        file.waiting.append(part)
        if sum(one.num_rows for one in file.waiting) >= _ROWS or sum(one.nbytes for one in file.waiting) >= _BYTES:
            self._flush(file)

    def _begin(self, topic: str, day: str) -> _File:
        folder = f"topic={topic}/day={day}"
        path = f"{folder}/part-{uuid4()}.parquet"
        if self._local:
            Path(self._root, folder).mkdir(parents=True, exist_ok=True)
        plain = [f.name for f in self._schema if f.name in ("group", "outcome", "client", "tag", "content_type")]
        output = pq.ParquetWriter(
            f"{self._root}/{path}", self._schema, filesystem=self._files, compression="zstd", use_dictionary=plain
        )
        return _File(path, topic, day, output)

    def _flush(self, file: _File) -> None:
        if not file.waiting:
            return
        table: Table = pa.concat_tables(file.waiting)
        file.waiting = []
        file.output.write_table(table)
        file.rows += table.num_rows
        for name in self._ranged:
            found = pc.min_max(table[name]).as_py()
            if found["min"] is not None:
                file.least[name] = min(file.least.get(name, found["min"]), found["min"])
                file.most[name] = max(file.most.get(name, found["max"]), found["max"])

    def _finish(self, file: _File) -> None:
        self._flush(file)
        file.output.close()
        path = f"{self._root}/{file.path}"
        if self._local:
            sync(Path(path))
            sync(Path(path).parent)
        size = self._files.get_file_info(path).size
        stats = {"numRecords": file.rows, "minValues": _plain(file.least), "maxValues": _plain(file.most)}
        self._done.append(Added(file.path, size, file.rows, file.topic, file.day, json.dumps(stats)))

    def close(self) -> list[Added]:
        while self._open:
            self._finish(self._open.pop(next(iter(self._open))))
        return self._done

    def discard(self) -> None:
        for file in self._open.values():
            with suppress(Exception):
                file.output.close()
        for path in [*(file.path for file in self._open.values()), *(done.path for done in self._done)]:
            with suppress(Exception):
                self._files.delete_file(f"{self._root}/{path}")


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        if isinstance(value, datetime)
        else value
        for name, value in values.items()
    }

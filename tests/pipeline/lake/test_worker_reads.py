"""What a task reads of the files of a lake: each row once, however they are cut, and nothing that was not asked for."""

from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tarry.pipeline.columns import arrow_schema
from tarry.pipeline.errors import LakeError
from tarry.pipeline.lake import worker_reads
from tarry.pipeline.lake.lake_writer import write_tables
from tarry.pipeline.lake.object_store import Access
from tarry.pipeline.lake.worker_reads import Piece
from tarry.pipeline.schemas import TABLES, lake_schema

pa: Any = import_module("pyarrow")
pq: Any = import_module("pyarrow.parquet")

TIME = datetime(2026, 1, 31, 12, tzinfo=UTC)
MILLISECONDS = int(TIME.timestamp() * 1000)


def messages(count: int, body: bytes = b"{}") -> Any:
    """Ten a second."""
    schema = arrow_schema(TABLES["messages"])
    same = {"string": "orders", "integer": 1, "long": 1, "timestamp": TIME, "binary": body}
    columns = {
        field.name: pa.repeat(pa.scalar(same[field.dataType.typeName()], schema.field(field.name).type), count)
        for field in TABLES["messages"].fields
    }
    columns["offset"] = pa.array(range(count), pa.int64())
    columns["streamed_at"] = pa.array([(MILLISECONDS + 100 * at) * 1000 for at in range(count)]).cast(
        schema.field("streamed_at").type
    )
    return pa.table(columns, schema=schema)


def put(folder: Path, *tables: Any) -> dict[str, Any]:
    """A file with these rows, as the table's log tells of it."""
    (added,) = write_tables(Access(), str(folder), "messages", tables)
    day = datetime.fromisoformat(added.day).date()
    return {"path": added.path, "size_bytes": added.size, "partition.topic": added.topic, "partition.day": day}


def read(folder: Path, *pieces: Piece, **what: Any) -> list[Any]:
    return [batch for piece in pieces for batch in worker_reads.read(Access(), str(folder), "messages", piece, **what)]


def offsets(batches: list[Any]) -> list[int]:
    return [offset for batch in batches for offset in batch["offset"].to_pylist()]


def test_a_file_is_read_once_wherever_it_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = put(tmp_path, messages(110_000))
    assert pq.ParquetFile(tmp_path / file["path"]).metadata.num_row_groups == 1
    more = put(tmp_path, *(messages(300_000).slice(at, 100_000) for at in (0, 100_000, 200_000)))
    assert pq.ParquetFile(tmp_path / more["path"]).metadata.num_row_groups == 3
    for size in (64 << 20, more["size_bytes"] // 2, more["size_bytes"] // 7):
        monkeypatch.setattr(worker_reads, "_PIECE", size)
        tasks = worker_reads.bundle([file, more], 2)
        found = offsets(read(tmp_path, *(piece for task in tasks for piece in task)))
        assert sorted(found) == sorted([*range(110_000), *range(300_000)]), size


def test_tasks_are_of_one_size_and_enough_for_the_workers() -> None:
    day = TIME.date()
    sizes = [200 << 20, 70 << 20, *[1 << 20] * 50]
    files = [
        {"path": f"{at}", "size_bytes": size, "partition.topic": "t", "partition.day": day}
        for at, size in enumerate(sizes)
    ]
    tasks = worker_reads.bundle(files, 2)
    pieces = sorted(piece for task in tasks for piece in task)
    assert sum(end - begin for *_, begin, end in pieces) == sum(sizes)
    assert max(sum(end - begin for *_, begin, end in task) for task in tasks) <= 128 << 20
    assert len(tasks) == 6
    assert len(worker_reads.bundle(files[2:], 8)) >= 8
    assert worker_reads.bundle([], 8) == []


def test_bodies_that_are_large_come_in_small_batches(tmp_path: Path) -> None:
    file = put(tmp_path, messages(60, b"x" * (1 << 20)))
    ((piece,),) = worker_reads.bundle([file], 1)
    batches = read(tmp_path, piece)
    assert offsets(batches) == [*range(60)]
    assert max(batch.nbytes for batch in batches) < 16 << 20


def test_only_times_and_columns_that_are_asked_for(tmp_path: Path) -> None:
    ((piece,),) = worker_reads.bundle([put(tmp_path, messages(10))], 1)
    assert offsets(read(tmp_path, piece, since=MILLISECONDS + 300, until=MILLISECONDS + 500)) == [3, 4]
    assert offsets(read(tmp_path, piece, since=MILLISECONDS + 800)) == [8, 9]
    (batch,) = read(tmp_path, piece, unread=("body", "headers"))
    assert set(batch["body"].to_pylist()) == {b""}
    assert set(batch["headers"].to_pylist()) == {None}
    assert batch.schema == arrow_schema(lake_schema("messages"))


def test_columns_that_an_old_file_lacks_are_null(tmp_path: Path) -> None:
    file = put(tmp_path, messages(3))
    path = tmp_path / file["path"]
    old = pq.read_table(path, partitioning=None).drop_columns(["expires_at"])
    pq.write_table(old.set_column(old.schema.get_field_index("key"), "key", old["key"].cast(pa.string_view())), path)
    ((piece,),) = worker_reads.bundle([file | {"size_bytes": path.stat().st_size}], 1)
    (batch,) = read(tmp_path, piece)
    assert batch["expires_at"].to_pylist() == [None] * 3
    assert batch["key"].to_pylist() == ["orders"] * 3
    assert batch.schema == arrow_schema(lake_schema("messages"))


def test_a_file_that_is_missing_or_damaged_is_named(tmp_path: Path) -> None:
    file = put(tmp_path, messages(3))
    ((piece,),) = worker_reads.bundle([file], 1)
    path = tmp_path / file["path"]
    content = path.read_bytes()
    for damaged in (b"not parquet at all", content[: len(content) // 2], content[:4] + b"\0" * (len(content) - 4)):
        path.write_bytes(damaged)
        with pytest.raises(LakeError, match=rf"a Parquet file is damaged: .*{path.name}\. Put it back"):
            read(tmp_path, piece)
    path.unlink()
    with pytest.raises(LakeError, match=rf"a file that the lake lists is missing: .*{path.name}\. Put it back"):
        read(tmp_path, piece)

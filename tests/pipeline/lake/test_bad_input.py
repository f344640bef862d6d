"""What is wrong is told in one sentence, nothing is lost, and the next run goes on."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from support.lakes import archive, archiving, in_lake, in_store
from support.stores import Stage
from support.story import live
from tarry.pipeline.errors import LakeError, PipelineError, StoreAway
from tarry.pipeline.history import open_tables
from tarry.pipeline.schemas import VERSION
from tarry.pipeline.spark_errors import translate

pytestmark = pytest.mark.long


@pytest.fixture
def kind() -> str:
    return "sqlite"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with half a megabyte; needs the right to mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)], check=False)
    if mounted.returncode:
        pytest.skip("a small disk wants the right to mount")
    yield place
    subprocess.run(["umount", str(place)], check=True)


async def test_a_lake_of_a_newer_schema_is_refused(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    await live(stage)
    archive(spark, stage.dsn, tmp_path)
    before = in_lake(spark, tmp_path, "messages")
    DeltaTable(tmp_path / "messages").alter.set_table_properties(
        {"tarry.schema": str(VERSION + 1)}, raise_if_not_exists=False
    )
    for use in (
        lambda: archive(spark, stage.dsn, tmp_path),
        lambda: open_tables(spark, stage.dsn, str(tmp_path)),
    ):
        with pytest.raises(LakeError, match=rf"has schema {VERSION + 1}, and this version of Tarry knows {VERSION}: "):
            use()
    DeltaTable(tmp_path / "messages").alter.set_table_properties(
        {"tarry.schema": str(VERSION)}, raise_if_not_exists=False
    )
    assert in_lake(spark, tmp_path, "messages") == before
    DeltaTable.create(tmp_path / "other" / "messages", DeltaTable(tmp_path / "messages").schema())
    with pytest.raises(LakeError, match="not of Tarry's"):
        open_tables(spark, None, str(tmp_path / "other"))


async def test_a_file_that_is_missing_or_damaged_is_named(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    await live(stage)
    archive(spark, stage.dsn, tmp_path)
    whole = in_lake(spark, tmp_path, "messages")
    file = next((tmp_path / "messages").glob("topic=orders/*/*.parquet"))
    content = file.read_bytes()
    file.unlink()
    with pytest.raises(LakeError, match=f"missing: .*{file.name}"):
        open_tables(spark, stage.dsn, str(tmp_path))
    for damaged in (b"not parquet at all", content[: len(content) // 2], content[:4] + b"\0" * (len(content) - 4)):
        file.write_bytes(damaged)
        with pytest.raises(Exception, match=r".*") as raised:
            open_tables(spark, stage.dsn, str(tmp_path)).messages.collect()
        told = translate(raised.value)
        assert isinstance(told, LakeError)
        assert file.name in str(told)
        assert "\n" not in str(told)
    assert not any(archive(spark, stage.dsn, tmp_path).values())  # it goes by the log, and harms nothing
    file.write_bytes(content)
    assert in_lake(spark, tmp_path, "messages") == whole


async def test_a_disk_that_is_full_or_read_only_stops_it_and_loses_nothing(
    spark: SparkSession, stage: Stage, tmp_path: Path, small_disk: Path
) -> None:
    story = await live(stage)
    archive(spark, stage.dsn, small_disk)
    before = in_lake(spark, small_disk, "messages")
    marks = stage.tables.rows("SELECT * FROM archived WHERE queue_id > 0 ORDER BY 1, 2")
    noise = os.urandom(900_000)
    await stage.publish(*(stage.draft(story.orders, noise[i : i + 90_000]) for i in range(0, 900_000, 90_000)))
    with pytest.raises(Exception, match=r".*") as raised:
        archive(spark, stage.dsn, small_disk)
    assert "No space left on device" in str(translate(raised.value)) or "disk is full" in str(translate(raised.value))
    assert in_lake(spark, small_disk, "messages") == before
    assert stage.tables.rows("SELECT * FROM archived WHERE queue_id > 0 ORDER BY 1, 2") == marks
    remount(small_disk, "ro")
    with pytest.raises(Exception, match=r".*") as raised:
        archive(spark, stage.dsn, small_disk)
    assert isinstance(translate(raised.value), LakeError)
    assert "Read-only file system" in str(translate(raised.value))
    remount(small_disk, "rw,size=20m")
    assert archive(spark, stage.dsn, small_disk)["messages"] == 10
    assert in_lake(spark, small_disk, "messages") == in_store(spark, stage.dsn, "messages")


def remount(place: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(place)], check=True)


async def test_a_store_that_goes_away_in_mid_job_is_gone_on_with(
    spark: SparkSession, stage: Stage, tmp_path: Path
) -> None:
    await live(stage)
    path = Path(stage.dsn.removeprefix("sqlite:///"))
    away = path.with_suffix(".away")

    def go_away(_table: str, _rows: int) -> None:
        if path.exists():
            path.rename(away)

    with (
        archiving(spark, stage.dsn, tmp_path, cap=5, progress=go_away) as archiver,
        pytest.raises(PipelineError, match="there is no store at"),
    ):
        archiver.run()
    away.rename(path)
    archive(spark, stage.dsn, tmp_path)
    for table in ("messages", "deliveries", "dead", "cancelled"):
        assert in_lake(spark, tmp_path, table) == in_store(spark, stage.dsn, table)


def test_what_is_no_store_and_no_lake_is_told(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a store of kind 'postgres' is unknown"):
        open_tables(spark, "postgres://x", None)
    with pytest.raises(PipelineError, match="there is no store at"):
        open_tables(spark, f"sqlite:///{tmp_path}/none.db", None)
    with pytest.raises(StoreAway, match=r"the store mysql://me@127.0.0.1:1/x does not answer"):
        open_tables(spark, "mysql://me:secret@127.0.0.1:1/x", None)
    with pytest.raises(LakeError, match="there is no lake at"):
        open_tables(spark, None, str(tmp_path))
    with pytest.raises(LakeError, match=r"the lake at foo://x/messages cannot be used: Unknown scheme: foo"):
        open_tables(spark, None, "foo://x")
    (tmp_path / "empty.db").touch()
    with pytest.raises(PipelineError, match="holds no Tarry tables"):
        open_tables(spark, f"sqlite:///{tmp_path}/empty.db", None)

"""`tarry pipeline archive` with --compact, --vacuum and --off: what it asks, what it prints, what is left."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.lakes import archive, in_lake
from support.stores import Kind, Stage
from support.story import live
from support.terminal import Terminal
from tarry.pipeline.cli.app import run
from tarry.pipeline.lake.archiver_lease import ArchiverLease
from tarry.pipeline.schemas import IN_LAKE

pytestmark = pytest.mark.long

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def kind() -> Kind:
    return "sqlite"


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], dsn: str) -> Command:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(["archive", "--dsn", dsn, *arguments])
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


async def test_compact_and_vacuum(
    spark: SparkSession, stage: Stage, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    await live(stage)
    archive(spark, stage.dsn, tmp_path, cap=5)
    before = {table: in_lake(spark, tmp_path, table) for table in IN_LAKE}
    lake = ("--lake", str(tmp_path))
    many = len(list((tmp_path / "messages").rglob("*.parquet")))

    code, out, err = command(*lake, "--compact", "--json")
    assert code == 0, err
    told = {row["table"]: row for row in map(json.loads, out.splitlines())}
    assert set(told) == set(IN_LAKE)
    assert told["messages"]["files_before"] == many > told["messages"]["files"]
    assert told["messages"]["removed"] == 0
    assert len(list((tmp_path / "messages").rglob("*.parquet"))) > many, "the small ones are there for readers still"

    code, out, err = command(*lake, "--vacuum", "0")
    assert (code, out) == (2, "")
    assert "say --yes to remove files that a reader of the last 168 hours may be reading" in err
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    code, out, err = command(*lake, "--vacuum", "0")
    assert (code, out) == (2, "")
    assert "nothing was done" in err
    assert command(*lake, "--vacuum", "-1")[0] == 2

    with ArchiverLease(stage.dsn, "another"):
        code, _, err = command(*lake, "--vacuum", "0", "--yes")
        assert code == 75
        assert "another is archiving this store" in err

    orphan = tmp_path / "messages" / "topic=orders" / "orphan.parquet"
    orphan.write_bytes(b"torn")
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    code, out, err = command(*lake, "--vacuum", "0")
    assert code == 0, err
    header, *rows = [line.split("\t") for line in out.splitlines()]
    assert header == ["table", "files_before", "files", "removed"]
    files = told["messages"]["files"]
    assert rows[0] == ["messages", str(files), str(files), str(many + 1)], "those of before, and the orphan"
    assert len(list((tmp_path / "messages").rglob("*.parquet"))) == files

    assert {table: in_lake(spark, tmp_path, table) for table in IN_LAKE} == before
    assert not any(archive(spark, stage.dsn, tmp_path).values())


async def test_off(spark: SparkSession, stage: Stage, tmp_path: Path, command: Command) -> None:
    await live(stage)
    archive(spark, stage.dsn, tmp_path)
    waits = "SELECT COUNT(*) FROM archived WHERE group_id = 0 AND queue_id = 0"
    code, out, err = command("--off")
    assert (code, out, stage.column(waits)) == (2, "", [1])
    assert "say --yes to let retention delete what is not archived" in err
    assert command("--off", "--yes", "--json")[:2] == (0, '{"archiving": "off", "was_on": true}\n')
    assert stage.column(waits) == [0]
    assert command("--off", "--yes")[:2] == (0, "archiving\twas_on\noff\tFalse\n")
    archive(spark, stage.dsn, tmp_path)
    assert stage.column(waits) == [1], "the next run begins it again"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--compact"], "--lake is missing"),
        (["--once", "--watch", "--lake", "x"], "--once or --watch"),
        (["--rows", "0", "--lake", "x"], "--rows"),
        (["--rate", "nan", "--lake", "x"], "--rate"),
        (["--compact", "--watch", "--lake", "x"], "in place of archiving"),
        (["--off", "--vacuum", "200", "--lake", "x"], "in place of archiving"),
    ],
)
def test_usage(command: Command, arguments: list[str], says: str) -> None:
    code, _, err = command(*arguments)
    assert code == 2
    assert says in err


async def test_a_lake_that_is_not_there(stage: Stage, tmp_path: Path, command: Command) -> None:
    await stage.topic()
    code, out, err = command("--lake", str(tmp_path / "lakke"), "--compact")
    assert (code, out) == (1, "")
    assert f"there is no lake at {tmp_path / 'lakke'}" in err

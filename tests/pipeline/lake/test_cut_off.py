"""An archiver whose database goes away while it works: it stops loudly, and the next run goes on."""

import random
from functools import partial
from pathlib import Path

import pytest
import trio
from pyspark.sql import SparkSession

from support import archiver
from support.lakes import FREE, fill, same
from support.line import Line
from support.stores import Kind, Stage

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture
def kind() -> Kind:
    return "mysql"


async def test_the_database_goes_away_in_mid_archive(
    spark: SparkSession, stage: Stage, tmp_path: Path, nursery: trio.Nursery
) -> None:
    await fill(stage)
    lake = tmp_path / "lake"
    moments = random.Random()
    options = ("--lake", str(lake), "--master", "local[2]", "--rows", "1500")
    for _ in range(2):
        line: Line = await nursery.start(Line(stage.dsn).run)
        more = len(archiver.files(lake, "messages")) + moments.randrange(1, 4)
        with archiver.started("archive", "--dsn", line.dsn, *options) as process:
            begun = partial(archiver.more_files, lake, more)
            await trio.to_thread.run_sync(archiver.wait_for, begun, process)
            line.cut()
            _, errors = await trio.to_thread.run_sync(partial(process.communicate, timeout=120))
        assert process.returncode == 75, errors
        assert errors.startswith("tarry pipeline: the store "), errors
        assert "does not answer" in errors
        assert errors.count("\n") == 1, errors
        stage.tables.rows(FREE)  # it could not give its lease back
    done = await trio.to_thread.run_sync(partial(archiver.run, "archive", "--dsn", stage.dsn, *options, "--json"))
    assert done.returncode == 0, done.stderr
    same(spark, stage.dsn, lake)
    again = await trio.to_thread.run_sync(partial(archiver.run, "archive", "--dsn", stage.dsn, *options, "--json"))
    assert (again.returncode, again.stdout) == (0, ""), again.stderr

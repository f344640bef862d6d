"""An archiver whose database goes away while it works: it stops loudly, and the next run goes on."""

import random
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support import archiver
from support.gate import Gate
from support.lakes import FREE, fill, same
from support.stores import Kind, Stage

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture
def kind() -> Kind:
    return "mysql"


async def test_the_database_goes_away_in_mid_archive(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    await fill(stage)
    lake = tmp_path / "lake"
    moments = random.Random()
    options = ("--lake", str(lake), "--master", "local[2]", "--rows", "1500")
    for _ in range(2):
        more = len(archiver.files(lake, "messages")) + moments.randrange(1, 4)
        with (
            closing(Gate.before(stage.dsn)) as gate,
            archiver.started("archive", "--dsn", gate.through(stage.dsn), *options) as process,
        ):
            archiver.wait_for(partial(archiver.more_files, lake, more), process)
            gate.shut()
            _, errors = process.communicate(timeout=120)
        assert process.returncode == 75, errors
        assert errors.startswith("tarry pipeline: the store "), errors
        assert "does not answer" in errors
        assert errors.count("\n") == 1, errors
        stage.tables.rows(FREE)  # it could not give its lease back
    done = archiver.run("archive", "--dsn", stage.dsn, *options, "--json")
    assert done.returncode == 0, done.stderr
    same(spark, stage.dsn, lake)
    again = archiver.run("archive", "--dsn", stage.dsn, *options, "--json")
    assert (again.returncode, again.stdout) == (0, ""), again.stderr

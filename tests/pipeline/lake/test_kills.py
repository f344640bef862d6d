"""Archivers in processes of their own: killed at random moments, ended by a signal, two at once."""

import json
import random
import signal
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support import archiver
from support.stores import Stage
from tarry.pipeline import source
from tarry.pipeline.lake import Lake
from tarry.pipeline.schemas import IN_LAKE, TABLES
from tarry.store.records import Draft

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

MANY = 12_000
FREE = f"UPDATE lease SET lease_until = 0 WHERE name = X'{b'archive'.hex()}'"


async def fill(stage: Stage) -> None:
    topic = await stage.topic("orders", queues=2)
    group = await stage.group(topic)
    for at in range(0, MANY, 1000):
        await stage.publish(*(Draft(topic, topic.queues[i % 2], b"%06d" % i) for i in range(at, at + 1000)))
    for _ in range(20):
        claim = await stage.claim(group, 200)
        await stage.ack(group, claim)


def same(spark: SparkSession, dsn: str, lake: Path) -> None:
    """Every row of the store is in the lake, once."""
    source.register(spark)
    for table in IN_LAKE:
        snapshot = Lake(str(lake)).open(table)
        assert snapshot is not None
        old = snapshot.frame(spark).select(*TABLES[table].names)
        new = spark.read.format("tarry").option("dsn", dsn).option("table", table).load()
        assert old.count() == new.count(), table
        assert old.exceptAll(new).count() == 0, table


async def test_killed_at_random_moments_it_leaves_nothing_torn_missing_or_doubled(
    spark: SparkSession, stage: Stage, tmp_path: Path
) -> None:
    await fill(stage)
    lake = tmp_path / "lake"
    options = ("archive", "--dsn", stage.dsn, "--lake", str(lake), "--master", "local[2]", "--rows", "1500")
    moments = random.Random()
    for _ in range(3):
        before = len(archiver.files(lake, "messages"))
        more = moments.randrange(0, 5)
        with archiver.started(*options) as process:
            archiver.wait_for(partial(more_files, lake, before + more), process)
            archiver.kill(process)
        refused = archiver.run(*options)
        assert refused.returncode == 75, refused.stderr
        assert "is archiving this store" in refused.stderr
        stage.tables.rows(FREE)  # its lease runs out
    ended = archiver.run(*options, "--json")
    assert ended.returncode == 0, ended.stderr
    same(spark, stage.dsn, lake)
    again = archiver.run(*options, "--json")
    assert (again.returncode, again.stdout) == (0, ""), again.stderr


async def test_it_goes_on_until_sigterm_and_adds_nothing_twice(
    spark: SparkSession, stage: Stage, tmp_path: Path
) -> None:
    await fill(stage)
    lake = tmp_path / "lake"
    options = ("archive", "--dsn", stage.dsn, "--lake", str(lake), "--master", "local[2]")
    topic = (await stage.store.topics())[0]
    for kill in (False, True):
        with archiver.started(*options, "--watch", "--every", "1", "--rows", "3000") as process:
            for _ in range(3):
                end = stage.column(f"SELECT next_offset FROM queue WHERE id = {topic.queues[0].id}")[0] + 5
                await stage.publish(*(stage.draft(topic, b"new") for _ in range(5)))
                archiver.wait_for(partial(reached, lake, topic.queues[0].id, end), process)
            if kill:
                archiver.kill(process)
                stage.tables.rows(FREE)
                continue
            process.send_signal(signal.SIGTERM)
            told, errors = process.communicate(timeout=120)
            assert process.returncode == 0, errors
            assert "messages" in told
            assert stage.column("SELECT lease_until FROM lease WHERE epoch > 0") == [0]
    await stage.publish(*(stage.draft(topic, b"last") for _ in range(5)))
    last = archiver.run(*options, "--json")
    assert json.loads(last.stdout) == {"table": "messages", "rows": 5}, last.stderr
    same(spark, stage.dsn, lake)


def more_files(lake: Path, than: int) -> bool:
    return len(archiver.files(lake, "messages")) > than


def reached(lake: Path, queue_id: int, end: int) -> bool:
    snapshot = Lake(str(lake)).open("messages")
    return snapshot is not None and snapshot.position(str(queue_id)) == end

"""Archivers in processes of their own: killed at random moments, ended by a signal, two at once."""

import json
import random
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support import archiver
from support.lakes import FREE, fill, same
from support.stores import Stage
from tarry.pipeline.lake.lake import Lake
from tarry.store import catalogue

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


async def test_killed_at_random_moments_it_leaves_nothing_torn_missing_or_doubled(
    spark: SparkSession, stage: Stage, tmp_path: Path
) -> None:
    await fill(stage)
    lake = tmp_path / "lake"
    options = ("archive", "--dsn", stage.dsn, "--lake", str(lake), "--master", "local[2]", "--rows", "1500")
    moments = random.Random()
    kills = 0
    for _ in range(3):
        goal = len(archiver.files(lake, "messages")) + moments.randrange(0, 5)
        with archiver.started(*options, "--rate", "1500") as process:  # so that it is in the middle for a while
            archiver.wait_for(partial(further, lake, goal, process), process)
            if process.poll() is not None:
                assert process.returncode == 0, process.communicate()
                break  # less was left than it was to be killed after
            archiver.kill(process)
        kills += 1
        refused = archiver.run(*options)
        assert refused.returncode == 75, refused.stderr
        assert "is archiving this store" in refused.stderr
        stage.tables.rows(FREE)  # its lease runs out
    assert kills > 0
    ended = archiver.run(*options, "--json")
    assert ended.returncode == 0, ended.stderr
    same(spark, stage.dsn, lake)
    again = archiver.run(*options, "--json")
    assert (again.returncode, again.stdout) == (0, ""), again.stderr


def further(lake: Path, files: int, process: "subprocess.Popen[str]") -> bool:
    """It has more files of messages, or is done."""
    return archiver.more_files(lake, files) or process.poll() is not None


async def test_it_goes_on_until_sigterm_and_adds_nothing_twice(
    spark: SparkSession, stage: Stage, tmp_path: Path
) -> None:
    await fill(stage)
    lake = tmp_path / "lake"
    options = ("archive", "--dsn", stage.dsn, "--lake", str(lake), "--master", "local[2]")
    topic = (await stage.store.read(catalogue.topics))[0]
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


def reached(lake: Path, queue_id: int, end: int) -> bool:
    snapshot = Lake(str(lake)).open("messages")
    return snapshot is not None and snapshot.position(str(queue_id)) == end

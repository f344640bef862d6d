"""The archive that goes on, beside publishers that never rest."""

import time
from collections.abc import Mapping
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from support.days import Days
from support.lakes import archiving, in_lake, in_store, stream_one
from support.stores import Stage
from tarry.pipeline.lake import watching
from tarry.pipeline.lake.archive import Archiver
from tarry.pipeline.lake.archiver_lease import ArchiverLease
from tarry.pipeline.lake.lake import Lake
from tarry.pipeline.lake.watching import watch
from tarry.pipeline.session import Later

pytestmark = pytest.mark.long


async def test_publishers_that_never_rest_hold_up_no_other_table(
    spark: SparkSession, stage: Stage, tmp_path: Path
) -> None:
    topic = await stage.topic()
    group = await stage.group(topic)
    await stage.publish(*(stage.draft(topic, b"%d" % i) for i in range(8)))
    await stage.ack(group, await stage.claim(group, 4))
    over = Event()
    commits: list[str] = []

    def publish(table: str, _rows: int) -> None:
        commits.append(table)
        if {"deliveries", "cancelled"} <= set(commits) or len(commits) > 20:
            over.set()
        stream_one(stage, topic.queues[0].id)

    with archiving(spark, stage.dsn, tmp_path, progress=publish) as archiver:
        watch(archiver, 1, over)
    assert {"messages", "deliveries", "dead", "cancelled"} <= set(commits)
    assert in_lake(spark, tmp_path, "deliveries") == in_store(spark, stage.dsn, "deliveries")


class Noting(Archiver):
    """Remembers what it was asked for."""

    wanted: list[Mapping[str, int] | None]

    def step(self, table: str, upto: Mapping[str, int] | None = None) -> bool:
        self.wanted.append(upto)
        return super().step(table, upto)


async def test_without_its_checkpoint_the_first_batch_reaches_what_is_new(
    spark: SparkSession, stage: Stage, tmp_path: Path
) -> None:
    """It goes through nothing again that the lake has, a batch of some rows every few seconds."""
    topic = await stage.topic()
    await stage.publish(*(stage.draft(topic, b"%d" % i) for i in range(30)))
    over = Event()
    with ArchiverLease(stage.dsn, "one") as lease:
        archiver = Noting(Later.opened(spark), stage.dsn, Lake(str(tmp_path)), lease, cap=10)
        archiver.wanted = []
        archiver.begin()
        archiver.run()
        archiver.wanted.clear()
        watcher = Thread(target=watch, args=(archiver, 1, over))
        watcher.start()
        try:
            while len(archiver.wanted) < 3:  # two looks before it follows, and one of a batch
                watcher.join(0.1)
                assert watcher.is_alive()
        finally:
            over.set()
            watcher.join()
    assert archiver.wanted[2] == {str(topic.queues[0].id): 30}


async def test_fires_that_come_while_it_watches_are_archived(
    spark: SparkSession, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of before its first look, and those that come after it, each once."""
    monkeypatch.setattr(watching, "_TIMED_EVERY", 0.2)
    stage.now = time.time_ns() // 1_000_000_000 * 1000  # the archiver looks a few hours back, by the store's own clock
    days = await Days.begin(stage)
    await days.live(2)
    over, looked, again = Event(), Event(), Event()

    def note(table: str, _rows: int) -> None:
        if table == "fires":
            (again if looked.is_set() else looked).set()

    with archiving(spark, stage.dsn, tmp_path, progress=note) as archiver:
        watcher = Thread(target=watch, args=(archiver, 1, over))
        watcher.start()
        try:
            assert looked.wait(60), "what was there"
            await days.live(3)
            assert again.wait(60), "what came since"
        finally:
            over.set()
            watcher.join()
    assert len(days.sent) == 5
    table: Any = DeltaTable(tmp_path / "fires").to_pyarrow_table()
    assert sorted(table["message_id"].to_pylist()) == sorted(days.sent)

"""The archive that goes on, beside publishers that never rest."""

import time
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from support.days import Days
from support.lakes import in_lake, in_store
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
    queue = topic.queues[0].id
    over = Event()
    commits: list[str] = []

    def publish(table: str, _rows: int) -> None:
        commits.append(table)
        if {"deliveries", "cancelled"} <= set(commits) or len(commits) > 20:
            over.set()
        (end,) = stage.column(f"SELECT next_offset FROM queue WHERE id = {queue}")
        stage.tables.rows(
            f"INSERT INTO message (queue_id, `offset`, id, nonce, body, accepted_at, deliver_at, streamed_at)"
            f" VALUES ({queue}, {end}, {end + 1}, 0, X'31', 1, 1, 1)"
        )
        stage.tables.rows(f"UPDATE queue SET next_offset = {end + 1} WHERE id = {queue}")

    with ArchiverLease(stage.dsn, "one") as lease:
        archiver = Archiver(Later.opened(spark), stage.dsn, Lake(str(tmp_path)), lease, progress=publish)
        archiver.begin()
        watch(archiver, 1, over)
    assert {"messages", "deliveries", "dead", "cancelled"} <= set(commits)
    assert in_lake(spark, tmp_path, "deliveries") == in_store(spark, stage.dsn, "deliveries")


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

    with ArchiverLease(stage.dsn, "one") as lease:
        archiver = Archiver(Later.opened(spark), stage.dsn, Lake(str(tmp_path)), lease, progress=note)
        archiver.begin()
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

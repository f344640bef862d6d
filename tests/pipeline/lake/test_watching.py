"""The archive that goes on, beside publishers that never rest."""

from collections.abc import Mapping
from pathlib import Path
from threading import Event, Thread

import pytest
from pyspark.sql import SparkSession

from support.lakes import in_lake, in_store
from support.stores import Stage
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

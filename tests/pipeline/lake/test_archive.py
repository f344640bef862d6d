"""What the store has goes to the lake, each row once, and retention waits for it."""

from pathlib import Path
from threading import Thread

import pytest
from pyspark.sql import SparkSession

from support.lakes import archive, archiving, in_lake, in_store, rows, stream_one
from support.stores import HOUR, Stage
from support.story import live
from tarry.pipeline.errors import InUse, LakeError
from tarry.pipeline.history import open_tables
from tarry.pipeline.lake import archive as lake_archive
from tarry.pipeline.lake import lake_writer
from tarry.pipeline.lake.archiver_lease import ArchiverLease, switch_off
from tarry.pipeline.lake.lake import Lake
from tarry.pipeline.lake.object_store import Access
from tarry.pipeline.pace import Pace
from tarry.pipeline.schemas import IN_LAKE, TABLES
from tarry.pipeline.source.facts import read_facts
from tarry.pipeline.source.spans import plan
from tarry.pipeline.store_connection import StoreConnection
from tarry.service.http.names import wrong_name

pytestmark = pytest.mark.long


ARCHIVE = "X'" + b"archive".hex() + "'"


def archived(stage: Stage) -> dict[tuple[int, int], int]:
    return {(g, queue): upto for g, queue, upto in stage.tables.rows("SELECT group_id, queue_id, upto FROM archived")}


async def test_the_lake_holds_what_the_store_holds_and_a_second_run_adds_only_what_is_new(
    spark: SparkSession, stage: Stage, tmp_path: Path
) -> None:
    story = await live(stage)
    first = archive(spark, stage.dsn, tmp_path, cap=15)
    for table in IN_LAKE:
        assert in_lake(spark, tmp_path, table) == in_store(spark, stage.dsn, table), table
        assert first[table] == len(in_store(spark, stage.dsn, table)) > 0
    assert not any(archive(spark, stage.dsn, tmp_path).values())
    await stage.publish(*(stage.draft(story.orders, b"new %d" % i) for i in range(3)))
    claim = await stage.claim(story.billing, 2, client="late")
    await stage.ack(story.billing, claim)
    again = archive(spark, stage.dsn, tmp_path)
    assert again["messages"] == 3
    assert again["deliveries"] == claim.size
    for table in ("messages", "deliveries"):
        assert in_lake(spark, tmp_path, table) == in_store(spark, stage.dsn, table), table


async def test_a_topic_keeps_its_name_whatever_spark_would_make_of_it(
    spark: SparkSession, stage: Stage, tmp_path: Path
) -> None:
    longest = "t" * 249
    assert (wrong_name(longest), bool(wrong_name(longest + "t"))) == (None, True)
    names = ["007", "1.0", "1e3", "2026-01-01", "true", "null", "__HIVE_DEFAULT_PARTITION__", "-", "orders", "Orders"]
    names.append(longest)
    for name in names:
        await stage.publish(stage.draft(await stage.topic(name), name.encode()))
    archive(spark, stage.dsn, tmp_path)
    found = open_tables(spark, None, str(tmp_path)).messages.select("topic", "body").collect()
    assert sorted((row["topic"], bytes(row["body"]).decode()) for row in found) == sorted((n, n) for n in names)
    for name in names:
        assert open_tables(spark, None, str(tmp_path), topics=[name]).messages.count() == 1, name


async def test_history_is_of_lake_and_store_and_counts_each_row_once(
    spark: SparkSession, stage: Stage, tmp_path: Path
) -> None:
    story = await live(stage)
    archive(spark, stage.dsn, tmp_path)
    await stage.publish(stage.draft(story.orders, b"new"))
    whole = {table: in_store(spark, stage.dsn, table) for table in TABLES}
    queue = story.accounts.queues[0].id
    stage.tables.rows(f"DELETE FROM message WHERE queue_id = {queue}")  # as retention does
    stage.tables.rows("DELETE FROM dead")
    tables = open_tables(spark, stage.dsn, str(tmp_path))
    for table in TABLES:
        assert rows(getattr(tables, table)) == whole[table], table
    alone = open_tables(spark, None, str(tmp_path), topics=["accounts"])
    assert alone.messages.count() == 10
    assert alone.messages.schema.names == TABLES["messages"].names
    assert alone.claims.count() == 0
    assert open_tables(spark, stage.dsn, None).dead.count() == 0
    late = open_tables(spark, stage.dsn, str(tmp_path), since=stage.now, until=stage.now + 1)
    assert [bytes(row.body) for row in late.messages.collect()] == [b"new"]


async def test_retention_learns_of_the_lake_and_archiving_is_switched_off_again(
    spark: SparkSession, stage: Stage, tmp_path: Path
) -> None:
    story = await live(stage)
    archive(spark, stage.dsn, tmp_path)
    marks = archived(stage)
    assert marks[0, 0] > 0
    assert marks[0, story.accounts.queues[0].id] == 10
    for group, queue, end in stage.tables.rows(
        "SELECT group_id, queue_id, next_delivery FROM `cursor` WHERE next_delivery > 0"
    ):
        assert marks[group, queue] == end
    stage.tables.rows("DELETE FROM archived WHERE queue_id > 0")  # killed between the commit and telling the store
    archive(spark, stage.dsn, tmp_path)
    again = archived(stage)
    assert {place: upto for place, upto in again.items() if place[1]} == {p: u for p, u in marks.items() if p[1]}
    assert switch_off(stage.dsn)
    assert not switch_off(stage.dsn)
    assert stage.count("archived", "queue_id = 0") == 0


async def test_late_cancels_and_letters_are_found(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    """A transaction of a user's own may commit an hour after the time that its row says."""
    await live(stage)
    with ArchiverLease(stage.dsn, "clock") as lease:
        del lease
        archive_now = stage.tables.rows(f"SELECT lease_until FROM lease WHERE name = {ARCHIVE}")[0][0]
    archive(spark, stage.dsn, tmp_path)
    late = archive_now - HOUR
    topic = stage.column("SELECT MIN(id) FROM topic")[0]
    stage.tables.rows(f"INSERT INTO cancelled VALUES (3, {late << 21 | 3}, 1, {topic}, NULL, {late}, {late}, {late})")
    assert archive(spark, stage.dsn, tmp_path)["cancelled"] == 1
    assert in_lake(spark, tmp_path, "cancelled") == in_store(spark, stage.dsn, "cancelled")


async def test_what_is_behind_a_hole_is_not_archived(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    """Where Redis draws the offsets, a queue's end is the first hole, and a tombstone is no message."""
    topic = await stage.topic()
    await stage.publish(*(stage.draft(topic, b"%d" % i) for i in range(8)))
    stage.tables.rows("DELETE FROM message WHERE `offset` = 5")
    stage.tables.rows("UPDATE queue SET next_offset = 5 WHERE group_id = 0")
    assert archive(spark, stage.dsn, tmp_path)["messages"] == 5
    stage.tables.rows("UPDATE queue SET next_offset = 8 WHERE group_id = 0")
    assert archive(spark, stage.dsn, tmp_path)["messages"] == 2
    stage.tables.rows("UPDATE message SET id = -id WHERE `offset` = 7")
    assert not any(archive(spark, stage.dsn, tmp_path).values())


async def test_a_rate_is_kept(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await stage.topic()
    await stage.publish(*(stage.draft(topic, b"%d" % i) for i in range(100)))
    slept: list[float] = []

    def pace(rate: float | None) -> Pace:
        return Pace(rate, lambda: sum(slept), slept.append)

    monkeypatch.setattr(lake_writer, "Pace", pace)
    with StoreConnection(stage.dsn) as connection:
        spans = plan("messages", read_facts(connection))
    (file,) = lake_writer.write_spans(stage.dsn, Access(), str(tmp_path), "messages", spans, rate=40)
    assert file.rows == 100
    assert slept == pytest.approx([1, 1, 0.5]), "pages of a second each, and no task before this one's time is over"


async def test_at_a_slow_rate_commits_come_all_the_same(
    spark: SparkSession, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await stage.topic()
    await stage.publish(*(stage.draft(topic, b"%d" % i) for i in range(60)))
    monkeypatch.setattr(lake_archive, "_LONGEST", 1)
    commits: list[int] = []
    with archiving(spark, stage.dsn, tmp_path, rate=40) as archiver:
        archiver.progress = lambda _table, rows: commits.append(rows)
        archiver.run()
    assert [rows for rows in commits if rows] == [40, 20]
    assert in_lake(spark, tmp_path, "messages") == in_store(spark, stage.dsn, "messages")


async def test_there_is_one_archiver(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    await live(stage)
    with archiving(spark, stage.dsn, tmp_path) as archiver:
        with pytest.raises(InUse, match="test-archiver is archiving this store"):
            archive(spark, stage.dsn, tmp_path)
        stage.tables.rows(f"UPDATE lease SET lease_until = 1 WHERE name = {ARCHIVE}")
        renewer = Thread(target=archiver.lease.extend)  # as its own thread does
        renewer.start()
        renewer.join()
        archiver.lease.check()
        stage.tables.rows(f"UPDATE lease SET holder = X'32' WHERE name = {ARCHIVE}")  # it slept too long
        with pytest.raises(InUse, match="its place may be another's"):
            archiver.run()
    stage.tables.rows(f"UPDATE lease SET lease_until = 0 WHERE name = {ARCHIVE}")
    assert archive(spark, stage.dsn, tmp_path)["messages"] == stage.count("message")


async def test_two_that_both_think_they_are_the_one_do_not_double_a_row(
    spark: SparkSession, stage: Stage, tmp_path: Path
) -> None:
    await live(stage)
    lake = Lake(str(tmp_path))
    snapshot = lake.ensure("messages")
    archive(spark, stage.dsn, tmp_path)
    before = in_lake(spark, tmp_path, "messages")
    mark = str(stage.column("SELECT MIN(id) FROM queue WHERE group_id = 0")[0])
    assert snapshot.position(mark) is None  # what the slower one had read
    with pytest.raises(LakeError, match="another archiver has written there"):
        lake.commit("messages", [], {mark: None}, {mark: 5})
    assert in_lake(spark, tmp_path, "messages") == before


async def test_another_lake_or_another_store_is_refused(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    await live(stage)
    archive(spark, stage.dsn, tmp_path / "one")
    with pytest.raises(LakeError, match="archived to another lake"):
        archive(spark, stage.dsn, tmp_path / "two")
    assert archive(spark, stage.dsn, tmp_path / "two", new_lake=True)["messages"] == stage.count("message")
    stage.tables.rows("UPDATE queue SET next_offset = 1 WHERE group_id = 0")  # put back from a backup
    with pytest.raises(LakeError, match="the lake is ahead of"):
        archive(spark, stage.dsn, tmp_path / "two")


async def test_a_new_lake_that_fails_changes_nothing(
    spark: SparkSession, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await stage.topic()
    await stage.publish(*(stage.draft(topic, b"%d" % i) for i in range(3)))
    old, new = tmp_path / "old", tmp_path / "new"
    archive(spark, stage.dsn, old)
    before = archived(stage)
    new.mkdir()
    (new / "deliveries").write_bytes(b"no room for a table")
    with pytest.raises(LakeError, match="cannot be used"):
        archive(spark, stage.dsn, new, new_lake=True)
    (new / "deliveries").unlink()

    def full(*_: object) -> None:
        raise LakeError("the disk is full")

    for place, name in ((Lake, "commit"), (ArchiverLease, "adopt")):  # before the first commit, and behind it
        with monkeypatch.context() as broken:
            broken.setattr(place, name, full)
            with pytest.raises(LakeError, match="the disk is full"):
                archive(spark, stage.dsn, new, new_lake=True)
        assert archived(stage) == before, name
    await stage.publish(stage.draft(topic, b"more"))
    assert archive(spark, stage.dsn, old)["messages"] == 1, "the old lake is still the store's"
    assert archive(spark, stage.dsn, new, new_lake=True)["messages"] == 1, "three were there when it was cut off"
    assert in_lake(spark, new, "messages") == in_store(spark, stage.dsn, "messages")
    with pytest.raises(LakeError, match="go back to this one with --new-lake"):
        archive(spark, stage.dsn, old)
    await stage.publish(stage.draft(topic, b"and more"))
    assert archive(spark, stage.dsn, old, new_lake=True)["messages"] == 1, "the way back"
    assert in_lake(spark, old, "messages") == in_store(spark, stage.dsn, "messages")
    assert archived(stage)[0, topic.queues[0].id] == 5


async def test_a_run_ends_though_more_comes_all_the_time(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    topic = await stage.topic()
    await stage.publish(*(stage.draft(topic, b"%d" % i) for i in range(8)))

    def publish(_table: str, _rows: int) -> None:
        stream_one(stage, topic.queues[0].id)

    with archiving(spark, stage.dsn, tmp_path, cap=3, progress=publish) as archiver:
        archiver.run()
    assert archiver.rows["messages"] == 8
    assert archive(spark, stage.dsn, tmp_path)["messages"] > 0
    assert in_lake(spark, tmp_path, "messages") == in_store(spark, stage.dsn, "messages")

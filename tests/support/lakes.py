"""Archives in this process, and compares the rows of lake and store."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from support.stores import Stage
from tarry.pipeline.lake.archive import Archiver
from tarry.pipeline.lake.archiver_lease import ArchiverLease
from tarry.pipeline.lake.lake import Lake
from tarry.pipeline.schemas import IN_LAKE, TABLES
from tarry.pipeline.session import Later
from tarry.pipeline.source import source
from tarry.store.records import Draft

MANY = 12_000
FREE = f"UPDATE lease SET lease_until = 0 WHERE name = X'{b'archive'.hex()}'"
"""SQL that frees the lease of an archiver that is gone."""
_TIES = re.compile(r"(^|_)p\d+$|^(latest|oldest|last)_id$")


@contextmanager
def archiving(
    spark: SparkSession | None, dsn: str, lake: Path | str, *, new_lake: bool = False, **how: Any
) -> Iterator[Archiver]:
    """An archiver that has begun; without Spark it writes in this process, as it does few rows."""
    with ArchiverLease(dsn, "test-archiver") as lease:
        archiver = Archiver(Later("") if spark is None else Later.opened(spark), dsn, Lake(str(lake)), lease, **how)
        archiver.begin(new_lake=new_lake)
        yield archiver


def archive(spark: SparkSession, dsn: str, lake: Path | str, **how: Any) -> dict[str, int]:
    """Runs the archiver once, on Spark; returns how many rows it archived, by table."""
    with archiving(spark, dsn, lake, **how) as archiver:
        archiver.run()
        return archiver.rows


def archive_here(dsn: str, lake: Path | str, *, new_lake: bool = False) -> Archiver:
    """Runs the archiver once, without Spark; it has what it archived and what it erased."""
    with archiving(None, dsn, lake, new_lake=new_lake) as archiver:
        archiver.run()
        return archiver


def in_store(spark: SparkSession, dsn: str, table: str) -> list[Any]:
    source.register(spark)
    return rows(spark.read.format("tarry").option("dsn", dsn).option("table", table).load())


def in_lake(spark: SparkSession, lake: Path | str, table: str) -> list[Any]:
    snapshot = Lake(str(lake)).open(table)
    assert snapshot is not None
    return rows(snapshot.frame(spark).select(*TABLES[table].names))


def rows(frame: DataFrame) -> list[Any]:
    return sorted(frame.collect(), key=repr)


def stream_one(stage: Stage, queue_id: int) -> None:
    """Publishes a message with plain SQL, from whichever thread."""
    (end,) = stage.column(f"SELECT next_offset FROM queue WHERE id = {queue_id}")
    stage.tables.rows(
        f"INSERT INTO message (queue_id, `offset`, id, nonce, body, accepted_at, deliver_at, streamed_at)"
        f" VALUES ({queue_id}, {end}, {end + 1}, 0, X'31', 1, 1, 1)"
    )
    stage.tables.rows(f"UPDATE queue SET next_offset = {end + 1} WHERE id = {queue_id}")


async def fill(stage: Stage) -> None:
    """Fills the store with enough rows to keep an archiver busy for a while."""
    topic = await stage.topic("orders", queues=2)
    group = await stage.group(topic)
    for at in range(0, MANY, 1000):
        await stage.publish(
            *(Draft(topic=topic, queue=topic.queues[i % 2], body=b"%06d" % i) for i in range(at, at + 1000))
        )
    for _ in range(20):
        claim = await stage.claim(group, 200)
        await stage.ack(group, claim)


def same(spark: SparkSession, dsn: str, lake: Path) -> None:
    """Checks that every row of the store is in the lake exactly once."""
    source.register(spark)
    for table in IN_LAKE:
        snapshot = Lake(str(lake)).open(table)
        assert snapshot is not None
        old = snapshot.frame(spark).select(*TABLES[table].names)
        new = spark.read.format("tarry").option("dsn", dsn).option("table", table).load()
        assert old.count() == new.count(), table
        assert old.exceptAll(new).count() == 0, table


def without_ties(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of a report without what depends on the order of rows: percentiles, which are approximate, and which of
    equals is first."""
    return [{key: row[key] for key in row if not _TIES.search(key)} for row in rows]

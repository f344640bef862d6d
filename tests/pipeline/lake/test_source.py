"""The source holds what the store's own tables hold."""

import json
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit

from support.bare_tables import open_book, read_book
from support.days import Days
from support.literal_tables import rows_of
from support.stores import Stage
from support.story import live
from tarry.pipeline.schemas import TABLES
from tarry.pipeline.source import source


def read(spark: SparkSession, dsn: str, table: str, **options: str) -> DataFrame:
    source.register(spark)
    return spark.read.format("tarry").option("dsn", dsn).option("table", table).options(**options).load()


def told(frame: DataFrame, *columns: str) -> list[str]:
    return sorted(map(repr, rows_of(frame.select(*columns or frame.columns))))


def offsets(frame: DataFrame) -> list[int]:
    return sorted(row.offset for row in frame.select("offset").collect())


async def test_every_table_has_its_schema_and_the_rows_of_the_store(spark: SparkSession, stage: Stage) -> None:
    await live(stage)
    await (await Days.begin(stage, topic_name="beats")).live(1)
    kept = open_book(spark, read_book(stage.tables.rows))
    for table, schema in TABLES.items():
        frame = read(spark, stage.dsn, table)
        assert frame.schema.names == schema.names
        rows = told(frame)
        assert rows, table
        assert rows == told(getattr(kept, table)), table
    parked = read(spark, stage.dsn, "retries").where("parked")
    assert parked.count() == stage.count("parked") > 0


async def test_columns_topics_marks_and_filters_are_the_stores_work(spark: SparkSession, stage: Stage) -> None:
    story = await live(stage)
    whole = read(spark, stage.dsn, "messages")
    some = read(spark, stage.dsn, "messages", columns="offset, topic")
    assert some.columns == ["offset", "topic"]
    assert told(some, "offset", "topic") == told(whole, "offset", "topic")
    assert whole.where("topic IN ('accounts')").count() == stage.count(
        "message", f"queue_id = {story.accounts.queues[0].id}"
    )
    assert whole.where("topic = 'nothing'").count() == 0
    first = story.orders.queues[0].id
    after = json.dumps({str(first): 15})
    got = read(spark, stage.dsn, "messages", after=after).where(col("queue_id") == first)
    assert offsets(got) == [*range(15, 20)]
    got = read(spark, stage.dsn, "messages", upto=json.dumps({str(first): 3}))
    assert offsets(got) == [0, 1, 2]
    at = datetime.fromtimestamp(stage.now / 1000 - 2, UTC)
    assert whole.where(col("streamed_at") >= lit(at)).count() == stage.count(
        "message", f"streamed_at >= {stage.now - 2000}"
    )
    assert whole.where("key = 'k-7'").count() == 1


async def test_a_tombstone_is_no_message_and_what_lies_behind_the_end_is_not_read(
    spark: SparkSession, stage: Stage
) -> None:
    story = await live(stage)
    queue_id = story.accounts.queues[0].id
    before = read(spark, stage.dsn, "messages").count()
    stage.tables.rows(f"UPDATE message SET id = -1 - id WHERE queue_id = {queue_id} AND `offset` = 4")
    stage.tables.rows(f"UPDATE queue SET next_offset = 8 WHERE id = {queue_id}")  # as where Redis draws the offsets
    assert read(spark, stage.dsn, "messages").count() == before - 3


async def test_a_stream_has_each_row_once_and_so_many_in_a_batch(
    spark: SparkSession, stage: Stage, tmp_path: Path
) -> None:
    topic = await stage.topic()
    await stage.publish(*(stage.draft(topic, b"%d" % number) for number in range(7)))
    source.register(spark)
    stream = spark.readStream.format("tarry").option("dsn", stage.dsn).option("table", "messages").option("rows", "3")
    batches: list[list[int]] = []

    def take(batch: DataFrame, _number: int) -> None:
        batches.append([row.offset for row in batch.select("offset").collect()])

    writer = stream.load().writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path))
    query = writer.start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert sorted(offset for batch in batches for offset in batch) == list(range(7))
    assert max(map(len, batches)) <= 3


async def test_large_bodies_are_read_in_small_pages(spark: SparkSession, stage: Stage) -> None:
    topic = await stage.topic("big")
    for _ in range(3):
        await stage.publish(*(stage.draft(topic, bytes([i]) * 3_000_000) for i in range(5)))
    rows = read(spark, stage.dsn, "messages").selectExpr(
        "offset", "length(body) AS size", "hex(substr(body, 1, 1)) AS b"
    )
    assert sorted(map(tuple, rows.collect())) == [(i, 3_000_000, f"0{i % 5}") for i in range(15)]

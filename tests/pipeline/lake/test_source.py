"""The source holds what the store's own tables hold."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit

from support.days import Days
from support.stores import Stage
from support.story import live
from tarry.pipeline.schemas import OUTCOMES, TABLES
from tarry.pipeline.source import source


def read(spark: SparkSession, dsn: str, table: str, **options: str) -> DataFrame:
    source.register(spark)
    return spark.read.format("tarry").option("dsn", dsn).option("table", table).options(**options).load()


def milliseconds(at: datetime | None) -> int | None:
    if at is None:
        return None
    return round(at.astimezone(UTC).timestamp() * 1000)


def plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return milliseconds(value)
    if isinstance(value, bytearray):
        return bytes(value)
    return value


def told(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(map(plain, row)) for row in frame.select(*columns).collect()), key=repr)


def kept(stage: Stage, sql: str, texts: int = 0) -> list[tuple[Any, ...]]:
    """The rows of the store; the first columns are text."""
    rows = [
        tuple(v.decode() if i < texts and isinstance(v, bytes) else v for i, v in enumerate(row))
        for row in stage.tables.rows(sql)
    ]
    return sorted(rows, key=repr)


async def test_every_table_has_its_schema_and_the_rows_of_the_store(spark: SparkSession, stage: Stage) -> None:
    await live(stage)
    content = ("key", "ordering_key", "tag", "headers", "content_type")
    listed = ", ".join(f"m.`{name}`" for name in content)
    assert told(
        read(spark, stage.dsn, "messages"),
        "topic",
        *content,
        "queue_id",
        "queue",
        "offset",
        "id",
        "body",
        "accepted_at",
        "deliver_at",
        "streamed_at",
    ) == kept(
        stage,
        f"SELECT t.name, {listed}, q.id, q.number, m.`offset`, m.id, m.body, m.accepted_at, m.deliver_at,"
        " m.streamed_at FROM message m JOIN queue q ON q.id = m.queue_id JOIN topic t ON t.id = q.topic_id",
        6,
    )
    assert told(
        read(spark, stage.dsn, "timers"), "topic", *content, "id", "due", "body", "queue_id", "topic_id"
    ) == kept(
        stage,
        f"SELECT t.name, {listed}, m.id, m.due, m.body, m.queue_id, t.id FROM delay m"
        " JOIN topic t ON t.id = m.topic_id",
        6,
    )
    assert told(
        read(spark, stage.dsn, "dead"), "topic", "group", "history", *content, "id", "body", "dead_at", "offset"
    ) == kept(
        stage,
        f"SELECT t.name, g.name, m.history, {listed}, m.id, m.body, m.dead_at, m.`offset` FROM dead m"
        " JOIN consumer_group g ON g.id = m.group_id JOIN topic t ON t.id = g.topic_id",
        8,
    )
    assert told(read(spark, stage.dsn, "cancelled"), "topic", "key", "id", "cancelled_at") == kept(
        stage, "SELECT t.name, c.`key`, c.id, c.cancelled_at FROM cancelled c JOIN topic t ON t.id = c.topic_id", 2
    )
    assert told(
        read(spark, stage.dsn, "returns"), "topic", "group", "history", "queue_id", "offset", "message_id", "attempt"
    ) == kept(
        stage,
        "SELECT t.name, g.name, r.history, q.id, r.`offset`, r.message_id, r.attempt FROM redelivery r JOIN queue q"
        " ON q.id = r.queue_id JOIN topic t ON t.id = q.topic_id JOIN consumer_group g ON g.id = q.group_id",
        3,
    )
    assert told(read(spark, stage.dsn, "retries"), "topic", "group", "history", "message_id", "attempt", "due") == kept(
        stage,
        "SELECT t.name, g.name, r.history, r.message_id, r.attempt, r.due FROM (SELECT group_id, history, message_id,"
        " attempt, id >> 21 AS due FROM retry UNION ALL SELECT group_id, history, message_id, attempt, parked_at"
        " FROM parked) r JOIN consumer_group g ON g.id = r.group_id JOIN topic t ON t.id = g.topic_id",
        3,
    )
    parked = read(spark, stage.dsn, "retries").where("parked")
    assert parked.count() == stage.count("parked") > 0
    assert told(read(spark, stage.dsn, "queues"), "topic", "queue_id", "next_offset", "holes") == kept(
        stage, "SELECT t.name, q.id, q.next_offset, q.holes FROM queue q JOIN topic t ON t.id = q.topic_id", 1
    )
    assert told(read(spark, stage.dsn, "cursors"), "group", "queue_id", "position", "acked", "cleared") == kept(
        stage,
        "SELECT g.name, c.queue_id, c.position, c.acked, c.cleared FROM `cursor` c"
        " JOIN consumer_group g ON g.id = c.group_id",
        1,
    )
    await (await Days.begin(stage, topic_name="beats")).live(1)
    for table, schema in TABLES.items():
        frame = read(spark, stage.dsn, table)
        assert frame.schema.names == schema.names
        assert frame.count() > 0, table


@pytest.mark.parametrize(("table", "of"), [("deliveries", "delivery"), ("claims", "claim")])
async def test_a_claim_is_a_row_per_message(spark: SparkSession, stage: Stage, table: str, of: str) -> None:
    await live(stage)
    returns = {
        (queue_id, offset): rest
        for queue_id, offset, *rest in stage.tables.rows(
            "SELECT queue_id, `offset`, message_queue_id, message_offset, attempt, history FROM redelivery"
        )
    }
    back = set(stage.column("SELECT id FROM queue WHERE group_id > 0"))
    expected: list[tuple[Any, ...]] = []
    for group_id, queue_id, number, client, first, size, outcomes, settled, claimed_at in stage.tables.rows(
        f"SELECT group_id, queue_id, number, client, `first`, size, outcome, settled_at, claimed_at FROM `{of}`"
    ):
        for place in range(size):
            offset = first + place
            lies = (queue_id, offset, 1, None)
            if queue_id in back:
                queue, source, attempt, history = returns[queue_id, offset]
                lies = (queue, source, attempt, history.decode())
            word = OUTCOMES[outcomes[place]]
            at = int.from_bytes(settled[8 * place : 8 * place + 8], "big") if word != "open" else 0
            expected.append((group_id, queue_id, number, client.decode(), offset, *lies, word, claimed_at, at or None))
    assert expected
    got = told(
        read(spark, stage.dsn, table),
        "group_id",
        "queue_id",
        "number",
        "client",
        "offset",
        "message_queue_id",
        "message_offset",
        "attempt",
        "history",
        "outcome",
        "claimed_at",
        "settled_at",
    )
    assert got == sorted(expected, key=repr)


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
    assert told(got, "offset") == sorted(((i,) for i in range(15, 20)), key=repr)
    got = read(spark, stage.dsn, "messages", upto=json.dumps({str(first): 3}))
    assert told(got, "offset") == [(0,), (1,), (2,)]
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
    assert told(rows, "offset", "size", "b") == sorted(((i, 3_000_000, f"0{i % 5}") for i in range(15)), key=repr)

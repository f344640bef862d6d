"""Audits of a real store and its lake together."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.lakes import archive_here
from support.stores import Stage
from support.story import live
from tarry.pipeline.audit.evidence import Scope
from tarry.pipeline.audit.job import examine

pytestmark = pytest.mark.long


async def test_what_the_store_lost_is_missed_though_the_lake_has_it(
    spark: SparkSession, stage: Stage, tmp_path: Path
) -> None:
    topic = await stage.topic()
    group = await stage.group(topic)
    await stage.publish(*(stage.draft(topic, b"%d" % i) for i in range(8)))
    await stage.ack(group, await stage.claim(group, 2))
    archive_here(stage.dsn, tmp_path)
    await stage.publish(stage.draft(topic, b"new"))
    scope = Scope(datetime(2100, 1, 1, tzinfo=UTC), archived=True)
    assert examine(spark, stage.dsn, str(tmp_path), scope, None, 9)["findings"] == {}
    stage.tables.rows("DELETE FROM message WHERE `offset` IN (1, 5)")
    found = examine(spark, stage.dsn, str(tmp_path), scope, None, 9)["findings"]
    assert {kind: [row["offset"] for row in told["listed"]] for kind, told in found.items()} == {"not_in_store": [1, 5]}


async def test_what_the_store_lost_or_changed_of_the_log_is_missed_though_the_lake_has_it(
    spark: SparkSession, stage: Stage, tmp_path: Path
) -> None:
    story = await live(stage)
    archive_here(stage.dsn, tmp_path)
    scope = Scope(datetime(2100, 1, 1, tzinfo=UTC), archived=True)
    sql, billing = stage.tables.rows, story.billing.id
    assert examine(spark, stage.dsn, str(tmp_path), scope, None, 9)["findings"] == {}
    (letter,) = stage.column(f"SELECT MIN(id) FROM dead WHERE group_id = {billing}")
    sql(f"DELETE FROM dead WHERE group_id = {billing} AND id = {letter}")
    sql(f"DELETE FROM cancelled WHERE id = {story.cancelled[0]}")
    entry = f"group_id = {billing} AND number = 0 AND queue_id = {story.orders.queues[0].id}"
    ((first, size),) = sql(f"SELECT `first`, size FROM delivery WHERE {entry}")
    sql(f"UPDATE delivery SET client = X'6162' WHERE {entry}")
    inside = f"queue_id = {story.orders.queues[0].id} AND `offset` BETWEEN {first} AND {first + size - 1}"
    claimed = stage.column(f"SELECT id FROM message WHERE {inside}")
    found = examine(spark, stage.dsn, str(tmp_path), scope, None, 9)["findings"]
    told = {kind: sorted(int(row["id"] or 0) for row in one["listed"]) for kind, one in found.items()}
    assert told == {
        "letter_rows": [0],
        "not_in_store": sorted([letter, story.cancelled[0]]),
        "copy_differs": sorted(claimed),
    }
    assert [row["group"] for row in found["letter_rows"]["listed"]] == ["billing"]

"""Audits of a real store and its lake together."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.lakes import archive
from support.spark_settings import small
from support.stores import Stage
from support.story import live
from tarry.pipeline.audit.examining import examine
from tarry.pipeline.audit.sight import Scope

pytestmark = pytest.mark.long


async def test_what_the_store_lost_is_missed_though_the_lake_has_it(
    spark: SparkSession, stage: Stage, tmp_path: Path
) -> None:
    topic = await stage.topic()
    group = await stage.group(topic)
    await stage.publish(*(stage.draft(topic, b"%d" % i) for i in range(8)))
    await stage.ack(group, await stage.claim(group, 2))
    archive(spark, stage.dsn, tmp_path)
    await stage.publish(stage.draft(topic, b"new"))
    scope = Scope(datetime(2100, 1, 1, tzinfo=UTC), archived=True)
    with small(spark):
        assert examine(spark, stage.dsn, str(tmp_path), scope, None, 9)["findings"] == {}
        stage.tables.rows("DELETE FROM message WHERE `offset` IN (1, 5)")
        found = examine(spark, stage.dsn, str(tmp_path), scope, None, 9)["findings"]
    assert {kind: [row["offset"] for row in told["listed"]] for kind, told in found.items()} == {"not_in_store": [1, 5]}


async def test_a_letter_that_the_store_lost_is_missed_though_the_lake_has_it(
    spark: SparkSession, stage: Stage, tmp_path: Path
) -> None:
    story = await live(stage)
    archive(spark, stage.dsn, tmp_path)
    scope = Scope(datetime(2100, 1, 1, tzinfo=UTC), archived=True)
    with small(spark):
        assert examine(spark, stage.dsn, str(tmp_path), scope, None, 9)["findings"] == {}
        (letter,) = stage.tables.rows(f"SELECT MIN(id) FROM dead WHERE group_id = {story.billing.id}")
        stage.tables.rows(f"DELETE FROM dead WHERE group_id = {story.billing.id} AND id = {letter[0]}")
        found = examine(spark, stage.dsn, str(tmp_path), scope, None, 9)["findings"]
    assert [row["group"] for row in found["letter_rows"]["listed"]] == ["billing"]

"""An audit of a real store and its lake together."""

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


async def test_what_the_store_lost_or_changed_is_missed_though_the_lake_has_it(
    spark: SparkSession, stage: Stage, tmp_path: Path
) -> None:
    story = await live(stage)
    archive_here(stage.dsn, tmp_path)
    await stage.publish(stage.draft(story.orders, b"new"))
    scope = Scope(datetime(2100, 1, 1, tzinfo=UTC), archived=True)
    sql, billing, (first_queue, other) = stage.tables.rows, story.billing.id, story.orders.queues
    assert examine(spark, stage.dsn, str(tmp_path), scope, None, 9)["findings"] == {}
    lost = f"queue_id = {other.id} AND `offset` IN (1, 15)"  # one that was claimed, and one that was not
    messages = stage.column(f"SELECT id FROM message WHERE {lost}")
    sql(f"DELETE FROM message WHERE {lost}")
    (letter,) = stage.column(f"SELECT MIN(id) FROM dead WHERE group_id = {billing}")
    sql(f"DELETE FROM dead WHERE group_id = {billing} AND id = {letter}")
    sql(f"DELETE FROM cancelled WHERE id = {story.cancelled[0]}")
    entry = f"group_id = {billing} AND number = 0 AND queue_id = {first_queue.id}"
    ((first, size),) = sql(f"SELECT `first`, size FROM delivery WHERE {entry}")
    sql(f"UPDATE delivery SET client = X'6162' WHERE {entry}")
    inside = f"queue_id = {first_queue.id} AND `offset` BETWEEN {first} AND {first + size - 1}"
    claimed = stage.column(f"SELECT id FROM message WHERE {inside}")
    found = examine(spark, stage.dsn, str(tmp_path), scope, None, 9)["findings"]
    told = {kind: sorted(int(row["id"] or 0) for row in one["listed"]) for kind, one in found.items()}
    assert told == {
        "letter_rows": [0],
        "not_in_store": sorted([letter, story.cancelled[0], *messages]),
        "copy_differs": sorted(claimed),
    }
    assert [row["group"] for row in found["letter_rows"]["listed"]] == ["billing"]

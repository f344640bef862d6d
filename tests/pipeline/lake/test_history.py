"""Lake and store together while the service goes on, and after a retention that went round what was held."""

from functools import partial
from pathlib import Path

import pytest
import trio
from pyspark.sql import SparkSession

from support.lakes import archive_here
from support.stores import HOUR, Stage
from tarry.pipeline import history
from tarry.pipeline.history import open_live, open_tables
from tarry.pipeline.schemas import Tables
from tarry.pipeline.sending.replaying import forecast, selected, standing
from tarry.pipeline.source import facts
from tarry.store.cleaning import retention
from tarry.store.cleaning.retention import Limits

pytestmark = pytest.mark.long


def handed(tables: Tables) -> list[tuple[int, str]]:
    rows = tables.deliveries.unionByName(tables.claims).select("offset", "outcome").collect()
    return sorted((row.offset, row.outcome) for row in rows)


async def test_a_claim_that_ends_meanwhile_is_seen_once(
    spark: SparkSession, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await stage.topic()
    group = await stage.group(topic)
    await stage.publish(*(stage.draft(topic, b"%d" % i) for i in range(4)))
    one, two, three = [await stage.claim(group, 1) for _ in range(3)]
    await stage.ack(group, one)
    looks = 0

    def end_one_first(dsn: str) -> facts.Facts:
        nonlocal looks
        looks += 1
        if looks == 2:  # the open claims have been read, and the end of the log has not
            trio.from_thread.run(stage.ack, group, two)
        return facts.facts_of(dsn)

    monkeypatch.setattr(history, "facts_of", end_one_first)
    tables = await trio.to_thread.run_sync(partial(open_tables, spark, stage.dsn, None))
    await stage.ack(group, three)
    await stage.claim(group, 1)
    assert handed(tables) == [(0, "acked"), (1, "acked"), (2, "open")]
    assert looks == 2


async def test_what_retention_took_above_the_floor_is_gone(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    topic = await stage.topic()
    group = await stage.group(topic)
    await stage.publish(*(stage.draft(topic, b"%d" % i) for i in range(8)))
    claim = await stage.claim(group, 8)
    await stage.fail(group, claim, (2,))
    await stage.ack(group, claim, (0, 1, 3, 4, 5, 6, 7))
    archive_here(stage.dsn, tmp_path)
    stage.now += HOUR
    limits = Limits(retention=0, hard=1000 * HOUR, history=1000 * HOUR, dead=1000 * HOUR)
    clean = partial(
        retention.clean_messages, topic=topic, queue=topic.queues[0], limits=limits, now=stage.now, start=0, limit=100
    )
    assert (await stage.store.write(clean)).rows == 7
    assert stage.column("SELECT floor FROM cleaned") == [2]
    tables = open_tables(spark, stage.dsn, str(tmp_path))
    chosen = standing(selected(tables, "true"), open_live(spark, stage.dsn, "messages", "queue_id", "offset"))
    told = forecast(chosen, None)
    assert (told.count, told.gone) == (8, 7)
    assert [row.offset for row in chosen.where("NOT gone").collect()] == [2]

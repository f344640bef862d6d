"""Lake and store together while the service goes on."""

from functools import partial

import pytest
import trio
from pyspark.sql import SparkSession

from support.stores import Stage
from tarry.pipeline import history
from tarry.pipeline.history import open_tables
from tarry.pipeline.schemas import Tables
from tarry.pipeline.source import facts

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

"""The report of a store that stands still: the longer, the worse it looks."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from support.stores import Stage
from tarry.pipeline.cli.app import run
from tarry.pipeline.store_connection import StoreConnection
from tarry.store.records import Draft

pytestmark = pytest.mark.long

_HOUR = 3_600_000


async def test_a_report_ends_now(
    spark: SparkSession, stage: Stage, dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Messages that nobody took, one that is overdue, and a topic without a group; since then nothing happened."""
    topic, unread = await stage.topic("orders"), await stage.topic("unread")
    group = await stage.group(topic)
    await stage.publish(*(Draft(topic=topic, queue=topic.queues[0], body=b"%d" % n) for n in range(20)))
    await stage.publish(Draft(topic=unread, queue=unread.queues[0], body=b"x"))
    claim = await stage.claim(group, 10)
    await stage.ack(group, claim)
    with StoreConnection(dsn) as connection:
        (began,) = connection.rows("SELECT MIN(streamed_at) FROM message")[0]
        before = connection.now()
    made = tmp_path / "made"
    assert run(["report", "--dsn", dsn, "--output", str(made)]) == 0
    with StoreConnection(dsn) as connection:
        after = connection.now()
    assert before - began > _HOUR, "the stage lives in another year"

    def rows(name: str) -> list[dict[str, Any]]:
        told: dict[str, Any] = json.loads((made / f"figures/{name}.json").read_text("utf-8"))
        return list(told["rows"])

    (group_row,) = rows("slow_groups")
    assert group_row["waiting"] == 10
    assert before - began <= group_row["oldest"] + 1000 <= after - began + 2000
    (late,) = rows("punctuality")
    assert (late["waiting"], late["behind"]) == (10, 1)
    assert late["p99"] > _HOUR
    assert rows("backlog")[-1]["backlog"] == 10
    page = (made / "index.html").read_text("utf-8")
    assert "orders / " in page
    assert "is behind: 10 messages waiting at the end of the window" in page
    assert "Nobody reads unread: 1 message, and no group." in page
    capsys.readouterr()

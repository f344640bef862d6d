"""Traces of a real store, of its lake, and of both, as people call them: without Spark, and told alike."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from support.lakes import archive_here
from support.literal_tables import rows_of
from support.stores import Stage
from support.story import live
from support.timeline_rows import rows_by_table
from tarry.pipeline import session
from tarry.pipeline.cli.app import run
from tarry.pipeline.errors import NotFound
from tarry.pipeline.history import open_tables
from tarry.pipeline.lake import local_reads
from tarry.pipeline.lake.lake import Lake
from tarry.pipeline.schemas import TABLES
from tarry.pipeline.trace.timeline import Event, Rows, timeline
from tarry.pipeline.trace.tracing import trace


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace that starts Spark fails here."""
    monkeypatch.setattr(session, "open_session", None)
    monkeypatch.delenv("TARRY_DSN", raising=False)


def _by_spark(spark: SparkSession, dsn: str | None, lake: str | None) -> list[Event]:
    """The same from whole tables, every row of them, as the other jobs read them."""
    tables = open_tables(spark, dsn, lake)
    return timeline(
        rows_by_table({name: rows_of(getattr(tables, name)) for name in Rows.__annotations__ if name in TABLES})
    )


def _some(events: Iterable[Event], *ids: int) -> list[Event]:
    return [event for event in events if event.id in ids]


@pytest.mark.long
async def test_the_trace_of_each_message_is_what_the_whole_tables_tell(
    spark: SparkSession, stage: Stage, tmp_path: Path
) -> None:
    await live(stage)
    lake = str(tmp_path / "lake")
    archive_here(stage.dsn, lake)
    await stage.publish(stage.draft(await stage.topic("later"), b"x", key="k-1"))
    for dsn, place in ((stage.dsn, None), (None, lake), (stage.dsn, lake)):
        whole = _by_spark(spark, dsn, place)
        ids = sorted({event.id for event in whole})
        assert len(ids) > 30
        assert trace(dsn, place, ids=ids, most=1000).events == whole
        for one in (ids[0], ids[-1], ids[len(ids) // 2]):
            assert trace(dsn, place, ids=[one], most=1).events == _some(whole, one)
        for key in ("k-0", "k-1", "k-3", "k-14"):
            of_key = {event.id for event in whole if event.key == key}
            assert trace(dsn, place, key=key, most=1000).events == _some(whole, *of_key), key


async def test_of_a_message_that_retention_took_the_lake_tells(stage: Stage, tmp_path: Path) -> None:
    await live(stage)
    lake = str(tmp_path / "lake")
    archive_here(stage.dsn, lake)
    known = trace(stage.dsn, lake, key="k-0", most=9).events
    assert {event.what for event in known} >= {"accepted", "streamed", "claimed", "acked"}
    stage.tables.rows("DELETE FROM message")
    stage.tables.rows("DELETE FROM delivery")
    stage.tables.rows("DELETE FROM label")
    assert trace(stage.dsn, lake, key="k-0", most=9).events == known
    assert trace(stage.dsn, None, key="k-0", most=9).events == []


async def test_only_files_that_may_hold_an_id_are_opened(stage: Stage, tmp_path: Path) -> None:
    topic = await stage.topic()
    lake = str(tmp_path)
    told: list[int] = []
    for _ in range(5):
        (receipt,) = await stage.publish(stage.draft(topic, b"x"))
        told.append(receipt.id)
        stage.now += 1000
        archive_here(stage.dsn, lake)
    snapshot = Lake(lake).open("messages")
    assert snapshot is not None
    assert len(local_reads.files(snapshot, {})) == 5
    (file,) = local_reads.files(snapshot, {"id": [told[2]]})
    assert [row["id"] for row in local_reads.read(snapshot, [file], ["id"], {}).to_pylist()] == [told[2]]
    assert local_reads.files(snapshot, {"id": [1]}) == []
    assert local_reads.files(snapshot, {}, topics=["other"]) == []


def _lines(out: str) -> list[list[str]]:
    return [line.split("\t") for line in out.splitlines()]


async def test_as_a_command(stage: Stage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    topic, other = await stage.topic("t"), await stage.topic("other")
    group = await stage.group(topic, "g")
    (first,) = await stage.publish(stage.draft(topic, b"1", key="order-7"))
    stage.now += 1
    (second,) = await stage.publish(stage.draft(other, b"2", key="order-7"))
    claim = await stage.claim(group, 1)
    stage.now += 30
    await stage.fail(group, claim, reason="no crew")
    where = ("--dsn", stage.dsn)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(["trace", *arguments, *where])
        told = capsys.readouterr()
        return code, told.out, told.err

    code, out, err = call("--id", str(first.id))
    assert (code, err) == (0, "")
    head, *rows = _lines(out)
    assert head == ["id", "topic", "key", "at", "what", "group", "client", "attempt", "reason", "place", "held"]
    assert [(row[0], row[1], row[2], row[4]) for row in rows] == [
        (str(first.id), "t", "order-7", what) for what in ("accepted", "streamed", "claimed", "failed", "waiting")
    ]
    assert (rows[1][9], rows[3][8], rows[3][10]) == ("queue 0, offset 0", "no crew", "30 ms")

    code, out, err = call("--key", "order-7", "--json")
    told: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    assert (code, err, len(told)) == (0, "", 7)
    assert set(told[0]) == {"at", "topic", "id", "key", "what"}
    assert {line["id"] for line in told} == {str(first.id), str(second.id)}

    code, out, err = call("--key", "order-7", "--max", "1", "--json")
    assert (code, len(out.splitlines())) == (0, 5)
    assert err == "tarry pipeline: there are more than 1 messages; these are the first\n"

    assert call("--id", "9") == (NotFound.exit_code, "", "tarry pipeline: there is no message 9, as far as is known\n")
    assert call("--key", "Order-7")[0] == NotFound.exit_code
    assert call("--key", "order-7", "--topic", "other", "--json")[1].count("\n") == 2
    code, _, err = call("--key", "k", "--topic", "t", "--topic", "nowhere")
    assert (code, err) == (NotFound.exit_code, "tarry pipeline: --topic nowhere: there is no such topic in the store\n")

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "160")
    code, out, _ = call("--key", "order-7")
    assert f"message {first.id} of t, key order-7" in out
    assert f"message {second.id} of other, key order-7" in out


def test_a_place_without_a_lake_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["trace", "--id", "7", "--lake", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(f"tarry pipeline: there is no lake at {tmp_path}: ")

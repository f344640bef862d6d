"""Replays: what a predicate picks, from literal rows; and to topics and groups of a real server, each message once."""

import json
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from attrs import asdict, evolve
from pyspark.sql import DataFrame, SparkSession

from support import archiver
from support.literal_tables import literal_tables
from support.server import client_of, start_server
from support.terminal import Terminal
from tarry.client import Tarry
from tarry.pipeline import schemas
from tarry.pipeline.errors import NotFound, PipelineError
from tarry.pipeline.schemas import Tables
from tarry.pipeline.sending import progress, replaying
from tarry.pipeline.sending.replaying import HISTORY, forecast, history, runs, selected, standing

pytestmark = pytest.mark.long


BEGIN = datetime(2026, 11, 21, 10, tzinfo=UTC)
END = datetime(2093, 1, 1, tzinfo=UTC)


def message(offset: int, **rest: Any) -> dict[str, Any]:
    at = BEGIN + timedelta(seconds=offset)
    body = json.dumps({"n": offset}).encode()
    return {"topic": "orders", "offset": offset, "id": 100 + offset, "deliver_at": at, "body": body} | rest


def delivery(offset: int, outcome: str, **rest: Any) -> dict[str, Any]:
    group = {"topic": "orders", "group": "billing", "number": offset, "offset": offset}
    return group | {"outcome": outcome, "claimed_at": BEGIN} | rest


def letter(offset: int, reason: str) -> dict[str, Any]:
    told = json.dumps([{"at": 1, "client": "c-1", "reason": "first"}, {"at": 2, "client": "c-1", "reason": reason}])
    return message(offset) | {"group": "billing", "dead_at": BEGIN, "history": told}


def tables_of(spark: SparkSession, **rows: list[dict[str, Any]]) -> Tables:
    return literal_tables(spark, queues=[{"topic": "orders", "next_offset": 100}], **rows)


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Tables:
    return tables_of(
        spark,
        messages=[message(n, key=f"key-{n % 2}") for n in range(6)],
        deliveries=[
            delivery(0, "acked"),
            delivery(1, "retried"),
            delivery(1, "acked", attempt=2, history='[{"at": 1, "client": "c-1", "reason": "slow"}]', number=9),
            delivery(2, "dead", attempt=17),
            delivery(4, "acked"),
        ],
        claims=[delivery(5, "open")],
        dead=[letter(2, "no such account")],
    )


def kept(tables: Tables) -> DataFrame:
    """As if retention had taken two, and left one between them that somebody held."""
    return tables.messages.where("offset NOT IN (0, 2)")


def picked(tables: Tables, predicate: str) -> list[int]:
    return sorted(row["offset"] for row in selected(tables, predicate).collect())


def test_the_history_has_a_row_per_delivery_and_one_for_what_had_none(tables: Tables) -> None:
    frame = history(tables)
    assert frame.columns[: len(HISTORY)] == HISTORY.names
    assert [frame.schema[name].dataType for name in HISTORY.names] == [field.dataType for field in HISTORY]
    rows = {(row["offset"], row["attempt"]): row for row in frame.collect()}
    assert sorted(rows, key=str) == sorted([(0, 1), (1, 1), (1, 2), (2, 17), (3, None), (4, 1), (5, 1)], key=str)
    assert rows[2, 17]["reason"] == "no such account"
    assert rows[1, 2]["reason"] == "slow"
    assert (rows[3, None]["group"], rows[5, 1]["outcome"], rows[0, 1]["id"]) == (None, "open", "100")
    assert rows[0, 1]["body"] == '{"n": 0}'


def test_a_predicate_picks_each_message_once(tables: Tables) -> None:
    assert picked(tables, "true") == [0, 1, 2, 3, 4, 5]
    assert picked(tables, "group = 'billing' AND outcome IN ('acked', 'retried')") == [0, 1, 4]
    assert picked(tables, "reason LIKE '%account%'") == [2]
    assert picked(tables, "group IS NULL") == [3]
    assert picked(tables, "get_json_object(body, '$.n') > 3 AND key = 'key-0'") == [4]
    assert picked(tables, "streamed_at >= TIMESTAMP '2026-11-21 10:00:05Z'") == [5]
    assert selected(tables, "true").columns == schemas.MESSAGES.names


@pytest.mark.parametrize("bad", ["grupp = 'x'", "key = ", "key +", "nothing(key)", "1 + 1"])
def test_a_bad_predicate_is_one_sentence(tables: Tables, bad: str) -> None:
    with pytest.raises(ValueError, match=r"\A--where: [^\n]+; the columns are topic, id, [^\n]+\Z"):
        selected(tables, bad)


def test_a_forecast_counts_and_says_what_is_gone(tables: Tables) -> None:
    told = forecast(standing(selected(tables, "true"), kept(tables)), 4)
    assert asdict(told) == {
        "count": 6,
        "topics": {"orders": 6},
        "oldest": "2026-11-21T10:00:00.000Z",
        "newest": "2026-11-21T10:00:05.000Z",
        "gone": 2,
        "seconds": 1.5,
    }
    assert forecast(standing(selected(tables, "false"), kept(tables)), None).count == 0
    assert forecast(standing(selected(tables, "true"), None), None).gone == 6


def test_neighbours_go_together(tables: Tables) -> None:
    rows = [tuple(row) for row in runs(selected(tables, "offset <> 3 AND offset <> 0")).collect()]
    assert sorted(rows) == [(0, 1, 3), (0, 4, 6)]


def test_to_a_topic_each_once_in_order_with_the_origin(spark: SparkSession, tmp_path: Path) -> None:
    many = [
        message(n, ordering_key=f"key-{n % 3}", tag="t", headers='{"a":"b","tarry-replay-of":"1"}', key="k")
        for n in range(90)
    ]
    many.append(message(90, body=b"\x00\xff", content_type="application/x"))
    many.append(message(91, tag="ends", expires_at=END))
    many.append(message(92, tag="ended", expires_at=BEGIN - timedelta(days=999)))
    chosen = selected(tables_of(spark, messages=many), "true")
    with start_server(tmp_path) as server, client_of(server) as tarry:
        with pytest.raises(NotFound):
            replaying.to_topic(spark, chosen, server.url, "again", "r", None)
        tarry.put_topic("again", queues=1)
        part = chosen.where("offset < 50")  # as far as it came before it was interrupted
        assert replaying.to_topic(spark, part, server.url, "again", "r", None).replayed == 50
        done = replaying.to_topic(spark, chosen, server.url, "again", "r", None)
        assert (done.replayed, done.skipped, done.refused) == (42, 50, 1), "one is past its time"
        got = tarry.pull("again", 0, 0, max=1000).messages
        assert sorted(int(one.headers["tarry-replay-of"]) for one in got) == [100 + n for n in range(92)]
        for key in range(3):
            numbers = [one.body["n"] for one in got if one.ordering_key == f"key-{key}"]
            assert numbers == sorted(numbers)
        (ends,) = [one for one in got if one.tag == "ends"]
        assert tarry.message(ends.id)["expires_at"] == "2093-01-01T00:00:00.000Z"
        one = next(one for one in got if one.ordering_key)
        assert (one.key, one.tag, one.headers["a"]) == ("k", "t", "b")
        assert [(one.body, one.content_type) for one in got if one.content_type] == [(b"\x00\xff", "application/x")]


def test_to_a_group_what_is_still_in_the_store(spark: SparkSession, tmp_path: Path) -> None:
    with start_server(tmp_path) as server, client_of(server) as tarry:
        tarry.put_topic("orders", queues=1)
        for n in range(6):
            tarry.publish("orders", {"n": n})
        for group in ("billing", "other"):
            for delivered in tarry.consume("orders", group, limit=6):
                with delivered:
                    pass
        tables = tables_of(spark, messages=[message(n) for n in range(6)])
        chosen = standing(selected(tables, "offset IN (1, 2, 4)"), tables.messages)
        assert replaying.to_group(spark, chosen, server.url, "orders", "billing", "r", None).replayed == 3
        again = []
        for delivered in tarry.consume("orders", "billing", limit=3):
            with delivered:
                again.append(delivered.body["n"])
        assert sorted(again) == [1, 2, 4]
        assert tarry.claim("orders", "other") is None
        with pytest.raises(NotFound):
            replaying.to_group(spark, chosen, server.url, "orders", "nobody", "r", None)


@pytest.mark.parametrize("to", ["topic", "group"])
def test_a_terminal_shows_how_many_are_replayed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str
) -> None:
    count = 150
    terminal = Terminal()
    with start_server(tmp_path) as server, client_of(server) as tarry:
        tarry.put_topic("orders", queues=1)
        tarry.publish_many("orders", [{"body": {"n": n}} for n in range(2 * count)])
        tarry.put_group("orders", "billing")
        tables = tables_of(spark, messages=[message(2 * n) for n in range(count)])  # so that no two are neighbours
        chosen = standing(selected(tables, "true"), tables.messages)
        monkeypatch.setattr(progress, "_EVERY", 0.05)
        monkeypatch.setattr(sys, "stderr", terminal)
        if to == "topic":
            done = replaying.to_topic(spark, chosen, server.url, "orders", "r", 100)
        else:
            done = replaying.to_group(spark, chosen, server.url, "orders", "billing", "r", 100)
        monkeypatch.undo()
    assert done.replayed == count
    seen = terminal.counts("replaying")
    assert len(set(seen)) > 1
    assert seen == sorted(seen)
    assert seen[-1] <= count


def test_to_a_group_killed_and_repeated_under_its_name_each_once(tmp_path: Path) -> None:
    """The driver dies with Java and the workers; the service goes on."""
    count = 300
    with start_server(tmp_path) as server, client_of(server) as tarry:
        tarry.put_topic("orders", queues=2)
        tarry.publish_many("orders", [{"body": {"n": n}} for n in range(count)])
        for delivered in tarry.consume("orders", "billing", limit=count):
            with delivered:
                pass
        places = ["--dsn", f"sqlite:///{tmp_path}/tarry.db", "--server", server.url, "--topic", "orders"]
        # Two of three, so that there are many runs of neighbours.
        what = ["--where", "`offset` % 3 <> 1", "--to-group", "billing", "--name", "monday"]
        command = ["replay", *places, *what, "--master", "local[2]", "--json"]
        picked = [
            message.id
            for queue in (0, 1)
            for message in tarry.pull("orders", queue, 0, max=1000).messages
            if message.offset % 3 != 1
        ]
        for goal in (20, 60):
            with archiver.started(*command, "--rate", "40") as process:
                archiver.wait_for(partial(has_come_to, tarry, goal), process)
        so_far = handed_out(tarry)
        assert so_far < len(picked), "it was in the middle"
        last = archiver.run(*command)
        assert last.returncode == 0, last.stderr
        told = json.loads(last.stdout)
        assert (told["name"], told["replayed"] + told["skipped"]) == ("monday", len(picked))
        assert told["skipped"] >= so_far
        assert handed_out(tarry) == len(picked)
        again = []
        for delivered in tarry.consume("orders", "billing", limit=len(picked)):
            with delivered:
                again.append(delivered.id)
        assert sorted(again) == sorted(picked)
        assert tarry.claim("orders", "billing") is None
        assert json.loads(archiver.run(*command).stdout)["replayed"] == 0, "once more is nothing more"


def handed_out(tarry: Tarry) -> int:
    """By replays."""
    return int(tarry.group("orders", "billing")["redriven"])


def has_come_to(tarry: Tarry, goal: int) -> bool:
    return handed_out(tarry) >= goal


def test_to_a_group_nothing_that_is_gone_or_of_another_topic(spark: SparkSession, tables: Tables) -> None:
    chosen = standing(selected(tables, "true"), kept(tables))
    with pytest.raises(PipelineError, match=r"2 of 6 messages are no longer in the store.*--to-topic"):
        replaying.to_group(spark, chosen, "http://127.0.0.1:9", "orders", "billing", "r", None)
    elsewhere = evolve(tables, messages=tables.messages.where("offset > 2"))
    chosen = standing(selected(elsewhere, "true"), elsewhere.messages)
    with pytest.raises(PipelineError, match="there are messages of orders too"):
        replaying.to_group(spark, chosen, "http://127.0.0.1:9", "invoices", "billing", "r", None)

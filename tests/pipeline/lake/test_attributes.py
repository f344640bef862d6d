"""What a message has beside its body, out of files into a store, and from there into the lake."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from support.attributes import attributes, each, one_of
from support.lakes import archive, in_lake, in_store
from support.stores import Stage
from tarry.client import Tarry
from tarry.pipeline.sending import importing
from tarry.pipeline.sending.column_mapping import ColumnMapping
from tarry.pipeline.sending.importing import Job
from tarry.pipeline.sending.input_files import read_rows
from tarry.store.content import ATTRIBUTES, LABELS, NUMBERS
from tarry.store.looking import tracing
from tarry.testing import EmbeddedServer
from tarry.wheel.ladder import Ladder

pytestmark = pytest.mark.long

END = datetime.now(UTC).replace(microsecond=0) + timedelta(days=9)
END_MS = int(END.timestamp() * 1000)


ALL = each(END_MS)


async def test_the_lake_and_what_is_read_of_the_store_has_them_all(
    spark: SparkSession, stage: Stage, tmp_path: Path
) -> None:
    topic = await stage.topic()
    group = await stage.group(topic, ladder=Ladder(()))
    sent: dict[int, dict[str, Any]] = {}
    for said in ALL:
        (receipt,) = await stage.publish(stage.draft(topic, **said))
        sent[receipt.id] = said
    await stage.publish(*(stage.draft(topic, delay=1000, **said) for said in ALL))
    await stage.fail(group, await stage.claim(group, 100))
    archive(spark, stage.dsn, tmp_path)
    timers = in_store(spark, stage.dsn, "timers")
    assert sorted(map(repr, map(_plain, timers))) == sorted(map(repr, ALL))
    for table in ("messages", "dead"):
        assert {row["id"]: _plain(row) for row in in_store(spark, stage.dsn, table)} == sent
        assert {row["id"]: _plain(row) for row in in_lake(spark, tmp_path, table)} == sent


def _plain(row: Any) -> dict[str, Any]:
    found = {name: row[name] for name in ATTRIBUTES if row[name] is not None}
    found |= {name: int(found[name].timestamp() * 1000) for name in NUMBERS if name in found}
    return found | ({"headers": found["headers"].encode()} if "headers" in found else {})


def job(spark: SparkSession, tmp_path: Path, name: str, **to: Any) -> Job:
    """A row with all of them; or with one of them, and no more columns than that."""
    names = [*LABELS, "headers", *NUMBERS] if name == "all" else [name]
    values = {one: one_of(one, END_MS) for one in names}
    row = {one: value.decode() if isinstance(value, bytes) else value for one, value in values.items()}
    (tmp_path / f"{name}.ndjson").write_text(json.dumps(row | {"body": '"x"'}) + "\n")
    rows = read_rows(spark, [str(tmp_path / f"{name}.ndjson")], "ndjson")
    mapping: dict[str, Any] = {one: one for one in names}
    if name == "all":
        mapping["content_type"] = "x/y"
    return Job(rows=rows, mapping=ColumnMapping(body="body", **mapping), topic="orders", name=name, **to)


NAMES = ["all", *LABELS, "headers", *NUMBERS]


def test_an_import_over_http_has_them_all(spark: SparkSession, tmp_path: Path) -> None:
    with EmbeddedServer() as server, Tarry(server.url) as tarry:
        tarry.put_topic("orders")
        for name in NAMES:
            assert importing.run(spark, job(spark, tmp_path, name, server=server.url)).imported == 1
        for name, one in zip(NAMES, tarry.pull("orders", max=100).messages, strict=True):
            for of in ATTRIBUTES:
                there = name in (of, "all")
                told = getattr(one, of) or None
                assert (told is not None) == there, (name, of)
                if there and of in LABELS:
                    assert told == one_of(of, 0)


async def test_an_import_into_a_database_has_them_all(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    if stage.kind == "sqlite":
        return  # one server alone writes there: the rows go over HTTP
    await stage.topic()
    for name in NAMES:
        assert importing.run(spark, job(spark, tmp_path, name, dsn=stage.dsn)).imported == 1
        id_ = max(stage.column("SELECT id FROM delay"))
        (one,) = (await stage.store.read(tracing.find_messages, [id_])).values()
        wanted = {of: one_of(of, END_MS) for of in ATTRIBUTES if name in (of, "all")}
        assert attributes(one) == wanted
        stage.tables.rows("DELETE FROM delay")

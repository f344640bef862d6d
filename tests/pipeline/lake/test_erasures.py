"""What the store has erased, the lake has no more either, and nothing else of it changes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from support.archiver import run
from support.lakes import archive_here, in_lake, in_store
from support.stores import HOUR, SECOND, Stage
from support.story import live
from tarry.pipeline.audit import copies
from tarry.pipeline.audit.log_copies import differing
from tarry.pipeline.audit.pairs import open_pairs
from tarry.pipeline.errors import LakeError
from tarry.pipeline.history import open_tables
from tarry.pipeline.lake import erasures, local_reads
from tarry.pipeline.lake.lake import Lake
from tarry.pipeline.lake.upkeep import keep_up
from tarry.pipeline.schemas import IN_LAKE, TABLES
from tarry.pipeline.sending import replaying
from tarry.pipeline.trace.tracing import trace
from tarry.store.erased import content_type_of
from tarry.store.operating import erasing
from tarry.store.operating.erasing import Erasure
from tarry.wheel.ladder import Ladder

SECRET = "Ada's secret"


def table(lake: Path, name: str) -> list[dict[str, Any]]:
    """The rows of the files that are listed."""
    snapshot = Lake(str(lake)).open(name)
    assert snapshot is not None
    rows: list[dict[str, Any]] = local_reads.read(snapshot, snapshot.added(), TABLES[name].names, {}).to_pylist()
    return sorted(rows, key=repr)


def holding(rows: list[dict[str, Any]]) -> int:
    """How many rows hold something of the secret."""
    return sum(
        any(SECRET in (v.decode("latin-1") if isinstance(v, bytes) else str(v)) for v in row.values()) for row in rows
    )


def on_disk(lake: Path) -> int:
    """The same of all files that lie there, listed or not."""
    return sum(holding(pq.ParquetFile(path).read().to_pylist()) for path in lake.rglob("*.parquet"))


async def secret_lives(stage: Stage) -> tuple[int, int]:
    """Two messages with a secret, and others: one failed twice and died, with another copy of the reason in the log."""
    topic = await stage.topic("letters'")
    group = await stage.group(topic, "post", ladder=Ladder((SECOND,)))
    body, headers = SECRET.encode(), b'{"to": "%s"}' % SECRET.encode()
    one, _, two = await stage.publish(
        stage.draft(topic, body, headers=headers, key="k1"),
        stage.draft(topic, b"0"),
        stage.draft(topic, body, headers=headers, content_type="text/plain"),
    )
    for _ in range(2):
        claim = await stage.claim(group)
        await stage.fail(group, claim, reason=f"no box for {SECRET}")
        stage.now += 2 * SECOND
        await stage.fall_due()
    assert stage.count("dead", f"group_id = {group.id}") == 3
    return one.id, two.id


def traced(dsn: str | None, lake: Path | None, id_: int) -> list[int]:
    """When it was erased, as a trace tells it; which tells nothing of the secret then."""
    events = trace(dsn, None if lake is None else str(lake), ids=[id_], most=1).events
    erased = [event.at for event in events if event.what == "erased"]
    assert not erased or SECRET not in str(events)
    return erased


async def erase(stage: Stage, id_: int) -> Erasure:
    erasure = await stage.store.write(erasing.erase, id_, stage.now)
    assert isinstance(erasure, Erasure), erasure
    return erasure


async def test_content_goes_and_all_else_stays(stage: Stage, tmp_path: Path) -> None:
    await live(stage)
    one, two = await secret_lives(stage)
    assert archive_here(stage.dsn, tmp_path).erased == {}
    before = {name: table(tmp_path, name) for name in IN_LAKE}
    assert [holding(before[name]) for name in ("messages", "dead", "deliveries")] == [2, 3, 3]
    stage.now += HOUR
    assert (await erase(stage, one)).lake == "pending"
    assert traced(stage.dsn, None, one) == [stage.now]
    assert traced(None, tmp_path, one) == []
    assert archive_here(stage.dsn, tmp_path).erased == {"deliveries": 1, "dead": 1, "messages": 1}
    assert (await erase(stage, one)).lake == "erased"
    assert traced(stage.dsn, tmp_path, one) == traced(None, tmp_path, one) == [stage.now]
    mark = content_type_of(stage.now)
    for name in ("messages", "dead"):
        after = table(tmp_path, name)
        assert [row for row in after if row["id"] != one] == [row for row in before[name] if row["id"] != one]
        (row,) = [row for row in after if row["id"] == one]
        (old,) = [row for row in before[name] if row["id"] == one]
        assert (row["body"], row["headers"], row["content_type"]) == (b"", None, mark)
        gone = ("body", "headers", "content_type", "history")
        assert {n: v for n, v in row.items() if n not in gone} == {n: v for n, v in old.items() if n not in gone}
        assert holding([row]) == 0
    assert table(tmp_path, "cancelled") == before["cancelled"]
    assert holding(table(tmp_path, "deliveries")) == 2, "those of the other two"
    await erase(stage, two)
    archive_here(stage.dsn, tmp_path)
    assert [holding(table(tmp_path, name)) for name in ("messages", "dead", "deliveries")] == [0, 1, 1]
    assert archive_here(stage.dsn, tmp_path).erased == {}
    assert on_disk(tmp_path) > 2, "a vacuum is what removes files"
    keep_up(Lake(str(tmp_path)), vacuum=0)
    assert on_disk(tmp_path) == 2


async def test_one_that_only_the_lake_has(stage: Stage, tmp_path: Path) -> None:
    one, two = await secret_lives(stage)
    archive_here(stage.dsn, tmp_path)
    for name in ("message", "dead", "redelivery"):
        stage.tables.rows(f"DELETE FROM {name}")  # as retention does
    assert await erase(stage, one) == Erasure(one, stage.now, "pending", None, False)
    await erase(stage, two)
    assert await erase(stage, 5) == Erasure(5, stage.now, "pending", None, False), "nobody knows that there was none"
    assert archive_here(stage.dsn, tmp_path).erased == {"deliveries": 2, "dead": 2, "messages": 2}
    assert stage.count("erased", "lake_at IS NULL") == 0
    assert [holding(table(tmp_path, name)) for name in ("messages", "dead", "deliveries")] == [0, 1, 1]


async def test_erased_before_it_is_archived(stage: Stage, tmp_path: Path) -> None:
    one, two = await secret_lives(stage)
    await erase(stage, one)
    await erase(stage, two)
    assert archive_here(stage.dsn, tmp_path).erased == {}
    assert stage.count("erased", "lake_at IS NULL") == 0
    assert [holding(table(tmp_path, name)) for name in ("messages", "dead", "deliveries")] == [0, 1, 1]


@pytest.mark.parametrize("killed", ["before", "between", "after"])
async def test_killed_on_the_way(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: str) -> None:
    one, _ = await secret_lives(stage)
    archive_here(stage.dsn, tmp_path)
    await erase(stage, one)
    calls = 0
    real: Callable[..., int] = Lake.rewrite

    def rewrite(self: Lake, *asked: Any) -> int:
        nonlocal calls
        calls += 1
        if killed == "before" or (killed == "between" and calls == 2):
            raise LakeError("killed")
        done = real(self, *asked)
        if killed == "after" and calls == 3:
            raise LakeError("killed")
        return done

    monkeypatch.setattr(Lake, "rewrite", rewrite)
    with pytest.raises(LakeError, match="killed"):
        archive_here(stage.dsn, tmp_path)
    monkeypatch.setattr(Lake, "rewrite", real)
    assert stage.count("erased", "lake_at IS NULL") == 1
    left = {"before": [2, 3, 3], "between": [2, 3, 2], "after": [1, 2, 2]}[killed]
    assert [holding(table(tmp_path, name)) for name in ("messages", "dead", "deliveries")] == left
    archive_here(stage.dsn, tmp_path)
    assert [holding(table(tmp_path, name)) for name in ("messages", "dead", "deliveries")] == [1, 2, 2]
    assert stage.count("erased", "lake_at IS NULL") == 0
    assert len(table(tmp_path, "messages")) == 3


async def test_a_lake_of_before(stage: Stage, tmp_path: Path) -> None:
    one, _ = await secret_lives(stage)
    archive_here(stage.dsn, tmp_path / "old")
    archive_here(stage.dsn, tmp_path / "new", new_lake=True)
    await erase(stage, one)
    archive_here(stage.dsn, tmp_path / "new")
    at = stage.column("SELECT lake_at FROM erased")
    assert holding(table(tmp_path / "old", "messages")) == 2
    assert erasures.apply(stage.dsn, Lake(str(tmp_path / "old"))) == {"deliveries": 1, "dead": 1, "messages": 1}
    assert holding(table(tmp_path / "old", "messages")) == 1
    assert stage.column("SELECT lake_at FROM erased") == at


async def test_the_command(stage: Stage, tmp_path: Path) -> None:
    if stage.kind != "sqlite":
        pytest.skip("the command is the same for all stores")
    one, _ = await secret_lives(stage)
    archive_here(stage.dsn, tmp_path)
    await erase(stage, one)
    where = ("--dsn", stage.dsn, "--lake", str(tmp_path))
    unsure = run("erase", *where)
    assert (unsure.returncode, "say --yes" in unsure.stderr) == (2, True)
    done = run("erase", *where, "--yes", "--json")
    assert done.returncode == 0, done.stderr
    assert '{"table": "messages", "erased": 1, "removed": 1}' in done.stdout
    assert on_disk(tmp_path) == 1 + 2 + 2
    assert run("erase", "--dsn", stage.dsn, "--lake", str(tmp_path / "none"), "--yes").returncode == 1


@pytest.mark.long
async def test_spark_reads_the_same_from_store_and_lake(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    await live(stage)
    one, two = await secret_lives(stage)
    archive_here(stage.dsn, tmp_path)
    await erase(stage, one)
    await erase(stage, two)
    # Until the lake has heard of it, the two are no copies of each other, and nothing of what it has is sent anywhere.
    told = open_pairs(spark, stage.dsn, str(tmp_path))
    assert copies.check(told.store["messages"], told.lake["messages"]).count() == 0
    assert differing(told).count() == 0
    known = open_tables(spark, stage.dsn, str(tmp_path)).messages
    kept = replaying.unerased(known, erasures.pending_ids(stage.dsn)).select("id")
    assert {row.id for row in known.select("id").collect()} - {row.id for row in kept.collect()} == {one, two}
    archive_here(stage.dsn, tmp_path)
    assert erasures.pending_ids(stage.dsn) == []
    kept = replaying.unerased(open_tables(spark, None, str(tmp_path)).messages).select("id")
    assert not {one, two} & {row.id for row in kept.collect()}
    told = open_pairs(spark, stage.dsn, str(tmp_path))
    assert copies.check(told.store["messages"], told.lake["messages"]).count() == 0
    assert differing(told).count() == 0
    for name in IN_LAKE:
        assert in_lake(spark, tmp_path, name) == in_store(spark, stage.dsn, name), name

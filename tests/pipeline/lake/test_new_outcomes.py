"""What expired and what was suppressed is in the lake as in the store, told by a lake alone, and clean to the audit."""

from datetime import timedelta
from pathlib import Path

import pytest
from attrs import frozen
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from support.lakes import archive, archive_here, in_lake, in_store, same
from support.literal_tables import moment
from support.stores import HOUR, MINUTE, SECOND, Stage
from tarry.pipeline import schemas
from tarry.pipeline.audit.evidence import Scope
from tarry.pipeline.audit.job import examine
from tarry.pipeline.history import open_tables
from tarry.pipeline.lake import lake
from tarry.pipeline.lake.lake import Lake
from tarry.pipeline.schemas import IN_LAKE, TABLES
from tarry.pipeline.trace.tracing import trace
from tarry.store.operating import erasing
from tarry.store.records import ClaimRequest, Group
from tarry.wheel.ladder import Ladder

SCOPE = Scope(moment(4_000_000_000_000))


@frozen
class Ended:
    """Messages by what became of them."""

    group: Group
    failed: int
    """Expired in somebody's hands: it would have come back too late."""
    returned: int
    """Expired on its way back from the ladder."""
    passed: int
    """Expired before anybody had it."""
    suppressed: int
    cancelled: int


async def live(stage: Stage) -> Ended:
    topic = await stage.topic()
    group = await stage.group(topic, ladder=Ladder((10 * SECOND,)))

    async def publish(left: int | None) -> int:
        expires_at = None if left is None else stage.now + left
        (receipt,) = await stage.publish(stage.draft(topic, expires_at=expires_at))
        return receipt.id

    failed, returned, kept = await publish(5 * SECOND), await publish(HOUR), await publish(None)
    claim = await stage.claim(group, 3)
    await stage.fail(group, claim, reason="no crew")
    stage.now += 10 * SECOND
    assert len(await stage.fall_due()) == 2
    passed = await publish(SECOND)
    stage.now += HOUR
    turns = [await stage.turn(group, requests=[ClaimRequest("late", 9, MINUTE)]) for _ in range(2)]
    assert sum(turn.expired for turn in turns) == 2
    (late,) = [claim for turn in turns for claim in turn.claims if claim is not None]
    assert [message.id for message in late.messages] == [kept]
    await stage.ack(group, late)
    drafts = [stage.draft(topic, delay=SECOND, key=key, guard="unpaid") for key in ("a", "b")]
    asked, cancelled = [receipt.id for receipt in await stage.publish(*drafts)]
    await stage.store.cancel([cancelled], stage.now)
    stage.now += SECOND
    _, suppressed, _ = await stage.store.promote_guarded({asked: False}, stage.now, lambda: True)
    assert [done.id for done in suppressed] == [asked]
    await stage.publish(stage.draft(topic, delay=HOUR, expires_at=stage.now + 2 * HOUR))
    return Ended(group, failed, returned, passed, asked, cancelled)


def told(dsn: str | None, place: Path | None, id_: int) -> list[tuple[str, str | None, str | None]]:
    events = trace(dsn, None if place is None else str(place), ids=[id_], most=9).events
    return [(event.what, event.group, event.client) for event in events if event.what not in ("accepted", "streamed")]


@pytest.mark.long
async def test_the_lake_has_them_as_the_store_has_and_tells_them_alone(
    spark: SparkSession, stage: Stage, tmp_path: Path
) -> None:
    ended = await live(stage)
    archive(spark, stage.dsn, tmp_path)
    same(spark, stage.dsn, tmp_path)
    (letter,) = [row for row in in_lake(spark, tmp_path, "messages") if row.id == ended.passed]
    assert letter.expires_at - letter.streamed_at == timedelta(seconds=1)
    assert [row.expires_at is None for row in in_store(spark, stage.dsn, "timers")] == [False]
    reasons = {row.id: (row.reason, row.guard) for row in in_lake(spark, tmp_path, "cancelled")}
    assert reasons == {ended.suppressed: ("suppressed", "unpaid"), ended.cancelled: (None, None)}
    live_rows = spark.read.format("tarry").option("dsn", stage.dsn).option("table", "cancelled").load()
    suppressed = live_rows.where("reason = 'suppressed'").collect()  # as the store filters it
    assert [row.id for row in suppressed] == [ended.suppressed]
    for dsn, place in ((stage.dsn, None), (None, tmp_path), (stage.dsn, tmp_path)):
        assert told(dsn, place, ended.suppressed) == [("suppressed", None, None)]
        (*_, last) = trace(dsn, None if place is None else str(place), ids=[ended.suppressed], most=1).events
        assert last.reason == "guard unpaid"
        assert told(dsn, place, ended.cancelled) == [("cancelled", None, None)]
        assert told(dsn, place, ended.passed) == [("expired", "billing", None)]
        hands = [("claimed", "billing", "client-1"), ("expired", "billing", "client-1")]
        assert told(dsn, place, ended.failed) == hands
        back = [("claimed", "billing", "client-1"), ("failed", "billing", "client-1"), ("expired", "billing", None)]
        assert [event for event in told(dsn, place, ended.returned) if event[0] != "returned"] == back
    assert examine(spark, stage.dsn, str(tmp_path), SCOPE, None, 9)["findings"] == {}


def test_a_column_more_is_a_new_version() -> None:
    """An archiver widens the tables of an older version, and no others: these numbers change together."""
    columns = {table: len(schemas.lake_schema(table).fields) for table in IN_LAKE}
    assert schemas.VERSION == 2
    assert columns == {"messages": 17, "deliveries": 18, "dead": 18, "cancelled": 10, "fires": 8}


def of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """This version as the one was that knew nothing of what is new."""
    new = {"expires_at", "reason", "guard"}
    monkeypatch.setattr(lake, "VERSION", 1)
    for table in IN_LAKE:
        kept = [one for one in TABLES[table].fields if one.name not in new]
        monkeypatch.setitem(schemas.TABLES, table, StructType(kept))


async def test_a_lake_of_before_is_read_and_gets_its_columns(
    spark: SparkSession, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = await live(stage)
    with monkeypatch.context() as before:
        of_before(before)
        archive_here(stage.dsn, tmp_path)
    assert "reason" not in columns(tmp_path, "cancelled")
    old = open_tables(spark, None, str(tmp_path))
    assert {row.reason for row in old.cancelled.collect()} == {None}
    assert {row.expires_at for row in old.messages.collect()} == {None}
    assert told(None, tmp_path, ended.passed) == [("expired", "billing", None)]
    assert told(None, tmp_path, ended.suppressed) == [("cancelled", None, None)], "the lake does not know better"
    assert told(stage.dsn, tmp_path, ended.suppressed) == [("suppressed", None, None)]
    (again,) = await stage.publish(stage.draft(ended.group.topic, b"new", expires_at=stage.now + HOUR))
    archive_here(stage.dsn, tmp_path)
    assert {"expires_at", "topic", "day"} <= set(columns(tmp_path, "messages"))
    assert "reason" in columns(tmp_path, "cancelled")
    ends = {row.id: row.expires_at is not None for row in in_lake(spark, tmp_path, "messages")}
    assert (ends[ended.passed], ends[again.id]) == (False, True)
    (mark,) = {Lake(str(tmp_path)).ensure(table).version for table in IN_LAKE}
    assert mark == schemas.VERSION
    await stage.store.write(erasing.erase, ended.passed, stage.now)
    assert archive_here(stage.dsn, tmp_path).erased == {"messages": 1}, "files of before are written anew"


def columns(place: Path, table: str) -> list[str]:
    return [one.name for one in DeltaTable(place / table).schema().fields]

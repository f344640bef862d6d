"""Every row of the log, letter and cancelled message that is not the same in store and lake is named."""

import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from support.lakes import archive_here
from support.literal_tables import literal_frame, literal_table, moment
from support.stores import HOUR, MINUTE, START, Stage, ids_of
from tarry.pipeline.audit import fates
from tarry.pipeline.audit.adjustments import StoreAdjustments
from tarry.pipeline.audit.evidence import Scope, look
from tarry.pipeline.audit.log_copies import check, differing
from tarry.pipeline.audit.pairs import REACHES, SHORT, Pairs, open_pairs
from tarry.pipeline.history import open_tables
from tarry.pipeline.schemas import IN_LAKE
from tarry.store.cleaning import retention
from tarry.store.cleaning.retention import Limits
from tarry.store.ids import SHARDS
from tarry.store.operating import redriving
from tarry.store.operating.redriving import Letters
from tarry.store.records import Group
from tarry.wheel.ladder import Ladder

pytestmark = pytest.mark.long

SCOPE = Scope(moment(4_000_000_000_000), archived=True)


def found(spark: SparkSession, stage: Stage, lake: Path) -> list[tuple[str, int, str]]:
    """(kind, id, detail) of what is told of copies: one look, and this check alone."""
    evidence = look(open_tables(spark, stage.dsn, str(lake), moving=True), None, StoreAdjustments(spark, stage.dsn))
    findings = check(open_pairs(spark, stage.dsn, str(lake)), evidence, fates.lives(evidence, SCOPE)).collect()
    evidence.close()
    return sorted((row.kind, row.id or 0, row.detail) for row in findings)


async def settled(stage: Stage, count: int, deaths: int) -> tuple[Group, list[int]]:
    """A claim for each message, acked; the last of them died. Some were cancelled."""
    topic = await stage.topic()
    group = await stage.group(topic, ladder=Ladder(()))
    ids = ids_of(await stage.publish(*(stage.draft(topic, b"%d" % i, key=f"k{i}") for i in range(count))))
    for at in range(count):
        claim = await stage.claim(group, 1)
        stage.now += 1000
        await (stage.fail(group, claim, reason="no") if at >= count - deaths else stage.ack(group, claim))
    dropped = ids_of(await stage.schedule(topic, *(HOUR + at for at in range(4))))
    await stage.store.cancel(dropped, stage.now)
    return group, [*ids, *sorted(dropped)]


async def test_what_was_changed_or_taken_is_named(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    _, ids = await settled(stage, 20, 8)
    archive_here(stage.dsn, tmp_path)
    assert found(spark, stage, tmp_path) == []
    entry, letter, gone = "entry {} of the delivery log: {}", "the dead letter: {}", "the cancelled message: {}"
    there, mine, theirs = "another {} in the lake", "in the store only", "in the lake only"
    sql = stage.tables.rows
    told: list[tuple[str, int, str]] = []

    def tell(kind: str, at: int, text: str, what: str) -> None:
        told.append((kind, ids[at], text.format(at, what) if text is entry else text.format(what)))

    sql("DELETE FROM delivery WHERE number = 0")
    tell("not_in_store", 0, entry, theirs)
    changes = {"outcome": "X'04'", "client": "X'6162'", "claimed_at": "claimed_at + 1", "ended_at": "ended_at - 1"}
    changes |= {"settled_at": "X'0000018BCFE56801'"}
    for number, (column, value) in enumerate(changes.items(), 1):
        sql(f"UPDATE delivery SET {column} = {value} WHERE number = {number}")
        tell("copy_differs", number, entry, there.format(column))
    for at, (column, value) in enumerate({"body": "X'7B7D'", "history": "X'5B5D'", "headers": "X'7B7D'"}.items(), 12):
        sql(f"UPDATE dead SET {column} = {value} WHERE id = {ids[at]}")
        tell("copy_differs", at, letter, there.format(column))
    sql(f"DELETE FROM dead WHERE id = {ids[15]}")
    tell("not_in_store", 15, letter, theirs + "; 1 letters of the group are missing")
    sql(f"UPDATE cancelled SET cancelled_at = cancelled_at + 1 WHERE id = {ids[20]}")
    tell("copy_differs", 20, gone, there.format("cancelled_at"))
    sql(f"DELETE FROM cancelled WHERE id = {ids[21]}")
    tell("not_in_store", 21, gone, theirs)
    tables = {table: DeltaTable(tmp_path / table) for table in IN_LAKE}
    tables["deliveries"].delete("number = 6")
    tell("not_in_lake", 6, entry, mine)
    tables["deliveries"].update(predicate="number = 7", updates={"outcome": "'lost'"})
    tell("copy_differs", 7, entry, there.format("outcome"))
    tables["dead"].delete(f"id = {ids[16]}")
    tell("not_in_lake", 16, letter, mine)
    tables["dead"].update(predicate=f"id = {ids[17]}", updates={"key": "'another'"})
    tell("copy_differs", 17, letter, there.format("key"))
    tables["cancelled"].delete(f"id = {ids[22]}")
    tell("not_in_lake", 22, gone, mine)
    tables["cancelled"].update(predicate=f"id = {ids[23]}", updates={"key": "'another'"})
    tell("copy_differs", 23, gone, there.format("key"))
    told.append(("not_in_lake", 0, "3 cancelled messages of the topic, and 4 were written"))
    assert found(spark, stage, tmp_path) == sorted(told)


async def test_what_operators_and_retention_took_is_not_missed(
    spark: SparkSession, stage: Stage, tmp_path: Path
) -> None:
    group, ids = await settled(stage, 8, 6)
    archive_here(stage.dsn, tmp_path)
    stage.now = time.time_ns() // 1_000_000 + HOUR  # behind the archive
    await stage.store.redrive(group, Letters(ids=(ids[2], ids[3])), 10, stage.now)
    await stage.fall_due()
    await stage.ack(group, await stage.claim(group, 1))
    await stage.fail(group, await stage.claim(group, 1))  # dead once more
    await stage.store.write(redriving.purge, group, Letters(ids=(ids[4],)), 10)
    limits = Limits(retention=1000 * HOUR, hard=1000 * HOUR, history=MINUTE, dead=MINUTE)
    ((first, last),) = stage.tables.rows("SELECT MIN(ended_at), MAX(ended_at) FROM delivery WHERE number < 4")
    assert first < last
    clean = partial(retention.clean_deliveries, limits=limits, now=first + MINUTE + 1500, start=0, limit=100)
    queue = group.topic.queues[0].id
    assert (await stage.store.write(partial(clean, group_id=group.id, queue_id=queue))).rows == 2
    late = stage.now + 2 * HOUR
    for shard in range(SHARDS):
        await stage.store.write(
            partial(retention.clean_cancelled, shard=shard, limits=limits, now=late, start=0, limit=100)
        )
    assert stage.count("cancelled") == 0
    assert found(spark, stage, tmp_path) == []
    stage.tables.rows("DELETE FROM delivery WHERE number = 3")
    stage.tables.rows(f"DELETE FROM dead WHERE id = {ids[6]}")
    lost = "the dead letter: in the lake only; 1 letters of the group are missing"
    told = [
        ("not_in_store", ids[3], "entry 3 of the delivery log: in the lake only"),
        ("not_in_store", ids[4], lost),  # which is it? Of a purge there are only counters
        ("not_in_store", ids[6], lost),
    ]
    assert found(spark, stage, tmp_path) == sorted(told)


def test_how_far_the_archive_has_come(spark: SparkSession) -> None:
    """Behind it a row may be missing in the lake; whatever is in both is compared."""
    rows = [{"number": n, "offset": n, "claimed_at": START, "client": f"c{n}"} for n in range(5)]
    reaches = [{"table": "deliveries", "owner": 1, "queue": 1, "reach": 3}]
    reaches += [{"table": "cancelled", "owner": 1, "queue": 0, "reach": START + 3}]
    gone = [{"id": n, "cancelled_at": START + n, "accepted_at": START, "deliver_at": START} for n in range(5)]
    removed = [{"number": 9, "offset": 9, "claimed_at": START, "group_id": 7}]  # a group that is no more

    def side(deliveries: list[dict[str, Any]], cancelled: list[dict[str, Any]]) -> dict[str, Any]:
        tables = {"deliveries": deliveries, "cancelled": cancelled, "dead": []}
        return {table: literal_table(spark, table, some) for table, some in tables.items()}

    lake = side([*rows[:2], {**rows[3], "client": "x"}, rows[1], *removed], [gone[0], gone[1], gone[3]])
    pairs = Pairs(side(rows, gone), lake, literal_frame(spark, REACHES, reaches), literal_frame(spark, SHORT, []))
    told = differing(pairs).select("kind", "table", "number", "detail").orderBy("table", "number").collect()
    assert [tuple(row) for row in told] == [
        ("not_in_lake", "cancelled", 2, "the cancelled message: in the store only"),
        ("copy_differs", "deliveries", 1, "entry 1 of the delivery log: 2 times in the lake"),
        ("not_in_lake", "deliveries", 2, "entry 2 of the delivery log: in the store only"),
        ("copy_differs", "deliveries", 3, "entry 3 of the delivery log: another client in the lake"),
    ]

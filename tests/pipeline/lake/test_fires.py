"""Fires of schedules are in the lake before the store forgets them, told by a lake alone, the same on both sides."""

import shutil
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from support.days import Days
from support.lakes import archive, archive_here, same
from support.literal_tables import moment
from support.stores import HOUR, START, Stage
from tarry.pipeline.audit.evidence import Scope
from tarry.pipeline.audit.job import examine
from tarry.pipeline.history import open_tables
from tarry.pipeline.lake import archive as archiving
from tarry.pipeline.lake.lake import Lake
from tarry.pipeline.report import schedule_figures
from tarry.pipeline.report.window import Window
from tarry.pipeline.trace.tracing import trace
from tarry.store.operating import erasing
from tarry.store.schedules import schedules

SCOPE = Scope(moment(4_000_000_000_000))


def told(dsn: str | None, place: Path | None, id_: int) -> list[str]:
    events = trace(dsn, None if place is None else str(place), ids=[id_], most=9).events
    return [f"{event.what}: {event.reason}" for event in events if event.what == "fired"]


def _lately() -> int:
    """By the store's own clock, for the archiver looks a few hours back."""
    return time.time_ns() // 1_000_000


def rows(place: Path) -> list[dict[str, Any]]:
    """Of the lake, as any other engine reads it."""
    table: Any = DeltaTable(place / "fires").to_pyarrow_table()
    found: list[dict[str, Any]] = table.to_pylist()
    return sorted(found, key=lambda row: (row["fire_at"], row["at"]))


async def test_the_lake_tells_them_alone(stage: Stage, tmp_path: Path) -> None:
    days = await Days.begin(stage)
    await days.live(3)
    run = await days.run()
    archive_here(stage.dsn, tmp_path)
    sent = [("fired", id_) for id_ in days.sent]
    told_rows = [(row["schedule"], row["topic"], row["outcome"], row["message_id"]) for row in rows(tmp_path)]
    assert sorted(told_rows) == sorted(("minutely", "orders", *one) for one in [*sent, ("run", run)])
    assert archive_here(stage.dsn, tmp_path).rows == {}, "each once"
    at = "schedule minutely, fire time 2023-11-14T22:14:20.000Z"
    for dsn, place in ((stage.dsn, None), (None, tmp_path), (stage.dsn, tmp_path)):
        assert told(dsn, place, days.sent[0]) == [f"fired: {at}"]
        (asked,) = told(dsn, place, run)
        assert asked.endswith(", run")
    await stage.store.write(erasing.erase, days.sent[0], stage.now)
    archive_here(stage.dsn, tmp_path)
    assert told(None, tmp_path, days.sent[0]) == [f"fired: {at}"], "a fire has nothing of what its message said"


async def test_retention_waits_for_the_archive(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiving, "OVERLAP", 0)
    days = await Days.begin(stage)
    archive_here(stage.dsn, tmp_path)
    stage.tables.rows("UPDATE archived SET upto = 0")  # the stage's clock is behind the store's own
    await days.live(4)
    forget = partial(schedules.forget_fires, after=0, keep=1, limit=9)
    assert await stage.store.write(lambda tx: forget(tx)) == (0, None)
    assert archive_here(stage.dsn, tmp_path).rows["messages"] == 4
    DeltaTable(tmp_path / "fires").delete()  # its position is far ahead, by the store's own clock
    assert await stage.store.write(lambda tx: forget(tx)) == (3, None)
    assert stage.count("fire") == 1


async def test_a_lake_of_before_is_read_and_gets_them(stage: Stage, tmp_path: Path) -> None:
    """One that was made by an archiver that knew no fires."""
    days = await Days.begin(stage)
    await days.live(2)
    archive_here(stage.dsn, tmp_path)
    shutil.rmtree(tmp_path / "fires")
    assert "fires" not in Lake(str(tmp_path)).tables(alone=True)
    assert told(None, tmp_path, days.sent[0]) == []
    assert archive_here(stage.dsn, tmp_path).rows == {"fires": 2}
    assert [row["message_id"] for row in rows(tmp_path)] == days.sent


async def test_of_a_kept_one_that_was_sent_since_both_are_there(stage: Stage, tmp_path: Path) -> None:
    days = await Days.begin(stage)
    await days.live(1)
    archive_here(stage.dsn, tmp_path)
    stage.tables.rows(f"UPDATE fire SET outcome = 5, `at` = {_lately()}, message_id = NULL")
    archive_here(stage.dsn, tmp_path)
    assert [row["outcome"] for row in rows(tmp_path)] == ["fired", "cancelled"]


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_report_and_audit_know_them(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    """One that has another end since is no finding; one that the lake lacks, or has otherwise, is."""
    days = await Days.begin(stage)
    await days.live(4)
    await days.run()
    archive(spark, stage.dsn, tmp_path)
    same(spark, stage.dsn, tmp_path)
    stage.tables.rows(
        f"UPDATE fire SET outcome = 5, `at` = {_lately()}, message_id = NULL WHERE message_id = {days.sent[3]}"
    )
    archive(spark, stage.dsn, tmp_path)
    assert examine(spark, stage.dsn, str(tmp_path), SCOPE, None, 9)["findings"] == {}
    tables = open_tables(spark, stage.dsn, str(tmp_path))
    (row,) = schedule_figures.schedules(tables, Window(START, START + HOUR)).collect()
    assert (row.schedule, row.fired, row.caught_up, row.run, row.cancelled) == ("minutely", 3, 0, 1, 1)
    lake = DeltaTable(tmp_path / "fires")
    lake.delete(f"message_id = {days.sent[0]}")
    lake.update(predicate=f"message_id = {days.sent[1]}", updates={"outcome": "'run'"})
    found = examine(spark, stage.dsn, str(tmp_path), SCOPE, None, 9)
    totals = {kind: of["total"] for kind, of in found["findings"].items()}
    assert totals == {"not_in_lake": 1, "copy_differs": 1}, found

"""What is wrong, and that nothing is new, is told without Spark."""

import re
import sys
from pathlib import Path

import pytest

from support.lakes import archive_here
from support.server import client_of, start_server
from support.store_homes import dsn, homes, stage
from support.stores import Kind, Stage
from support.story import live
from support.terminal import Terminal
from tarry.pipeline import session
from tarry.pipeline.cli.app import run
from tarry.pipeline.errors import FAILED, NotFound
from tarry.pipeline.lake import archive
from tarry.pipeline.lake.lake import Lake
from tarry.pipeline.schemas import IN_LAKE

__all__ = ["dsn", "homes", "stage"]


@pytest.fixture
def kind() -> Kind:
    return "sqlite"


class _Started(Exception):
    """Spark was to be started."""


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object) -> None:
        raise _Started

    monkeypatch.setattr(session, "open_session", start)
    monkeypatch.setattr(session, "check", lambda: None)  # without Java too
    monkeypatch.delenv("TARRY_DSN", raising=False)


_JOBS = {
    "audit": ["audit"],
    "report": ["report", "--output", "nowhere"],
    "replay": ["replay", "--to-topic", "orders", "--dry-run"],
    "trace": ["trace", "--id", "7"],
}


@pytest.mark.parametrize("job", _JOBS)
async def test_a_wrong_topic_and_a_wrong_lake(
    job: str, stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await stage.publish(stage.draft(await stage.topic("orders")))
    archive_here(stage.dsn, tmp_path / "lake")
    places, archived = ["--dsn", stage.dsn], ["--lake", str(tmp_path / "lake")]
    for asked, where in ((places, "the store"), (archived, "the lake"), (places + archived, "the store or the lake")):
        if job == "audit" and asked == archived:
            continue  # its counters are in the store
        assert run([*_JOBS[job], *asked, "--topic", "oders"]) == NotFound.exit_code
        told = capsys.readouterr()
        last = told.err.splitlines()[-1]
        assert (told.out, last) == ("", f"tarry pipeline: --topic oders: there is no such topic in {where}")
        if job != "trace":
            with pytest.raises(_Started):
                run([*_JOBS[job], *asked, "--topic", "orders"])
    other = tmp_path / "other"
    (other / "messages").mkdir(parents=True)
    (other / "messages" / "_delta_log").mkdir()
    (other / "messages" / "_delta_log" / ("0" * 20 + ".json")).write_text("no JSON")
    assert run([*_JOBS[job], *places, "--lake", str(other)]) == FAILED
    assert re.search(r"the lake at .*other/messages cannot be used", capsys.readouterr().err)
    if job != "audit":
        assert run([*_JOBS[job], "--lake", str(tmp_path / "nothing")]) == FAILED
        assert "there is no lake at" in capsys.readouterr().err
    assert run([*_JOBS[job], "--dsn", f"sqlite:///{tmp_path}/no.db"]) == FAILED
    assert "there is no store at" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "says"),
    [
        (("--to-topic", "oders"), "tarry pipeline: there is no topic 'oders'"),
        (("--to-group", "billing"), "tarry pipeline: topic 'orders' has no group 'billing'"),
    ],
)
def test_a_target_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], target: tuple[str, str], says: str
) -> None:
    with start_server(tmp_path) as server, client_of(server) as tarry:
        tarry.publish("orders", 1)
        replay = ["replay", "--topic", "orders", "--dsn", server.dsn, "--server", server.url, "--dry-run"]
        assert run([*replay, *target]) == NotFound.exit_code
    told = capsys.readouterr()
    assert (told.out, told.err.startswith(says)) == ("", True)


def _names(folder: Path) -> list[str]:
    """But for the store's own."""
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("tarry.db"))


async def test_a_report_that_cannot_be_written(
    stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await stage.topic("orders")
    file = tmp_path / "file"
    file.touch()
    report = ["report", "--dsn", stage.dsn, "--output"]
    for place in (str(file), f"file://{file}/below", f"{file}/far/below", "/proc/report"):
        assert run([*report, place]) == FAILED
        assert f"--output {place} cannot be written: " in capsys.readouterr().err
    for place in (str(tmp_path / "new" / "one"), f"file://{tmp_path}/new", "s3a://bucket/report"):
        with pytest.raises(_Started):  # which is to look at the bucket
            run([*report, place])
    assert _names(tmp_path) == ["file"], "nothing is made before there is something to write"


async def test_few_rows_are_archived_and_nothing_new_is_told(
    stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await live(stage)
    lake = str(tmp_path / "lake")
    command = ["archive", "--dsn", stage.dsn, "--lake", lake]
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", terminal := Terminal())
        assert run([*command, "--rows", "7"]) == 0
    told = dict(line.split("\t") for line in capsys.readouterr().out.splitlines()[1:])
    counted = {table: stage.count(name) for table, name in (("messages", "message"), ("cancelled", "cancelled"))}
    counted["dead"] = stage.count("dead")
    assert {table: int(rows) for table, rows in told.items() if table != "deliveries"} == counted
    for table in IN_LAKE:
        snapshot = Lake(lake).open(table)
        assert snapshot is not None
        assert sum(row["num_records"] for row in snapshot.added()) == int(told.get(table, 0))
    every = sum(int(rows) for rows in told.values())
    shown = [
        (int(rows), int(total))
        for rows, total in re.findall(r"\rarchived (\d+) of about (\d+) rows, \w+ last", terminal.getvalue())
    ]
    assert shown == sorted(shown)
    assert shown[0][1] >= counted["messages"] > shown[0][0], "the total is told from the first line on"
    assert shown[-1] == (every, every)
    assert run(command) == 0
    assert capsys.readouterr().out == "nothing new\n"


async def test_many_rows_are_for_spark(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await stage.topic("orders")
    monkeypatch.setattr(archive, "HERE", 7)
    await stage.publish(*(stage.draft(topic, b"x") for _ in range(8)))
    with pytest.raises(_Started):
        run(["archive", "--dsn", stage.dsn, "--lake", str(tmp_path / "lake")])


async def test_another_lake_than_the_store_is_archived_to(
    stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await live(stage)
    command = ["archive", "--dsn", stage.dsn, "--lake"]
    assert run([*command, str(tmp_path / "one")]) == 0
    capsys.readouterr()
    assert run([*command, str(tmp_path / "two")]) == FAILED
    assert "the store was archived to another lake" in capsys.readouterr().err

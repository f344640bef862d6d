"""`tarry pipeline report` as people call it, and how `trace` is not: options, what is printed, exit codes."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import SparkSession

from support.literal_tables import literal_tables
from tarry import pipeline
from tarry.pipeline.cli.app import run
from tarry.pipeline.report.window import DAY, HOUR, LOOK_AHEAD, LOOK_BACK

pytestmark = pytest.mark.long


_NOON = 1_769_860_800_000  # 2026-01-31T12:00:00Z


class _History:
    """In place of the store and the lake: literal rows, and what was asked for."""

    def __init__(self, spark: SparkSession) -> None:
        plain = {"key": "order-7", "accepted_at": _NOON, "deliver_at": _NOON}
        self.tables = literal_tables(
            spark,
            messages=[plain | {"id": 7, "offset": 0}, plain | {"id": 8, "offset": 1, "topic": "other"}],
            deliveries=[{"offset": 0, "claimed_at": _NOON + 20, "settled_at": _NOON + 50, "outcome": "retried"}],
        )
        self.asked: list[dict[str, Any]] = []

    def open_tables(self, spark: SparkSession, dsn: str | None, lake: str | None, **asked: Any) -> Any:
        self.asked.append({"dsn": dsn, "lake": lake, **asked})
        return self.tables


@pytest.fixture
def history(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> _History:
    made = _History(spark)
    module: Any = ModuleType("tarry.pipeline.history")
    module.open_tables = made.open_tables
    module.check = lambda *_places: 3
    monkeypatch.setitem(sys.modules, "tarry.pipeline.history", module)
    monkeypatch.setattr(pipeline, "history", module, raising=False)  # where it is known already
    monkeypatch.delenv("TARRY_DSN", raising=False)
    return made


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(arguments)
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


def test_report(history: _History, command: Run, tmp_path: Path) -> None:
    place = str(tmp_path / "made")
    window = ("--from", "2026-01-31T12:00:00Z", "--to", "2026-01-31T13:00:00Z")
    named = ("--topic", "t", "--title", "Orders")
    code, out, _ = command("report", "--lake", "lake", "--output", place, *named, *window)
    assert (code, out) == (0, f"{place}/index.html\n")
    assert "Orders" in Path(place, "index.html").read_text("utf-8")
    asked = {"dsn": None, "lake": "lake", "topics": ["t"]}
    assert history.asked == [asked | {"since": _NOON - LOOK_BACK, "until": _NOON + HOUR + LOOK_AHEAD, "bodies": False}]


def test_a_report_of_a_long_window_reads_as_much_before_it_and_says_that_it_is_empty(
    history: _History, command: Run, tmp_path: Path
) -> None:
    begin, end = "2000-01-01T00:00:00Z", "2001-01-31T12:00:00Z"
    code, _, err = command("report", "--lake", "lake", "--output", str(tmp_path), "--from", begin, "--to", end)
    assert (code, err) == (0, "tarry pipeline: there is no message in this window\n")
    (asked,) = history.asked
    assert asked["until"] - asked["since"] == 2 * (396 * DAY + DAY // 2) + LOOK_AHEAD


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["report", "--output", "x", "--from", "yesterday"], "--from"),
        (["report", "--output", "x", "--from", "2026-01-31T12:00:00Z", "--to", "2026-01-31T12:00:00Z"], "before --to"),
        (["report"], "--output"),
        (["trace"], "--id ID, or --key KEY"),
        (["trace", "--id", "7", "--key", "k"], "--id ID, or --key KEY"),
        (["trace", "--id", "7x"], "is not an id"),
        (["trace", "--id", str(1 << 63)], "is not an id"),
        (["trace", "--key", "k", "--max", "0"], "--max"),
    ],
)
def test_usage(command: Run, arguments: list[str], says: str) -> None:
    code, _, err = command(*arguments)
    assert code == 2
    assert says in err

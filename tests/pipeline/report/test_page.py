"""The page and the files beside it: what an hour left behind, and nothing at all."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from support.literal_tables import literal_tables
from support.screens import Tags
from tarry.pipeline.errors import PipelineError
from tarry.pipeline.report.catalogue import FIGURES
from tarry.pipeline.report.findings import findings
from tarry.pipeline.report.job import Report, make_report
from tarry.pipeline.report.output import open_folder
from tarry.pipeline.report.page import Known
from tarry.pipeline.report.window import HOUR, MINUTE
from tarry.pipeline.schemas import Tables

pytestmark = pytest.mark.long


def _history(spark: SparkSession) -> Tables:
    """An hour of `orders`, with a message a minute: one group is behind, and has had failures; a topic nobody reads."""
    times = [HOUR + n * MINUTE for n in range(60)]
    messages = [{"topic": "orders", "id": n, "offset": n, "deliver_at": at} for n, at in enumerate(times)]
    unread = {"topic": "unread", "topic_id": 2, "queue_id": 2, "deliver_at": HOUR}
    messages += [unread | {"id": 100 + n, "offset": n} for n in range(5)]
    mails: dict[str, object] = {"topic": "orders", "group": "mails", "group_id": 1}
    billing = mails | {"group": "billing", "group_id": 2}
    cursors = [mails | {"position": 59}, billing | {"position": 30}]
    deliveries = [
        group | {"offset": n, "claimed_at": times[n] + 20, "settled_at": times[n] + 900}
        for group, end in ((mails, 59), (billing, 30))
        for n in range(end)
    ]
    died = billing | {"offset": 3, "claimed_at": times[3] + 20, "settled_at": times[3] + MINUTE, "client": "gone"}
    deliveries[59 + 3] = died | {"outcome": "lost"}
    back = {"queue_id": 9, "offset": 0, "message_queue_id": 1, "message_offset": 3, "attempt": 2}
    deliveries.append(died | back | {"claimed_at": times[6], "settled_at": times[7], "outcome": "lost_dead"})
    reasons = json.dumps([{"at": 1, "client": "gone", "reason": "lease lost"}])
    letter = billing | {"id": 3, "offset": 3, "deliver_at": times[3], "dead_at": times[7], "history": reasons}
    return literal_tables(spark, messages=messages, deliveries=deliveries, dead=[letter], cursors=cursors)


@pytest.fixture(scope="module")
def report(spark: SparkSession) -> Report:
    known = Known(store=True, lake="/a lake", now=2 * HOUR, unread=frozenset({"unread", "empty"}))
    return make_report(_history(spark), known, title="Orders")


def test_the_page_of_an_hour(report: Report) -> None:
    text = report.page()
    assert Tags(text).open == []
    assert text.count("Nothing of this in the window") == 2, "the topic has one queue, and there is no schedule"


def test_what_stands_out(report: Report) -> None:
    rows = {name: made.rows for name, made in report.made.items()}
    found = findings(rows, report.window, report.known.unread)
    assert [finding.figure for finding in found[:3]] == ["slow_groups", "dead_letters", "lost_leases"]
    assert found[0].text.startswith("orders / billing is behind: 30 messages waiting")
    assert all(finding.level != "bad" for finding in found[2:])
    assert "Nobody reads unread: 5 messages, and no group." in [finding.text for finding in found]


def test_from_a_figure_to_the_life_of_a_message(report: Report) -> None:
    """A command to copy, quoted for a shell, with the oldest message of each group."""
    text = report.page()
    assert "<code>tarry pipeline trace --lake &#39;/a lake&#39; --id 30 --id 59</code>" in text
    assert "<code>tarry show 30</code>" in text


def test_the_figures_are_files_for_programs(report: Report, spark: SparkSession, tmp_path: Path) -> None:
    with open_folder(spark, str(tmp_path / "made")) as folder:
        page = report.write(folder)
    assert Path(page) == tmp_path / "made" / "index.html"
    assert Path(page).read_text("utf-8") == report.page()
    files = {str(path.relative_to(tmp_path / "made")) for path in (tmp_path / "made").rglob("*") if path.is_file()}
    names = [f"figures/{figure.name}.{kind}" for figure in FIGURES for kind in ("json", "parquet")]
    assert files == {"index.html", *names}
    parquet: Any = import_module("pyarrow.parquet")
    for figure in FIGURES:
        told: dict[str, Any] = json.loads((tmp_path / f"made/figures/{figure.name}.json").read_text("utf-8"))
        table = parquet.read_table(tmp_path / "made" / "figures" / f"{figure.name}.parquet")
        assert table.num_rows == len(told["rows"])
        assert table.num_rows or figure.name in ("queues", "schedules")
        assert table.column_names == list(told["columns"]) == figure.schema.names
        assert told["from"] == "1970-01-01T01:00:00.000Z"


def test_a_folder_may_be_a_url(report: Report, spark: SparkSession, tmp_path: Path) -> None:
    with open_folder(spark, f"file://{tmp_path}/url") as folder:
        assert report.write(folder) == f"{tmp_path}/url/index.html"


def test_a_folder_that_cannot_be_written_is_told_at_once(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="--output nowhere://x"), open_folder(spark, "nowhere://x/y"):
        raise AssertionError("unreachable")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(PipelineError, match="cannot be written"), open_folder(spark, str(tmp_path / "file")):
        raise AssertionError("unreachable")


def test_a_page_of_nothing(spark: SparkSession) -> None:
    text = make_report(literal_tables(spark), Known(store=False, lake="lake", now=HOUR), since=0, until=HOUR).page()
    assert Tags(text).open == []
    assert text.count("Nothing of this in the window.") == 12
    assert "Nothing happened in this window." in text
    assert "No message is known" in text
    assert "Only the lake was read." in text
    assert "<svg" not in text


def test_names_of_others_do_no_harm(spark: SparkSession) -> None:
    """Topics, groups, clients and reasons come from outside."""
    name = '<script>alert("$x^2$")</script> & a very long name of a topic, longer than there is room'
    reason = [{"at": 1, "client": "c", "reason": name}]
    tables = literal_tables(
        spark,
        messages=[{"topic": name, "offset": n, "deliver_at": n} for n in range(3)],
        deliveries=[
            {"topic": name, "group": name, "offset": 0, "claimed_at": 5, "client": name, "outcome": "lost_dead"},
            {"topic": name, "group": name, "offset": 1, "claimed_at": 5, "settled_at": 9},
        ],
        dead=[{"topic": name, "group": name, "id": 1, "deliver_at": 0, "dead_at": 5, "history": json.dumps(reason)}],
    )
    text = make_report(tables, Known(store=True, lake=None, now=HOUR), since=0, until=HOUR, topics=[name]).page()
    assert Tags(text).open == []
    assert "<script" not in text
    assert "$x^2$" in text

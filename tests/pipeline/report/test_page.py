"""The page and the files beside it: what the flights of a day left behind, and nothing at all."""

import json
import re
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from support.flight_history import NIGHT, SAMPLE, flight_tables, flights
from support.literal_tables import literal_tables
from tarry.pipeline.errors import PipelineError
from tarry.pipeline.report.catalogue import FIGURES
from tarry.pipeline.report.findings import findings
from tarry.pipeline.report.job import Report, make_report
from tarry.pipeline.report.output import open_folder
from tarry.pipeline.report.page import Known
from tarry.pipeline.report.window import HOUR

pytestmark = pytest.mark.long


_NAMES = {figure.name for figure in FIGURES}
_VOID = {"meta", "br", "hr", "img", "input", "link"}


class _Tags(HTMLParser):
    """Every tag is closed, and every link of the page leads somewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        if tag not in _VOID:
            self.open.append(tag)
        if told.get("id"):
            self.ids.append(told["id"] or "")
        if told.get("href"):
            self.links.append(told["href"] or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def report(spark: SparkSession) -> Report:
    tables = flight_tables(spark, flights(SAMPLE))
    known = Known(store=True, lake="/a lake", now=NIGHT, unread=frozenset({"DL", "empty"}))
    return make_report(tables, known, title="Departures <from> New York")


def test_the_page_of_a_day_of_flights(report: Report) -> None:
    text = report.page()
    tags = _Tags(text)
    assert tags.open == []
    assert text.count('<svg role="img" aria-label="') == 20, "ten, each for a screen and for a telephone"
    assert text.count("Nothing of this in the window") == 2, "each carrier has one queue, and none a schedule"
    assert "Departures &lt;from&gt; New York" in text
    sections = {link[1:] for link in tags.links if link.startswith("#") and link[1:] in _NAMES}
    assert sections == _NAMES - {"overview", "punctuality"} <= set(tags.ids)


def test_the_page_stands_alone(report: Report) -> None:
    """One file: it loads nothing, and its colours are those of the reader's screen."""
    text = report.page()
    assert re.findall(r'<(?:script|link|img|iframe)\b|\bsrc="|@import|url\((?!#)', text) == []
    drawings = "".join(re.findall(r"<svg.*?</svg>", text, re.DOTALL))
    assert set(re.findall(r"#[0-9a-fA-F]{6}\b", drawings)) <= {"#000000"}
    used = set(re.findall(r"var\(--(\w+)\)", text))
    light, dark, printed = (set(re.findall(r"--(\w+): #", part)) for part in text.split(":root {")[1:4])
    assert used <= light
    assert light == dark == printed


def test_what_stands_out_of_the_flights(report: Report) -> None:
    rows = {name: made.rows for name, made in report.made.items()}
    found = findings(rows, report.window, report.known.unread)
    assert [finding.figure for finding in found[:3]] == ["slow_groups", "dead_letters", "lost_leases"]
    assert found[0].text.startswith("UA / baggage is behind: 28 messages waiting")
    assert all(finding.level != "bad" for finding in found[2:])
    assert "Nobody reads DL: 141 messages, and no group." in [finding.text for finding in found]


def test_from_a_figure_to_the_life_of_a_message(report: Report) -> None:
    """A command to copy, quoted for a shell, with ids that the history has."""
    text = report.page()
    oldest = [row["oldest_id"] for row in report.made["slow_groups"].rows if row["oldest_id"] is not None]
    assert oldest
    wanted = " ".join(f"--id {id_}" for id_ in oldest)
    assert f"<code>tarry pipeline trace --lake &#39;/a lake&#39; {wanted}</code>" in text
    assert f"<code>tarry show {oldest[0]}</code>" in text


def test_on_a_narrow_screen_each_cell_says_what_it_is(report: Report) -> None:
    cells = re.findall(r"<td ([^>]*)>", report.page())
    assert cells
    assert all(re.search(r'data-name="[^">]+"', cell) for cell in cells)


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
        assert told["from"] == "2013-11-27T10:00:00.000Z"


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
    assert _Tags(text).open == []
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
    assert _Tags(text).open == []
    assert "<script" not in text
    assert "$x^2$" in text

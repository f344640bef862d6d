"""The reference tells of every figure, every column, every event and every option."""

import re
from pathlib import Path

import pytest
from attrs import fields

from tarry.pipeline.cli.app import app
from tarry.pipeline.report.catalogue import FIGURES, Figure
from tarry.pipeline.trace.timeline import EVENTS, Event

_DOCS = Path(__file__).parents[3] / "docs"
_REFERENCE = (_DOCS / "reference" / "pipeline-report.md").read_text("utf-8")
_HOW_TO = (_DOCS / "how-to" / "report.md").read_text("utf-8")


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_a_figure_is_told_with_its_columns(figure: Figure) -> None:
    (line,) = re.findall(rf"^\| `{figure.name}` \| (.*) \|$", _REFERENCE, re.MULTILINE)
    assert re.findall(r"(?:^|, )`(\w+)`", line) == figure.schema.names


def test_how_to_read_each_figure_is_told() -> None:
    told = re.findall(r"^\| ([A-Z][^|]*) \|", _HOW_TO, re.MULTILINE)
    titles = [figure.title.removeprefix("The ").capitalize() for figure in FIGURES[2:]]
    assert [title.removeprefix("The ").capitalize() for title in told] == titles


def test_events_and_columns_of_a_time_line_are_told() -> None:
    table = _REFERENCE.split("| `what` | |")[1]
    assert set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| ([^|]*) \|", table, re.MULTILINE)))) == set(EVENTS)
    assert re.findall(r"^Columns: (.*)\. `held_ms`", _REFERENCE, re.MULTILINE) == [
        ", ".join(f"`{field.name}`" for field in fields(Event))
    ]


@pytest.mark.parametrize("command", ["report", "trace"])
def test_options_are_told(command: str) -> None:
    arguments = app[command].assemble_argument_collection()
    names = {argument.name for argument in arguments}
    assert names - {f"--{name}" for name in re.findall(r"`--([a-z]+)", _REFERENCE)} == set()

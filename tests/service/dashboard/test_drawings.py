"""Drawings and words: numbers in, text out."""

import csv
import io
import re
from typing import Any
from xml.etree import ElementTree

import pytest

from tarry.service.dashboard import words
from tarry.service.dashboard.pictures.bars import bars
from tarry.service.dashboard.pictures.funnel import funnel
from tarry.service.dashboard.pictures.heat import about, heat
from tarry.service.dashboard.pictures.lifeline import lifeline
from tarry.service.dashboard.pictures.ring import ring
from tarry.service.dashboard.tables import Column, Table
from tarry.service.dashboard.words import ranges

DEFAULT = [10_000, 30_000, *[60_000 * n for n in range(1, 11)], 1_200_000, 1_800_000, 3_600_000, 7_200_000]


def sound(svg: str) -> ElementTree.Element:
    """It is XML, tells what it is about, and has no style of its own."""
    drawn = ElementTree.fromstring(svg)
    assert drawn.get("role") == "img"
    assert drawn.get("aria-label")
    assert not [one for one in drawn.iter() if one.get("style")]
    return drawn


def test_the_ring_has_a_tick_for_each_slot_in_use() -> None:
    slots = [0] * 3600
    slots[0], slots[900], slots[3599] = 1, 1000, 10
    drawn = sound(ring(slots, 900))
    (ticks,) = [one for one in drawn.iter() if one.get("class") == "ticks"]
    lines = re.findall(r"M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)", ticks.get("d") or "")
    assert len(lines) == 3
    lengths = [((float(x2) - float(x1)) ** 2 + (float(y2) - float(y1)) ** 2) ** 0.5 for x1, y1, x2, y2 in lines]
    assert lengths[0] < lengths[2] < lengths[1]
    (hand,) = [one for one in drawn.iter() if one.get("class") == "hand"]
    assert hand.get("transform") == "rotate(90.0 130 130)"
    (below,) = [one for one in drawn.iter() if one.text == "timers"]
    half, foot = 0.26 * 10.5 * len(below.text or ""), float(below.get("y") or 0) - 130
    assert 130 - float(hand.get("y1") or 0) > (half**2 + foot**2) ** 0.5, "the hand never crosses the text"
    assert "1,011 timers in 3 of its 3,600 slots" in (drawn.get("aria-label") or "")


@pytest.mark.parametrize(
    ("told", "local", "utc"),
    [
        ("2026-11-21T10:00", "2026-11-21T10:00:00", "2026-11-21T10:00:00Z"),
        ("2026-11-21T10:00:07", "2026-11-21T10:00:07", "2026-11-21T10:00:07Z"),
        ("2026-11-21T10:00:07.250Z", "2026-11-21T10:00:07", "2026-11-21T10:00:07.250Z"),
        ("2026-11-21T11:00:00+01:00", "2026-11-21T10:00:00", "2026-11-21T11:00:00+01:00"),
        ("0001-01-01T00:00:00+23:00", "", "0001-01-01T00:00:00+23:00"),
        ("yesterday", "", "yesterday"),
        ("2026-11-21", "", "2026-11-21"),
        ("", "", ""),
    ],
)
def test_a_time_that_a_browser_sends_is_utc(told: str, local: str, utc: str) -> None:
    assert (words.local(told), words.utc(told)) == (local, utc)


@pytest.mark.parametrize("slots", [[0] * 3600, [10**9] * 3600])
def test_a_ring_of_nothing_and_of_very_much(slots: list[int]) -> None:
    assert len(ring(slots, 0)) < 120_000
    sound(ring(slots, 3599))


def test_bars_are_as_high_as_they_count() -> None:
    drawn = sound(bars([0, 1, 4], ["a", "b", "c"], "Due"))
    heights = [float(one.get("height") or 0) for one in drawn.iter() if one.get("class") == "bar"]
    assert heights[1] == pytest.approx(4 * heights[0], rel=0.01)
    assert "5 messages, at most 4" in (drawn.get("aria-label") or "")
    sound(bars([], [], "Due"))
    sound(bars([0], ["<b>"], "Due"))


def test_bars_of_times_say_when_they_begin() -> None:
    """So that a page may show them in another zone."""
    drawn = sound(bars([1, 2], ["10:00", "11:00"], "Due", times=[3_600_000, 7_200_000]))
    marked = [one for one in drawn.iter() if one.get("data-at")]
    assert {(one.tag, one.get("data-at"), one.text) for one in marked} == {
        ("title", "3600000", "10:00: 1 message"),
        ("title", "7200000", "11:00: 2 messages"),
        ("text", "3600000", "10:00"),
        ("text", "7200000", "11:00"),
    }
    assert {one.get("data-rest") for one in marked} == {None, ": 1 message", ": 2 messages"}


def test_heat_tells_the_99th() -> None:
    counts = [[99, 0, 0], [0, 0, 1]]
    assert about(counts, [1, 10], "20 s").endswith("of 100 messages 99 in 100 up to 1 ms late")
    assert about([[98, 0, 2]], [1, 10], "20 s").endswith("over 10 ms late")
    drawn = sound(heat(counts, [1, 10], 10_000))
    assert len([one for one in drawn.iter() if one.get("class") == "cell"]) == 2
    assert "nothing was delivered" in (sound(heat([[0, 0, 0]], [1, 10], 10_000)).get("aria-label") or "")


def test_the_funnel_has_all_rungs_and_the_dead() -> None:
    drawn = sound(funnel([5] + [0] * 14 + [1], DEFAULT, 7))
    assert drawn.get("aria-label") == "The ladder: 6 deliveries wait on 16 rungs, 7 dead letters"
    assert len([one for one in drawn.iter() if (one.get("class") or "").startswith("bar")]) == 17
    sound(funnel([], [], 0))


def test_a_life_to_the_millisecond() -> None:
    life: list[dict[str, Any]] = [
        {"what": "scheduled", "at": "2026-11-21T10:00:00.000Z"},
        {"what": "claimed", "at": "2026-11-21T10:00:00.007Z", "group": "g", "client": "c", "attempt": 1, "late": 7},
        {"what": "failed", "at": "2026-11-21T10:00:01.007Z", "group": "g", "reason": "<b>"},
        {"what": "acked", "at": "2026-11-21T12:00:01.007Z"},
    ]
    steps = lifeline(life)
    assert [step.since for step in steps] == ["", "+7 ms", "+1 s", "+2 h"]
    assert [step.mood for step in steps] == ["plain", "plain", "bad", "good"]
    assert [step.late for step in steps] == ["", "7 ms late", "", ""]
    assert lifeline([]) == []


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1 s"),
        (1500, "1.500 s"),
        (90_000, "1 min 30 s"),
        (90_061_000, "1 d 1 h"),
        (None, ""),
    ],
)
def test_durations(ms: int | None, said: str) -> None:
    assert words.duration(ms) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0"),
        (9999, "9,999"),
        (10_000, "10.0 k"),
        (123_456, "123 k"),
        (1_234_567, "1.2 M"),
        (2e9, "2.0 G"),
        (0.5, "0.5"),
        (2.0, "2"),
    ],
)
def test_short_numbers(value: float, said: str) -> None:
    assert words.short(value) == said


@pytest.mark.parametrize(
    ("numbers", "said"),
    [([], ""), ([0], "0"), ([0, 1, 2, 5], "0-2, 5"), ([3, 1, 2], "1-3"), (list(range(16)), "0-15"), ([1, 3], "1, 3")],
)
def test_ranges(numbers: list[int], said: str) -> None:
    assert ranges(numbers) == said


UNSEEN = ["", *" \t\n\0\x1b\u00a0\u2003\u3000\ufeff\u200b\u202e\u2028\u00ad\u180e\ufe0f\u3164\u0300"]
UNSEEN += ["\r\n", "\v\f", " \t\n ", "\ufeff \n"]


def as_csv(cells: list[str]) -> list[list[str]]:
    """The rows of a table of one column, below its head."""
    table = Table("t", "T", (Column("key", "Key"),), [{"key": cell} for cell in cells], "/v1/t")
    return list(csv.reader(io.StringIO(table.csv().decode(), newline="")))[1:]


@pytest.mark.parametrize(
    "sign", ["=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\ufe66", "\u207a", "\ufe63", "\ufe6b"]
)
def test_what_a_spreadsheet_takes_for_a_formula_is_quoted(sign: str) -> None:
    """Behind whatever it passes over."""
    cells = [f"{unseen}{sign}1+1" for unseen in UNSEEN]
    assert as_csv(cells) == [["'" + cell] for cell in cells]


def test_what_is_none_is_left_as_it_is() -> None:
    cells = ["order-7", " a", "a=1", "\u00e9+", "7", "\u65e5", "(=1)", "a\n=1", " ", ""]
    assert as_csv(cells) == [[cell] for cell in cells]


def test_a_table_as_csv_and_commands() -> None:
    columns = (Column("name", "Name"), Column("many", "Many", "number"), Column("list", "List", "list"))
    rows: list[dict[str, Any]] = [
        {"name": "a,b", "many": 1, "list": [1, 2]},
        {"name": '=cmd|"/c"', "many": None, "list": []},
    ]
    table = Table("t", "T", columns, rows, "/v1/t", {"key": "it's & <x>", "cursor": None}, cli=("tarry", "t", "a b"))
    assert table.csv() == b'name,many,list\r\n"a,b",1,1 2\r\n"\'=cmd|""/c""",,\r\n'
    assert table.address == "/v1/t?key=it%27s+%26+%3Cx%3E"
    assert table.curl("http://h", key=True) == (
        "curl -s -H \"Authorization: Bearer $TARRY_KEY\" 'http://h/v1/t?key=it%27s+%26+%3Cx%3E'"
    )
    assert table.command == "tarry t 'a b'"

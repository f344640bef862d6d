"""The page on a telephone and on a wide screen, light and dark, with the longest names and biggest numbers.

Of literal rows, without Spark and without a browser: what its HTML, its CSS and its drawings say.
"""

import re
from itertools import pairwise
from typing import Any

import pytest

from support.screens import Tags, contrast, cut_texts, width_of
from tarry.pipeline.report.catalogue import FIGURES
from tarry.pipeline.report.page import Known, page
from tarry.pipeline.report.window import MINUTE, Window
from tarry.pipeline.times import moment

TOPIC = "customer-notifications.eu-central-1.transactional_mail"
GROUP = "warehouse-fulfilment-workers"
NOON = 1_769_860_800_000  # 2026-01-31T12:00:00Z
WINDOW = Window(NOON, NOON + 55 * MINUTE, is_now=True)
MANY = 123_456_789
_ROOM = 420 - 2 * 12 - 2 * 16
"""What the margins of the page and of a section leave of a telephone's 420 pixels."""


def _figures() -> dict[str, list[dict[str, Any]]]:
    """A row or two of each."""
    topic, group = {"topic": TOPIC}, {"topic": TOPIC, "group": GROUP}
    late = {"p50": 5, "p99": 3 * 60 * MINUTE + 59 * MINUTE, "p999": 5 * 60 * MINUTE, "streamed_p99": 9}
    first, last = moment(NOON), moment(WINDOW.until - 1)
    counts = {"deliveries": MANY, "acked": MANY, "failed": 0, "lost": MANY, "dead": MANY}
    return {
        "overview": [
            {"suppressed": MANY, "replaced": None, "expired": MANY}
            | {"messages": MANY, "cancelled": 0, "waiting": 0, "overdue": 0, "oldest_overdue": None, "unplaced": 0}
            | {"first": first, "last": last}
            | counts
        ],
        "punctuality": [late | {"handed_out": MANY, "waiting": 0, "early": 0, "unsettled": MANY, "behind": 1}],
        "rate": [
            {"at": moment(at), "seconds": 60.0, "streamed": MANY, "acked": MANY, "failed": 1}
            for at in range(NOON, WINDOW.until, MINUTE)
        ],
        "backlog": [
            group | {"at": at, "arrived": 0, "settled": 0, "backlog": backlog}
            for at, backlog in ((first, 0), (last, MANY))
        ],
        "slow_groups": [
            group
            | {"arrived": MANY, "settled": 0, "unsettled": MANY, "waiting": MANY, "oldest": late["p999"]}
            | {"oldest_id": 71, "late_p50": 5, "late_p99": late["p99"]}
        ],
        "topics": [
            topic
            | {"suppressed": MANY}
            | {"messages": MANY, "scheduled": 9, "cancelled": 0, "waiting": MANY, "before": MANY // 100, "growth": 99.0}
        ],
        "queues": [
            topic
            | {"queues": 128, "messages": MANY, "fullest": 127, "fullest_messages": MANY, "emptiest_messages": 0}
            | {"skew": 128.0}
        ],
        "lateness": [
            topic | late | {"hour": moment(at), "handed_out": MANY, "waiting": 0, "latest_id": 72}
            for at in range(NOON, WINDOW.until, WINDOW.cell)
        ],
        "handling": [group | {"handled": MANY, "p50": 5, "p99": late["p99"], "longest": late["p999"]}],
        "ladder": [{"attempt": attempt} | counts | {"other": 0} for attempt in range(1, 17)],
        "dead_letters": [
            group
            | {"reason": "https://gate.example.com/v1/boarding?attempt=3", "dead": MANY, "first": first, "last": last}
            | {"last_id": 73, "reason_dead": MANY}
        ],
        "lost_leases": [
            group
            | {"client": "ip-10-11-12-13.compute.internal", "lost": MANY, "dead": 0, "deliveries": MANY, "share": 1.0}
            | {"held_p50": late["p50"], "last": last, "client_lost": MANY}
        ],
        "schedules": [
            topic
            | {"schedule": "every-hour-of-the-winter-timetable", "fired": MANY, "caught_up": MANY, "missed": MANY}
            | {"overlapped": MANY, "queued": 1, "cancelled": 0, "run": MANY, "backfilled": MANY}
            | {"late_p50": late["p50"], "late_p99": late["p99"], "longest": late["p999"], "last": last}
        ],
        "due_minutes": [topic | {"minute": first, "messages": MANY, "waiting": 1, "topic_messages": MANY}],
    }


@pytest.fixture(scope="module")
def text() -> str:
    return page("Orders <of> ours", WINDOW, _figures(), Known(store=True, lake=None, now=WINDOW.until))


def _rule(text: str, selector: str, media: str = "") -> dict[str, str]:
    """What the page's CSS says of a selector, in a `@media` or in none."""
    css = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)[0]
    blocks = {head.strip(): body for head, body in re.findall(r"@media ([^{]+)\{((?:[^{}]*\{[^{}]*\})*[^{}]*)\}", css)}
    plain = re.sub(r"@media [^{]+\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}|/\*.*?\*/", "", css)
    rules = re.findall(r"([^{}]+)\{([^{}]*)\}", blocks[media] if media else plain)
    said: dict[str, str] = {}
    for names, body in rules:
        if selector in (name.strip() for name in names.split(",")):
            said |= {key.strip(): value.strip() for key, _, value in (part.partition(":") for part in body.split(";"))}
    return said


def _section(text: str, figure: str) -> str:
    return text.split(f'<section aria-labelledby="{figure}">')[1].split("</section>")[0]


def _rows(section: str) -> list[list[str]]:
    """Of its table."""
    rows = re.findall(r"<tr>\s*(<td.*?)\s*</tr>", section, re.DOTALL)
    return [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in rows]


_TELEPHONE = "screen and (max-width: 600px)"


def test_the_page_has_a_section_for_each_figure(text: str) -> None:
    tags = Tags(text)
    assert tags.open == []
    names = {figure.name for figure in FIGURES}
    sections = {link[1:] for link in tags.links if link.startswith("#") and link[1:] in names}
    assert sections == names - {"overview", "punctuality"} <= set(tags.ids)
    assert "Orders &lt;of&gt; ours" in text


def test_the_page_stands_alone(text: str) -> None:
    """One file: it loads nothing, and its colours are those of the reader's screen."""
    assert re.findall(r'<(?:script|link|img|iframe)\b|\bsrc="|@import|url\((?!#)', text) == []
    drawings = "".join(re.findall(r"<svg.*?</svg>", text, re.DOTALL))
    assert set(re.findall(r"#[0-9a-fA-F]{6}\b", drawings)) <= {"#000000"}
    used = set(re.findall(r"var\(--(\w+)\)", text))
    light, dark, printed = (set(re.findall(r"--(\w+): #", part)) for part in text.split(":root {")[1:4])
    assert used <= light
    assert light == dark == printed


def test_on_a_narrow_screen_each_cell_says_what_it_is(text: str) -> None:
    cells = re.findall(r"<td ([^>]*)>", text)
    assert cells
    assert all(re.search(r'data-name="[^">]+"', cell) for cell in cells)


def test_no_words_of_a_chart_are_cut(text: str) -> None:
    narrow = re.findall(r'<div class="chart narrow">(.*?)</div>', text, re.DOTALL)
    wide = re.findall(r'<div class="chart">(.*?)</div>', text, re.DOTALL)
    assert len(narrow) == len(wide) == 12
    assert [width_of(drawing) for drawing in narrow if width_of(drawing) > _ROOM] == []
    assert [cut for drawing in (*narrow, *wide) for cut in cut_texts(drawing)] == []


def test_the_first_time_below_a_chart_stands_clear_of_the_zero_beside_it(text: str) -> None:
    for drawing in re.findall(r"<svg.*?</svg>", _section(text, "rate"), re.DOTALL):
        (zero,) = re.findall(r'y="([\d.]+)"[^>]*>0</text>', drawing)
        noon = re.findall(r'y="([\d.]+)"[^>]*>12:00</text>', drawing)[0]
        assert float(noon) - float(zero) >= 14, "more than a line's height"


def test_a_telephone_has_its_own_charts_and_each_row_as_a_block(text: str) -> None:
    assert _rule(text, ".chart")["overflow-x"] == "auto"
    assert _rule(text, ".chart.narrow") == {"display": "none", "": ""}
    assert _rule(text, ".chart", _TELEPHONE)["display"] == "none"
    assert _rule(text, ".chart.narrow", _TELEPHONE)["display"] == "block"
    assert _rule(text, "thead", _TELEPHONE)["display"] == "none"
    assert _rule(text, "tr", _TELEPHONE)["display"] == "grid"
    assert _rule(text, "td::before", _TELEPHONE)["content"] == "attr(data-name)"
    assert _rule(text, "td.right", _TELEPHONE)["flex-wrap"] == "wrap", "a number too long goes below its name"


def test_words_break_only_where_they_do_not_fit(text: str) -> None:
    """A name without spaces would else reach over the side of the screen."""
    assert "word-break" not in text
    assert _rule(text, "body")["overflow-wrap"] == "break-word"
    assert _rule(text, "td")["overflow-wrap"] == "anywhere"
    assert _rule(text, ".right") | {"white-space": "nowrap", "overflow-wrap": "normal"} == _rule(text, ".right")
    assert "median\u00a05\u00a0ms, p99.9\u00a05\u00a0h<" in text, "a line of a tile ends after a whole duration"


def test_a_table_that_is_too_wide_goes_below_its_chart(text: str) -> None:
    beside, parts = _rule(text, ".beside"), _rule(text, ".beside > *")
    assert (beside["display"], beside["flex-wrap"]) == ("flex", "wrap")
    assert parts["flex"].endswith(" auto"), "as wide as what is in it"
    assert parts["max-width"] == "100%"


@pytest.mark.parametrize("scheme", [1, 2, 3], ids=["light", "dark", "printed"])
def test_what_is_to_be_read_can_be_told_from_what_is_behind(text: str, scheme: int) -> None:
    colours = dict(re.findall(r"--(\w+): (#\w{6})", text.split(":root {")[scheme].split("}")[0]))
    for ground in ("card", "paper"):
        for ink in ("ink", "soft", "blue"):
            assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
    # A cell of the best lateness is not an empty one; where a scale goes on in another hue, that tells.
    scale = [colours[name] for name in ("card", "heat0", "heat1", "heat2", "heat3", "heat4")]
    assert [pair for pair in pairwise(scale) if contrast(*pair) < 1.2] == []


@pytest.mark.parametrize(("figure", "id_"), [("slow_groups", 71), ("lateness", 72), ("dead_letters", 73)])
def test_each_figure_that_has_messages_leads_to_them(text: str, figure: str, id_: int) -> None:
    section = _section(text, figure)
    assert re.findall("<code>(.*)</code>", section) == [f"tarry pipeline trace --id {id_}", f"tarry show {id_}"]


def test_of_a_lake_alone_no_command_asks_a_store() -> None:
    told = page("Orders", WINDOW, _figures(), Known(store=False, lake="lake", now=WINDOW.until))
    assert "<code>tarry pipeline trace --lake lake --id 71</code>" in told
    assert "tarry show" not in told


def test_a_heat_map_of_less_than_an_hour_is_as_wide_as_its_window(text: str) -> None:
    """Eleven cells of five minutes, one beside the other, and the times below them."""
    section = _section(text, "lateness")
    drawing = re.findall(r'<div class="chart narrow">(.*?)</div>', section, re.DOTALL)[0]
    cells = re.findall(r'<path d="M ([\d.]+) [^"]*" clip-path', drawing)
    assert len(cells) == 3 * 11
    assert len(set(cells)) == 11
    assert max(map(float, cells)) - min(map(float, cells)) > width_of(drawing) / 2
    assert "12:15:00" in drawing
    assert ">12:15:00</td>" in section


def test_a_topic_that_nobody_reads_is_remarked() -> None:
    known = Known(store=True, lake=None, now=WINDOW.until, unread=frozenset({TOPIC}))
    remark = f"Nobody reads {TOPIC}: 246,913,578 messages, and no group."
    assert remark in page("Orders", WINDOW, _figures(), known)
    nothing_came = _figures() | {"topics": [_figures()["topics"][0] | {"messages": 0, "waiting": 0}]}
    assert "Nobody reads" not in page("Orders", WINDOW, nothing_came, known)


def test_the_rate_is_by_the_second_whatever_a_step_is() -> None:
    """Steps of a minute, and a last one that is half as long and has half as many messages: the line stays level."""
    window = Window(NOON, NOON + 54 * MINUTE + MINUTE // 2)
    steps: list[dict[str, Any]] = [
        {"at": moment(at), "seconds": min(MINUTE, window.until - at) / 1000, "streamed": 0, "acked": 0, "failed": 0}
        for at in range(NOON, window.until, MINUTE)
    ]
    steps = [row | {"streamed": round(row["seconds"] * 4)} for row in steps]
    steps[10] |= {"failed": 30}
    told = page("Orders", window, _figures() | {"rate": steps}, Known(store=True, lake=None, now=window.until))
    section = _section(told, "rate")
    assert _rows(section)[0] == ["into the stream", "13,080", "4", "4", "12:00:00"]
    assert _rows(section)[2] == ["failed", "30", "0.0092", "0.5", "12:10:00"]
    lines = re.findall(r'<path d="(M [^"]*)" clip-path[^>]*stroke: var\(--blue\)', section)
    assert len(lines) == 2
    for line in lines:
        assert len({y for _, y in re.findall(r"[ML] ([\d.]+) ([\d.]+)", line)}) == 1


def test_the_skew_of_queues_is_drawn_told_and_remarked(text: str) -> None:
    section = _section(text, "queues")
    assert _rows(section) == [[TOPIC, "128", f"{MANY:,}", "127", f"{MANY:,}", "0", "128.0 times"]]
    assert section.count(">128.0 times, queue 127</text>") == 2, "in both widths"
    assert f"Queue 127 of {TOPIC} was given 100 % of its messages, 128.0 times the mean of its 128 queues." in text
    even = {"skew": 1.9, "fullest_messages": 190, "messages": 200, "queues": 2}
    few = {"skew": 2.0, "fullest_messages": 199, "messages": 199, "queues": 2}
    for row in (even, few):
        figures = _figures() | {"queues": [_figures()["queues"][0] | row]}
        known = Known(store=True, lake=None, now=WINDOW.until)
        assert "Queue 127 of" not in page("Orders", WINDOW, figures, known)

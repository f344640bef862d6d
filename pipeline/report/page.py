"""The page: charts, tables beside them, and words. Rows in, HTML out. Knows nothing of Spark."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from attrs import frozen
from jinja2 import Environment, StrictUndefined, select_autoescape

from ... import __version__
from . import charts, words
from .catalogue import FIGURES
from .findings import findings
from .ink import RED, VIOLET
from .window import LOOK_AHEAD, LOOK_BACK, Window

Rows = Sequence[Mapping[str, Any]]

_BARS = 15
"""In a chart; the table beside it ends there too."""


@frozen
class Table:
    """`columns` that begin with `>` stand to the right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    more: int = 0


@frozen
class Drawn:
    """A chart with its table. `legend` has (CSS colour, word)."""

    svg: str
    table: Table
    legend: Sequence[tuple[str, str]] = ()
    wide: bool = False


def page(
    title: str, window: Window, figures: Mapping[str, Rows], *, store: bool, lake: bool, topics: Sequence[str] = ()
) -> str:
    """`figures` has the rows of every figure, by name."""
    template = Environment(autoescape=select_autoescape(default=True), undefined=StrictUndefined).from_string(
        files(__package__ or "").joinpath("page.html.j2").read_text("utf-8")
    )
    sections = [
        {"figure": figure, "rows": len(figures[figure.name]), "drawn": _drawn(figure.name, figures, window)}
        for figure in FIGURES
        if figure.name in _DRAWINGS
    ]
    return template.render(
        title=title,
        stretch=words.stretch(window.since, window.until),
        topics=topics,
        tiles=_tiles(figures),
        findings=findings(figures, window),
        sections=sections,
        unknown=unknown(window, figures["overview"][0], store=store, lake=lake),
        version=__version__,
    )


def unknown(window: Window, overview: Mapping[str, Any], *, store: bool, lake: bool) -> list[str]:
    """What the report cannot know, in sentences."""
    told: list[str] = []
    if not store:
        told.append(
            "Only the lake was read. Messages that wait for their time, open claims, messages on the ladder and "
            "groups that never took a message are not in it, nor what was not archived yet."
        )
    if not lake:
        told.append(
            "Only the store was read. What retention has removed is not in it: the past looks emptier than it was."
        )
    if overview["first"] is None:
        told.append("No message is known in this window or before it.")
    elif overview["first"].timestamp() * 1000 > window.since + window.step:
        told.append(f"The oldest message known came into the stream at {words.time(overview['first'])} UTC.")
    if overview["unplaced"]:
        told.append(
            f"Of {words.count(overview['unplaced'])} deliveries it is no longer known which message they were of: they "
            "are counted, but their messages may look unsettled."
        )
    told.append(
        f"What came into the stream more than {words.duration(LOOK_BACK)} before the window counts as settled; "
        f"hand-outs more than {words.duration(LOOK_AHEAD)} after it are not looked for."
    )
    told.append("A message that is redriven or replayed after it was settled is not in the backlog again.")
    told.append("Clients of broadcast topics do not ack: such topics are only in volumes and due minutes.")
    told.append("Percentiles are approximate: their rank is right to 0.01 %.")
    return told


def _tiles(figures: Mapping[str, Rows]) -> list[tuple[str, str, str]]:
    """(name, number, what it says)."""
    overview, late = figures["overview"][0], figures["punctuality"][0]
    cancelled = overview["cancelled"]
    return [
        ("Messages", words.count(overview["messages"]), f"{words.count(cancelled)} cancelled before they were due"),
        ("Deliveries", words.count(overview["deliveries"]), f"{words.count(overview['acked'])} acked"),
        (
            "Lateness p99",
            words.duration(late["p99"]),
            f"median {words.duration(late['p50'])}, p99.9 {words.duration(late['p999'])}",
        ),
        (
            "Failed or lost",
            words.count(overview["failed"] + overview["lost"]),
            f"{words.count(overview['lost'])} by a lost lease",
        ),
        ("Dead letters", words.count(overview["dead"]), _of(overview["dead"], overview["messages"])),
        (
            "Unsettled at the end",
            words.count(late["unsettled"]),
            _waits(overview["waiting"]),
        ),
    ]


def _waits(number: int) -> str:
    if not number:
        return "none waits for its time"
    return "1 more waits for its time" if number == 1 else f"{words.count(number)} more wait for their time"


def _of(part: int, whole: int) -> str:
    if not whole:
        return "of no messages"
    return "none" if not part else f"{words.share(part / whole)} of messages"


def _drawn(name: str, figures: Mapping[str, Rows], window: Window) -> Drawn | None:
    """None: there is nothing to draw."""
    rows = figures[name]
    return _DRAWINGS[name](rows, window) if rows else None


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    return Table(columns, rows[:_BARS], max(0, len(rows) - _BARS))


def _backlog(rows: Rows, window: Window) -> Drawn:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(words.named(row["topic"], row["group"]), []).append(row)
    peaks = {name: max(points, key=lambda point: point["backlog"]) for name, points in groups.items()}
    table = _table(
        ["group", ">begin", ">peak", "at", ">end"],
        [
            [
                name,
                words.count(points[0]["backlog"]),
                words.count(peaks[name]["backlog"]),
                words.clock(peaks[name]["at"], window.length),
                words.count(points[-1]["backlog"]),
            ]
            for name, points in groups.items()
        ],
    )
    worst = max(peaks, key=lambda name: peaks[name]["backlog"])
    says = f"Backlog of {len(groups)} groups over time. The highest peak, {peaks[worst]['backlog']}, is of {worst}."
    return Drawn(charts.backlog(rows, window, says), table)


def _slow_groups(rows: Rows, window: Window) -> Drawn:
    table = _table(
        ["group", ">unsettled", ">waiting", ">oldest", ">median", ">p99"],
        [
            [
                words.named(row["topic"], row["group"]),
                *(words.count(row[name]) for name in ("unsettled", "waiting")),
                *(words.duration(row[name]) for name in ("oldest", "late_p50", "late_p99")),
            ]
            for row in rows
        ],
    )
    says = f"Lateness of {min(len(rows), _BARS)} groups, from the median to p99. The first is {_first(rows)}."
    return Drawn(charts.ranges(rows[:_BARS], "late_p50", "late_p99", says), table)


def _topics(rows: Rows, window: Window) -> Drawn:
    table = _table(
        ["topic", ">messages", ">before", ">growth", ">cancelled", ">waiting"],
        [
            [
                row["topic"],
                words.count(row["messages"]),
                words.count(row["before"]),
                words.share(row["growth"], signed=True),
                words.count(row["cancelled"]),
                words.count(row["waiting"]),
            ]
            for row in rows
        ],
    )
    says = f"Messages of {min(len(rows), _BARS)} topics. The biggest is {rows[0]['topic']} with {rows[0]['messages']}."
    legend = (("blue", "scheduled ahead of its time"), ("pale", "published to come at once"))
    return Drawn(charts.topics(rows[:_BARS], says), table, legend)


def _lateness(rows: Rows, window: Window) -> Drawn:
    worst = sorted(rows, key=lambda row: -row["p99"])
    table = _table(
        ["the latest by p99", "from", ">handed out", ">median", ">p99", ">p99.9", ">in the stream, p99"],
        [
            [
                row["topic"],
                words.clock(row["hour"], window.length),
                words.count(row["handed_out"]),
                *(words.duration(row[name]) for name in ("p50", "p99", "p999", "streamed_p99")),
            ]
            for row in worst
        ],
    )
    bounds = [words.duration(bound) for bound in charts.HEAT_BOUNDS]
    legend = [(f"heat{n}", f"< {bound}") for n, bound in enumerate(bounds)]
    says = (
        f"Three heat maps of lateness by topic and time: p50, p99, p99.9. The latest is {worst[0]['topic']} at "
        f"{words.time(worst[0]['hour'])}, p99 {words.duration(worst[0]['p99'])}."
    )
    legend.append((f"heat{len(bounds)}", f"{bounds[-1]} or more"))
    return Drawn(charts.lateness(rows, window, says), table, legend, wide=True)


def _handling(rows: Rows, window: Window) -> Drawn:
    table = _table(
        ["group", ">handled", ">median", ">p99", ">longest"],
        [
            [
                words.named(row["topic"], row["group"]),
                words.count(row["handled"]),
                *(words.duration(row[name]) for name in ("p50", "p99", "longest")),
            ]
            for row in rows
        ],
    )
    says = f"Handling time of {min(len(rows), _BARS)} groups, from the median to p99. The slowest is {_first(rows)}."
    return Drawn(charts.ranges(rows[:_BARS], "p50", "p99", says), table)


def _ladder(rows: Rows, window: Window) -> Drawn:
    shown = rows[: _BARS + 2]  # sixteen rungs and the first
    table = Table(
        [">attempt", ">deliveries", ">acked", ">failed", ">lost", ">dead", ">other"],
        [[str(row["attempt"]), *(words.count(row[name]) for name in list(row)[1:])] for row in shown],
        len(rows) - len(shown),
    )
    says = f"Deliveries by attempt, from {rows[0]['deliveries']} to {rows[-1]['deliveries']}, and what became of them."
    colours = ("green", "amber", "violet", "red", "grey")
    told = ("acked", "failed", "lease lost", "dead letter", "other: open, given back, parked")
    return Drawn(charts.ladder(shown, says), table, tuple(zip(colours, told, strict=True)))


def _dead_letters(rows: Rows, window: Window) -> Drawn:
    reasons = [row["reason"] or "(no reason given)" for row in rows]
    table = _table(
        ["reason", "group", ">dead", "first", "last"],
        [
            [
                words.clipped(reason, 60),
                words.named(row["topic"], row["group"]),
                words.count(row["dead"]),
                words.clock(row["first"], window.length),
                words.clock(row["last"], window.length),
            ]
            for reason, row in zip(reasons, rows, strict=True)
        ],
    )
    names, values = _summed(reasons, [row["reason_dead"] for row in rows])
    says = f"Dead letters by reason. The most frequent is “{names[0]}” with {values[0]}."
    return Drawn(charts.bars(names, values, says, colour=RED), table)


def _lost_leases(rows: Rows, window: Window) -> Drawn:
    table = _table(
        ["client", "group", ">lost", ">of", ">share", ">held, median"],
        [
            [
                row["client"],
                words.named(row["topic"], row["group"]),
                words.count(row["lost"]),
                words.count(row["deliveries"]),
                words.share(row["share"]),
                words.duration(row["held_p50"]),
            ]
            for row in rows
        ],
    )
    names, values = _summed([row["client"] for row in rows], [row["client_lost"] for row in rows])
    says = f"Messages lost by client. {names[0]} lost most, {values[0]}."
    return Drawn(charts.bars(names, values, says, colour=VIOLET), table)


def _summed(names: Sequence[str], sums: Sequence[int]) -> tuple[list[str], list[int]]:
    """Each name once with its sum, the biggest first."""
    order = sorted(dict(zip(names, sums, strict=True)).items(), key=lambda item: (-item[1], item[0]))[:_BARS]
    return [name for name, _ in order], [value for _, value in order]


def _due_minutes(rows: Rows, window: Window) -> Drawn:
    table = _table(
        ["minute (UTC)", ">messages", ">still to come", "most of", ">with"],
        [
            [
                words.time(row["minute"]),
                words.count(row["messages"]),
                words.count(row["waiting"]),
                row["topic"],
                words.count(row["topic_messages"]),
            ]
            for row in rows
        ],
    )
    says = f"The busiest minutes. The first is {words.time(rows[0]['minute'])} with {rows[0]['messages']} messages."
    legend = (("blue", "came"), ("pale", "still to come")) if any(row["waiting"] for row in rows[:_BARS]) else ()
    return Drawn(charts.due_minutes(rows[:_BARS], says), table, legend)


def _first(rows: Rows) -> str:
    return words.named(rows[0]["topic"], rows[0]["group"])


_DRAWINGS = {
    "backlog": _backlog,
    "slow_groups": _slow_groups,
    "topics": _topics,
    "lateness": _lateness,
    "handling": _handling,
    "ladder": _ladder,
    "dead_letters": _dead_letters,
    "lost_leases": _lost_leases,
    "due_minutes": _due_minutes,
}

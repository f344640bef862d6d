"""Every figure as it stands on the page: a chart in two widths, the table beside it, and messages to follow.

Rows in, drawings out. Knows nothing of Spark.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen

from . import charts, words
from .ink import RED, VIOLET
from .window import Window

Rows = Sequence[Mapping[str, Any]]

_BARS = 15
"""In a chart; the table beside it ends there too."""
_FOLLOWED = 5
"""Ids that a section offers."""


@frozen
class Table:
    """`columns` that begin with `>` stand to the right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    more: int = 0


@frozen
class Drawn:
    """A chart with its table. `legend` has (CSS colour, word)."""

    chart: Callable[[float], str]
    """As SVG, so many pixels wide."""
    table: Table
    legend: Sequence[tuple[str, str]] = ()
    wide: bool = False
    follow: str = ""
    """What the messages of `ids` are."""
    ids: Sequence[int] = ()

    @property
    def svg(self) -> str:
        return self.chart(charts.WIDE if self.wide else charts.WIDTH)

    @property
    def narrow(self) -> str:
        """The same for a telephone."""
        return self.chart(charts.NARROW)


def drawn(name: str, figures: Mapping[str, Rows], window: Window) -> Drawn | None:
    """None: there is nothing to draw."""
    rows = figures[name]
    return _DRAWINGS[name](rows, window) if rows else None


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    return Table(columns, rows[:_BARS], max(0, len(rows) - _BARS))


def _ids(rows: Rows, name: str) -> list[int]:
    """The first few, each once."""
    return list(dict.fromkeys(row[name] for row in rows if row[name] is not None))[:_FOLLOWED]


def _rate(rows: Rows, window: Window) -> Drawn | None:
    names = (("streamed", "into the stream"), ("acked", "acked"), ("failed", "failed"))
    if not any(row[name] for row in rows for name, _ in names):
        return None
    busiest = {name: max(rows, key=lambda row: _a_second(row, name)) for name, _ in names}
    table = _table(
        ["messages", ">in all", ">mean a second", ">peak a second", "at"],
        [
            [
                told,
                words.count(sum(row[name] for row in rows)),
                words.rate(sum(row[name] for row in rows) * 1000 / window.length),
                words.rate(_a_second(busiest[name], name)),
                words.clock(busiest[name]["at"], window.length),
            ]
            for name, told in names
        ],
    )
    peak = words.rate(_a_second(busiest["streamed"], "streamed"))
    says = f"Messages a second over time. At the most {peak} came into the stream."
    legend = (("blue", "into the stream"), ("green", "acked"), ("amber", "failed"))
    return Drawn(lambda width: charts.rate(rows, window, says, width), table, legend)


def _a_second(row: Mapping[str, Any], name: str) -> float:
    return float(row[name] / row["seconds"])


def _queues(rows: Rows, window: Window) -> Drawn:
    table = _table(
        ["topic", ">queues", ">messages", ">fullest", ">has", ">emptiest has", ">skew"],
        [
            [
                row["topic"],
                words.count(row["queues"]),
                words.count(row["messages"]),
                str(row["fullest"]),
                words.count(row["fullest_messages"]),
                words.count(row["emptiest_messages"]),
                words.times(row["skew"]),
            ]
            for row in rows
        ],
    )
    says = f"Skew of the queues of {min(len(rows), _BARS)} topics. The most uneven is {rows[0]['topic']}."
    names, values = [row["topic"] for row in rows[:_BARS]], [row["skew"] for row in rows[:_BARS]]
    tail = [f"{words.times(row['skew'])}, queue {row['fullest']}" for row in rows[:_BARS]]
    return Drawn(lambda width: charts.bars(names, values, says, width, tail=tail), table)


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
    return Drawn(lambda width: charts.backlog(rows, window, says, width), table)


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
    return Drawn(
        lambda width: charts.ranges(rows[:_BARS], "late_p50", "late_p99", says, width),
        table,
        follow="The messages that wait longest",
        ids=_ids(rows, "oldest_id"),
    )


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
    return Drawn(lambda width: charts.topics(rows[:_BARS], says, width), table, legend)


def _lateness(rows: Rows, window: Window) -> Drawn:
    worst = sorted(rows, key=lambda row: -row["p99"])
    table = _table(
        ["the latest by p99", "from", ">handed out", ">waiting", ">median", ">p99", ">p99.9", ">in the stream, p99"],
        [
            [
                row["topic"],
                words.clock(row["hour"], window.length),
                *(words.count(row[name]) for name in ("handed_out", "waiting")),
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
    return Drawn(
        lambda width: charts.lateness(rows, window, says, width),
        table,
        legend,
        wide=True,
        follow="The latest messages",
        ids=_ids(worst, "latest_id"),
    )


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
    return Drawn(lambda width: charts.ranges(rows[:_BARS], "p50", "p99", says, width), table)


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
    return Drawn(lambda width: charts.ladder(shown, says, width), table, tuple(zip(colours, told, strict=True)))


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
    return Drawn(
        lambda width: charts.bars(names, values, says, width, colour=RED),
        table,
        follow="The last that died of each",
        ids=_ids(rows, "last_id"),
    )


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
    return Drawn(lambda width: charts.bars(names, values, says, width, colour=VIOLET), table)


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
    return Drawn(lambda width: charts.due_minutes(rows[:_BARS], says, width), table, legend)


def _first(rows: Rows) -> str:
    return words.named(rows[0]["topic"], rows[0]["group"])


_DRAWINGS: Mapping[str, Callable[[Rows, Window], Drawn | None]] = {
    "rate": _rate,
    "backlog": _backlog,
    "slow_groups": _slow_groups,
    "topics": _topics,
    "queues": _queues,
    "lateness": _lateness,
    "handling": _handling,
    "ladder": _ladder,
    "dead_letters": _dead_letters,
    "lost_leases": _lost_leases,
    "due_minutes": _due_minutes,
}

NAMES = frozenset(_DRAWINGS)
"""Of the figures that are drawn."""

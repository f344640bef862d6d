"""Every figure as it stands on the page: a chart in two widths, the table beside it, and messages to follow.

Rows in, drawings out. Knows nothing of Spark.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from attrs import frozen

from . import charts, words
from .charts import Row, Rows
from .svg import AMBER, BLUE, PALE, RED, VIOLET
from .window import Window

_BARS = 15
"""Most bars of a chart; the table beside it ends there too."""
_FOLLOWED = 5
"""Ids that a section offers."""


@frozen
class Table:
    """A table; columns whose names begin with `>` are aligned to the right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    more: int = 0


@frozen
class Drawn:
    """A chart with its table. `legend` has (CSS colour, word)."""

    chart: Callable[[float], str]
    """Draws it as SVG, so many pixels wide."""
    table: Table
    legend: Sequence[tuple[str, str]] = ()
    wide: bool = False
    follow: str = ""
    """What the messages with these `ids` are."""
    ids: Sequence[int] = ()

    @property
    def svg(self) -> str:
        return self.chart(charts.WIDE if self.wide else charts.WIDTH)

    @property
    def narrow(self) -> str:
        """The chart for a telephone."""
        return self.chart(charts.NARROW)


def drawn(name: str, figures: Mapping[str, Rows], window: Window) -> Drawn | None:
    """The figure as it is drawn; None if there is nothing to draw."""
    rows = figures[name]
    return _DRAWINGS[name](rows, window) if rows else None


Cell = tuple[str, Callable[[Any], str]] | Callable[[Row], str]
"""A column of the figure, and how it is written; or a function that writes a row's cell."""


def _table(rows: Rows, columns: Mapping[str, Cell], most: int = _BARS) -> Table:
    cells = [[cell(row) if callable(cell) else cell[1](row[cell[0]]) for cell in columns.values()] for row in rows]
    return Table(list(columns), cells[:most], max(0, len(rows) - most))


def _ids(rows: Rows, name: str) -> list[int]:
    """The first few ids, each once."""
    return list(dict.fromkeys(row[name] for row in rows if row[name] is not None))[:_FOLLOWED]


def _rate(rows: Rows, window: Window) -> Drawn | None:
    names = (("streamed", "into the stream"), ("acked", "acked"), ("failed", "failed"))
    if not any(row[name] for row in rows for name, _ in names):
        return None
    busiest = {name: max(rows, key=lambda row: _a_second(row, name)) for name, _ in names}
    sums = {name: sum(row[name] for row in rows) for name, _ in names}
    columns: Mapping[str, Cell] = {
        "messages": ("name", dict(names).__getitem__),
        ">in all": lambda row: words.count(sums[row["name"]]),
        ">mean a second": lambda row: words.rate(sums[row["name"]] * 1000 / window.length),
        ">peak a second": lambda row: words.rate(_a_second(busiest[row["name"]], row["name"])),
        "at": lambda row: words.clock(busiest[row["name"]]["at"], window.length),
    }
    table = _table([{"name": name} for name, _ in names], columns)
    peak = words.rate(_a_second(busiest["streamed"], "streamed"))
    says = f"Messages a second over time. At the most {peak} came into the stream."
    legend = (("blue", "into the stream"), ("green", "acked"), ("amber", "failed"))
    return Drawn(lambda width: charts.rate(rows, window, says, width), table, legend)


def _a_second(row: Mapping[str, Any], name: str) -> float:
    return float(row[name] / row["seconds"])


def _queues(rows: Rows, window: Window) -> Drawn:
    columns: Mapping[str, Cell] = {
        "topic": ("topic", str),
        ">queues": ("queues", words.count),
        ">messages": ("messages", words.count),
        ">fullest": ("fullest", str),
        ">has": ("fullest_messages", words.count),
        ">emptiest has": ("emptiest_messages", words.count),
        ">skew": ("skew", words.times),
    }
    says = f"Skew of the queues of {min(len(rows), _BARS)} topics. The most uneven is {rows[0]['topic']}."
    names, parts = [row["topic"] for row in rows[:_BARS]], [(BLUE, [row["skew"] for row in rows[:_BARS]])]
    labels = [f"{words.times(row['skew'])}, queue {row['fullest']}" for row in rows[:_BARS]]
    return Drawn(lambda width: charts.bars(names, parts, labels, says, width), _table(rows, columns))


def _backlog(rows: Rows, window: Window) -> Drawn:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(_group(row), []).append(row)
    peaks = {name: max(points, key=lambda point: point["backlog"]) for name, points in groups.items()}
    columns: Mapping[str, Cell] = {
        "group": ("group", str),
        ">begin": ("begin", words.count),
        ">peak": ("peak", words.count),
        "at": lambda row: words.clock(row["at"], window.length),
        ">end": ("end", words.count),
    }
    table = _table(
        [
            {"group": name, "begin": points[0]["backlog"], "end": points[-1]["backlog"]}
            | {"peak": peaks[name]["backlog"], "at": peaks[name]["at"]}
            for name, points in groups.items()
        ],
        columns,
    )
    worst = max(peaks, key=lambda name: peaks[name]["backlog"])
    says = f"Backlog of {len(groups)} groups over time. The highest peak, {peaks[worst]['backlog']}, is of {worst}."
    return Drawn(lambda width: charts.backlog(groups, says, width), table)


def _slow_groups(rows: Rows, window: Window) -> Drawn:
    columns: Mapping[str, Cell] = {
        "group": _group,
        ">unsettled": ("unsettled", words.count),
        ">waiting": ("waiting", words.count),
        ">oldest": ("oldest", words.duration),
        ">median": ("late_p50", words.duration),
        ">p99": ("late_p99", words.duration),
    }
    says = f"Lateness of {min(len(rows), _BARS)} groups, from the median to p99. The first is {_group(rows[0])}."
    return Drawn(
        lambda width: charts.ranges(rows[:_BARS], "late_p50", "late_p99", says, width),
        _table(rows, columns),
        follow="The messages that wait longest",
        ids=_ids(rows, "oldest_id"),
    )


def _topics(rows: Rows, window: Window) -> Drawn:
    columns: Mapping[str, Cell] = {
        "topic": ("topic", str),
        ">messages": ("messages", words.count),
        ">before": ("before", words.count),
        ">growth": ("growth", partial(words.share, signed=True)),
        ">cancelled": ("cancelled", words.count),
        ">suppressed": ("suppressed", words.count),
        ">waiting": ("waiting", words.count),
    }
    says = f"Messages of {min(len(rows), _BARS)} topics. The biggest is {rows[0]['topic']} with {rows[0]['messages']}."
    legend = (("blue", "scheduled ahead of its time"), ("pale", "published to come at once"))
    shown = rows[:_BARS]
    at_once = [row["messages"] - row["scheduled"] for row in shown]
    parts = [(BLUE, [row["scheduled"] for row in shown]), (PALE, at_once)]
    names, labels = [row["topic"] for row in shown], [words.count(row["messages"]) + _growth(row) for row in shown]
    return Drawn(lambda width: charts.bars(names, parts, labels, says, width), _table(rows, columns), legend)


def _growth(row: Row) -> str:
    return "" if row["growth"] is None else f"  ({words.share(row['growth'], signed=True)})"


def _lateness(rows: Rows, window: Window) -> Drawn:
    worst = sorted(rows, key=lambda row: -row["p99"])
    columns: Mapping[str, Cell] = {
        "the latest by p99": ("topic", str),
        "from": lambda row: words.clock(row["hour"], window.length),
        ">handed out": ("handed_out", words.count),
        ">waiting": ("waiting", words.count),
        ">median": ("p50", words.duration),
        ">p99": ("p99", words.duration),
        ">p99.9": ("p999", words.duration),
        ">in the stream, p99": ("streamed_p99", words.duration),
    }
    bounds = [words.duration(bound) for bound in charts.HEAT_BOUNDS]
    legend = [(f"heat{n}", f"< {bound}") for n, bound in enumerate(bounds)]
    says = (
        f"Three heat maps of lateness by topic and time: p50, p99, p99.9. The latest is {worst[0]['topic']} at "
        f"{words.time(worst[0]['hour'])}, p99 {words.duration(worst[0]['p99'])}."
    )
    return Drawn(
        lambda width: charts.lateness(rows, window, says, width),
        _table(worst, columns),
        [*legend, (f"heat{len(bounds)}", f"{bounds[-1]} or more")],
        wide=True,
        follow="The latest messages",
        ids=_ids(worst, "latest_id"),
    )


def _handling(rows: Rows, window: Window) -> Drawn:
    columns: Mapping[str, Cell] = {
        "group": _group,
        ">handled": ("handled", words.count),
        ">median": ("p50", words.duration),
        ">p99": ("p99", words.duration),
        ">longest": ("longest", words.duration),
    }
    many, slowest = min(len(rows), _BARS), _group(rows[0])
    says = f"Handling time of {many} groups, from the median to p99. The slowest is {slowest}."
    return Drawn(lambda width: charts.ranges(rows[:_BARS], "p50", "p99", says, width), _table(rows, columns))


def _ladder(rows: Rows, window: Window) -> Drawn:
    most = _BARS + 2  # sixteen rungs and the first
    counts = ("deliveries", "acked", "failed", "lost", "dead", "other")
    columns: Mapping[str, Cell] = {">attempt": ("attempt", str)} | {f">{name}": (name, words.count) for name in counts}
    says = f"Deliveries by attempt, from {rows[0]['deliveries']} to {rows[-1]['deliveries']}, and what became of them."
    colours = ("green", "amber", "violet", "red", "grey")
    names = ("acked", "failed", "lease lost", "dead letter", "other: open, given back, parked")
    legend = tuple(zip(colours, names, strict=True))
    return Drawn(lambda width: charts.ladder(rows[:most], says, width), _table(rows, columns, most), legend)


def _dead_letters(rows: Rows, window: Window) -> Drawn:
    columns: Mapping[str, Cell] = {
        "reason": lambda row: words.clipped(_reason(row), 60),
        "group": _group,
        ">dead": ("dead", words.count),
        "first": lambda row: words.clock(row["first"], window.length),
        "last": lambda row: words.clock(row["last"], window.length),
    }
    names, values = _summed(map(_reason, rows), [row["reason_dead"] for row in rows])
    labels = list(map(words.count, values))
    says = f"Dead letters by reason. The most frequent is “{names[0]}” with {values[0]}."
    return Drawn(
        lambda width: charts.bars(names, [(RED, values)], labels, says, width),
        _table(rows, columns),
        follow="The last that died of each",
        ids=_ids(rows, "last_id"),
    )


def _reason(row: Row) -> str:
    return row["reason"] or "(no reason given)"


def _lost_leases(rows: Rows, window: Window) -> Drawn:
    columns: Mapping[str, Cell] = {
        "client": ("client", str),
        "group": _group,
        ">lost": ("lost", words.count),
        ">of": ("deliveries", words.count),
        ">share": ("share", words.share),
        ">held, median": ("held_p50", words.duration),
    }
    names, values = _summed([row["client"] for row in rows], [row["client_lost"] for row in rows])
    labels = list(map(words.count, values))
    says = f"Messages lost by client. {names[0]} lost most, {values[0]}."
    return Drawn(lambda width: charts.bars(names, [(VIOLET, values)], labels, says, width), _table(rows, columns))


def _summed(names: Iterable[str], sums: Sequence[int]) -> tuple[list[str], list[int]]:
    """Each name once with its sum, the biggest first."""
    order = sorted(dict(zip(names, sums, strict=True)).items(), key=lambda item: (-item[1], item[0]))[:_BARS]
    return [name for name, _ in order], [value for _, value in order]


def _schedules(rows: Rows, window: Window) -> Drawn:
    counts = ("fired", "caught_up", "missed", "overlapped", "queued")
    columns: Mapping[str, Cell] = {
        "schedule": ("schedule", str),
        "topic": ("topic", str),
        **{f">{name.replace('_', ' ')}": (name, words.count) for name in counts},
        ">asked for": lambda row: words.count(row["run"] + row["backfilled"]),
        ">cancelled": ("cancelled", words.count),
        ">median late": ("late_p50", words.duration),
        ">p99 late": ("late_p99", words.duration),
    }
    shown = rows[:_BARS]
    left_out = [row["missed"] + row["overlapped"] for row in shown]
    legend = (("blue", "fired"), ("amber", "caught up, more than a minute late"), ("red", "left out"))
    parts = [
        (BLUE, [row["fired"] for row in shown]),
        (AMBER, [row["caught_up"] for row in shown]),
        (RED, left_out),
    ]
    labels = [f"{words.count(row['fired'] + row['caught_up'])} fired" for row in shown]
    says = f"Fire times of {len(shown)} schedules. Of {shown[0]['schedule']}, {left_out[0]} were left out."
    names = [row["schedule"] for row in shown]
    return Drawn(lambda width: charts.bars(names, parts, labels, says, width), _table(rows, columns), legend)


def _due_minutes(rows: Rows, window: Window) -> Drawn:
    columns: Mapping[str, Cell] = {
        "minute (UTC)": ("minute", words.time),
        ">messages": ("messages", words.count),
        ">still to come": ("waiting", words.count),
        "most of": ("topic", str),
        ">with": ("topic_messages", words.count),
    }
    says = f"The busiest minutes. The first is {words.time(rows[0]['minute'])} with {rows[0]['messages']} messages."
    shown = rows[:_BARS]
    waiting = [row["waiting"] for row in shown]
    parts = [(BLUE, [row["messages"] - row["waiting"] for row in shown]), (PALE, waiting)]
    labels = [words.count(row["messages"]) for row in shown]

    def chart(width: float) -> str:
        wide = width > charts.NARROW
        minutes = [words.time(row["minute"]) if wide else f"{row['minute']:%d %b %H:%M}" for row in shown]
        return charts.bars(minutes, parts, labels, says, width)

    legend = (("blue", "came"), ("pale", "still to come")) if any(waiting) else ()
    return Drawn(chart, _table(rows, columns), legend)


def _group(row: Row) -> str:
    return words.named(row["topic"], row["group"])


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
    "schedules": _schedules,
    "due_minutes": _due_minutes,
}

NAMES = frozenset(_DRAWINGS)
"""The names of the figures that are drawn."""

"""The charts, as SVG: rows of figures in, drawings out. Knows nothing of Spark.

There is one scale of colours for what became of a delivery, and one for lateness; all else is blue.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from math import log10
from typing import Any

from ..times import moment
from . import svg, words
from .window import DAY, HOUR, MINUTE, SECOND, Window

Row = Mapping[str, Any]
Rows = Sequence[Row]
Parts = Sequence[tuple[str, Sequence[float]]]
"""The parts of bars: each a colour, and its length in each bar."""

_collections: Any = import_module("matplotlib.collections")
_dates: Any = import_module("matplotlib.dates")
_ticker: Any = import_module("matplotlib.ticker")

WIDTH = 672
"""The width of a chart in pixels; `WIDE` that of a chart as wide as the page."""
WIDE = 1184
NARROW = 348
"""The width on a telephone; every chart is drawn for it, too."""
_BAR, _HEAD, _FOOT = 26, 10, 34
_LONGEST_NAME, _LONGEST_WHEN_NARROW = 30, 15
_LETTER = 6.7
"""About how wide a letter is, in pixels."""
_BESIDE: Any = {"va": "center", "fontsize": 12}
"""The style of a text beside its bar or line."""

OUTCOMES = (("acked", svg.GREEN), ("failed", svg.AMBER), ("lost", svg.VIOLET), ("dead", svg.RED), ("other", svg.GREY))

HEAT_BOUNDS = (10, 100, SECOND, 10 * SECOND, MINUTE, 10 * MINUTE, HOUR)
"""Where one colour ends and the next begins, in milliseconds."""

_ZERO_FORMATS = ["", "%Y", "%b", "%d %b", "%H:%M", "%H:%M"]
"""Of the first month of a year, first day of a month, midnight, ...: what has changed."""

_DURATIONS = (1, 10, 100, SECOND, 10 * SECOND, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY, 28 * DAY)
_DURATIONS_WHEN_NARROW = 3


def backlog(groups: Mapping[str, Rows], says: str, width: float) -> str:
    """A strip for each group, each on a scale of its own, all on one time."""
    figure = svg.canvas(width, _HEAD + 50 * len(groups) + _FOOT)
    grid = _margins(figure, _left(groups, width), _right(70, width)) | {"hspace": 0.35}
    strips: Any = figure.subplots(len(groups), 1, sharex=True, squeeze=False, gridspec_kw=grid)
    for axes, (name, points) in zip(strips[:, 0], groups.items(), strict=True):
        svg.plain(axes)
        times, heights = [point["at"] for point in points], [max(0, point["backlog"]) for point in points]
        axes.fill_between(times, heights, color=svg.PALE, linewidth=0)
        axes.plot(times, heights, color=svg.BLUE, linewidth=1.6, solid_joinstyle="round")
        top = max(heights)
        axes.set_ylim(0, max(top, 1) * 1.08)
        axes.set_yticks([])
        axes.axhline(0, color=svg.RULE, linewidth=1)
        axes.text(-0.012, 0.5, _name(name, width), transform=axes.transAxes, ha="right", color=svg.INK, **_BESIDE)
        axes.text(1.012, 0.5, words.short_count(top), transform=axes.transAxes, color=svg.SOFT, **_BESIDE)
        axes.set_xlim(times[0], times[-1])
        axes.tick_params(labelbottom=False)
    _times(strips[-1, 0], width)
    return svg.written(figure, says)


def lateness(rows: Rows, window: Window, says: str, width: float) -> str:
    """Three heat maps on the same topics and steps: p50, p99, p99.9."""
    topics = list(dict.fromkeys(row["topic"] for row in rows))
    columns = -(-window.length // window.cell)
    beside = columns <= 36 and width > WIDTH
    height = 17 * len(topics)
    figure = svg.canvas(width, 24 + height + 30) if beside else svg.canvas(width, 3 * (height + 54))
    left = _left(topics, width)
    margins = _margins(figure, left, 10, top=24, bottom=30)
    gaps = {"wspace": 0.05} if beside else {"hspace": 54 / max(height, 1)}
    shape = (1, 3) if beside else (3, 1)
    maps: Any = figure.subplots(*shape, sharey=True, squeeze=False, gridspec_kw=margins | gaps)
    for axes, (field, title) in zip(maps.flat, (("p50", "p50"), ("p99", "p99"), ("p999", "p99.9")), strict=True):
        svg.plain(axes)
        cells: list[Sequence[tuple[float, float]]] = []
        colours: list[str] = []
        for row in rows:
            x = (row["hour"].timestamp() * 1000 - window.since) / window.cell
            y = topics.index(row["topic"])
            cells.append([(x, y), (x + 0.94, y), (x + 0.94, y + 0.92), (x, y + 0.92)])
            colours.append(svg.HEAT[heat_class(row[field])])
        axes.add_collection(_collections.PolyCollection(cells, facecolors=colours, linewidths=0))
        axes.set_xlim(0, columns)
        axes.set_ylim(len(topics), 0)
        axes.set_title(title, loc="left", color=svg.INK, fontsize=12, fontweight="bold")
        axes.set_yticks([n + 0.46 for n in range(len(topics))], labels=[_name(t, width) for t in topics])
        axes.tick_params(axis="y", labelcolor=svg.INK)
        _hours(axes, window, columns, 6 if beside else 12 if width > WIDTH else 4)
    return svg.written(figure, says)


def heat_class(ms: float) -> int:
    """Which colour of `svg.HEAT`: 0 is the best."""
    return sum(ms >= bound for bound in HEAT_BOUNDS)


def ranges(rows: Rows, low: str, high: str, says: str, width: float) -> str:
    """From p50 to p99 of each group, on a scale of durations."""
    shown = [row for row in rows if row[high] is not None]
    figure, axes = _bars([words.named(row["topic"], row["group"]) for row in shown], width, right=90)
    for place, row in enumerate(shown):
        axes.plot([_at(row[low]), _at(row[high])], [place, place], color=svg.PALE, linewidth=8, solid_capstyle="butt")
        axes.plot([_at(row[low])], [place], "o", color=svg.BLUE, markersize=7)
        axes.plot([_at(row[high])], [place], "|", color=svg.BLUE, markersize=14, markeredgewidth=3)
        beside = axes.get_yaxis_transform()
        axes.text(1.015, place, words.duration(row[high]), transform=beside, color=svg.SOFT, **_BESIDE)
    _durations(axes, [_at(row[low]) for row in shown], [_at(row[high]) for row in shown], width)
    return svg.written(figure, says)


def ladder(rows: Rows, says: str, width: float) -> str:
    """A funnel: how many deliveries each attempt had, and beside it what became of them."""
    word = "attempt " if width > NARROW else ""
    names = [f"{word}{row['attempt']}" for row in rows]
    counts = [words.count(row["deliveries"]) for row in rows]
    figure = svg.canvas(width, _HEAD + _BAR * len(rows) + _FOOT)
    left, right, gap = _left(names, width), 20, 24 + _LETTER * max(map(len, counts))
    apart = {"wspace": 2 * gap / (width - left - right - gap)}  # of the mean width of the two
    pair: Any = figure.subplots(1, 2, squeeze=False, gridspec_kw=_margins(figure, left, right) | apart)
    funnel, shares = pair[0]
    svg.plain(funnel)
    svg.names_at_left(funnel, names)
    funnel.set_xticks([])
    logs = [_magnitude(row["deliveries"]) for row in rows]
    _labels(funnel, _stack(funnel, [(svg.BLUE, logs)]), counts)
    svg.plain(shares, grid="x")
    shares.set_ylim(*funnel.get_ylim())
    shares.set_yticks([])
    _stack(shares, [(colour, [row[outcome] / row["deliveries"] for row in rows]) for outcome, colour in OUTCOMES])
    shares.set_xlim(0, 1)
    shares.set_xticks([0, 0.5, 1], labels=["0 %", "50 %", "100 %"])
    return svg.written(figure, says)


def bars(names: Sequence[str], parts: Parts, labels: Sequence[str], says: str, width: float) -> str:
    """One bar for each name, from the top down, with its label after it."""
    figure, axes = _bars(names, width, right=_room(labels))
    _labels(axes, _stack(axes, parts), labels)
    return svg.written(figure, says)


def _stack(axes: svg.Axes, parts: Parts) -> list[float]:
    """Draws the parts of bars one after the other; returns how long the bars are."""
    ends = [0.0] * len(parts[0][1])
    for colour, values in parts:
        axes.barh(range(len(ends)), values, left=ends, color=colour, height=0.62)
        ends = [end + value for end, value in zip(ends, values, strict=True)]
    return ends


def rate(rows: Rows, window: Window, says: str, width: float) -> str:
    """Lines of messages a second: each step is as high as its mean, a short last one too."""
    figure = svg.canvas(width, 220)
    axes = figure.subplots(gridspec_kw=_margins(figure, 56, 16))
    svg.plain(axes, grid="y")
    times = [row["at"] for row in rows] + [moment(window.until)]
    for name, colour in (("failed", svg.AMBER), ("acked", svg.GREEN), ("streamed", svg.BLUE)):
        heights = [row[name] / row["seconds"] for row in rows]
        axes.step(times, [*heights, heights[-1]], where="post", color=colour, linewidth=1.6)
    axes.set_ylim(bottom=0)
    axes.set_xlim(times[0], times[-1])
    axes.yaxis.set_major_locator(_ticker.MaxNLocator(4))
    axes.yaxis.set_major_formatter(_ticker.FuncFormatter(_count_tick))
    _times(axes, width)
    axes.tick_params(axis="x", pad=10)  # a time below the left end stands clear of the 0 beside it
    return svg.written(figure, says)


def _bars(names: Sequence[str], width: float, right: float) -> tuple[svg.Drawing, svg.Axes]:
    figure = svg.canvas(width, _HEAD + _BAR * len(names) + _FOOT)
    margins = _margins(figure, _left(names, width), _right(right, width))
    axes = figure.subplots(gridspec_kw=margins)
    svg.plain(axes)
    svg.names_at_left(axes, [_name(name, width) for name in names])
    axes.set_xticks([])
    return figure, axes


def _longest(width: float) -> int:
    return _LONGEST_NAME if width > NARROW else _LONGEST_WHEN_NARROW


def _name(name: str, width: float) -> str:
    """A user's name, clipped to the room there is, without the `$` that begins mathematics for matplotlib."""
    return words.clipped(name, _longest(width)).replace("$", r"\$")


def _left(names: Sequence[str] | Mapping[str, Any], width: float) -> float:
    """Room for the names, in pixels."""
    return 16 + _LETTER * max((min(len(name), _longest(width)) for name in names), default=0)


def _room(texts: Sequence[str]) -> float:
    """The room that texts need after the longest bar, in pixels."""
    return 20 + _LETTER * max(map(len, texts))


def _right(pixels: float, width: float) -> float:
    """Room for the values: less than half of the width."""
    return min(pixels, 0.46 * width)


def _margins(
    figure: svg.Drawing, left: float, right: float, *, top: float = _HEAD, bottom: float = _FOOT
) -> dict[str, float]:
    width, height = (72 * inches for inches in figure.get_size_inches())
    return {"left": left / width, "right": 1 - right / width, "top": 1 - top / height, "bottom": bottom / height}


def _labels(axes: svg.Axes, values: Sequence[float], texts: Sequence[str]) -> None:
    """Writes a text after the end of each bar."""
    axes.set_xlim(0, max(values, default=1) or 1)
    for place, (value, text) in enumerate(zip(values, texts, strict=True)):
        axes.annotate(text, (value, place), xytext=(7, 0), textcoords="offset points", color=svg.SOFT, **_BESIDE)


def _at(ms: int) -> float:
    """A duration for a logarithmic scale, where less than a millisecond is one."""
    return max(1, ms)


def _magnitude(number: int) -> float:
    """The length of a bar of the funnel: its logarithm, so that the last rungs can be seen beside the first."""
    return 1 + log10(max(1, number))


def _durations(axes: svg.Axes, low: Sequence[float], high: Sequence[float], width: float) -> None:
    axes.set_xscale("log")
    first, last = min(low, default=1), max(high, default=SECOND)
    below = max((d for d in _DURATIONS if d <= first), default=1)
    above = min((d for d in _DURATIONS if d >= last), default=last)
    axes.set_xlim(below / 1.3, max(above, below * 10) * 1.15)
    shown = [d for d in _DURATIONS if below <= d <= max(above, below * 10)]
    every = 1 if width > NARROW else -(-len(shown) // _DURATIONS_WHEN_NARROW)
    axes.xaxis.set_major_locator(_ticker.FixedLocator(shown[::every]))
    axes.xaxis.set_minor_locator(_ticker.NullLocator())
    axes.xaxis.set_major_formatter(_ticker.FuncFormatter(_tick))
    axes.grid(axis="x", color=svg.RULE, linewidth=1)
    axes.set_axisbelow(True)


def _count_tick(number: float, _place: int) -> str:
    return words.short_count(number)


def _tick(ms: float, _place: int) -> str:
    return words.duration(ms)


def _times(axes: svg.Axes, width: float) -> None:
    locator: Any = _dates.AutoDateLocator(tz=UTC, minticks=2, maxticks=8 if width > NARROW else 4)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(
        _dates.ConciseDateFormatter(locator, tz=UTC, show_offset=False, zero_formats=_ZERO_FORMATS)
    )
    axes.tick_params(labelbottom=True)


def _hours(axes: svg.Axes, window: Window, columns: int, most: int) -> None:
    cell = axes.bbox.width / columns  # in pixels, as a text is
    long = _LETTER * len(words.clock(moment(window.since), window.length))
    enough = (n for n in (1, 2, 3, 4, 6, 8, 12, 24, 48) if columns / n <= most and cell * n >= long + _LETTER)
    every = next(enough, columns)
    places = [place for place in range(0, columns, every) if cell * (columns - place) >= long or not place]
    starts: list[datetime] = [moment(window.since + place * window.cell) for place in places]
    axes.set_xticks(places, labels=[words.clock(start, window.length) for start in starts], ha="left")

"""How do the figures look as curves? Draws other benches' output: by pending messages, by load, by callers.

    python -m tarry.bench.pending --dsn mysql ... >> figures.jsonl
    for rate in 100 500 1000 2000; do python -m tarry.bench.lateness --dsn mysql --rate $rate >> figures.jsonl; done
    python -m tarry.bench.front --dsn mysql --at-once 1 5 20 50 200 --only publish threads >> figures.jsonl
    python -m tarry.bench.plots figures.jsonl docs/images

Reads a file of JSON lines, of one store or several, and draws `pending.svg`, `load.svg` and `callers.svg`. A drawing
without any lines in the file is left out.
"""

import argparse
import json
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

_figure: Any = import_module("matplotlib.figure")
_mpl: Any = import_module("matplotlib")

_INK = "#7a7f87"
"""Readable on a light page and on a dark one."""
_COLOURS = ("#2f81f7", "#d4762c", "#3fa66a", "#9c6ade")
_PENDING = {
    "scheduled_per_s": "scheduled a second",
    "drained_per_s": "a burst, messages a second",
    "p99_ms": "p99 of lateness, ms",
    "first_s": "start to first message, s",
    "bytes_each": "bytes for each in the wheel",
    "archived_per_s": "archived a second",
}
_WIDTH, _HEIGHT = 3.4, 2.5
"""Size of a panel in inches."""

Curves = Mapping[str, list[tuple[float, float]]]
"""Store -> the points of its curve."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tarry.bench.plots", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("figures", type=Path, help="JSON lines that benches have printed")
    parser.add_argument("folder", type=Path, help="where the drawings go")
    arguments = parser.parse_args()
    lines = [json.loads(line) for line in arguments.figures.read_text().splitlines() if line.startswith("{")]
    for name, (over, panels) in drawings(lines).items():
        if any(panels.values()):
            draw(arguments.folder / f"{name}.svg", over, panels)


def drawings(lines: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, dict[str, Curves]]]:
    """Name of the drawing -> (label of the x axis, title of a panel -> its curves)."""
    lines = list(lines)
    pending = [line for line in lines if line.get("bench") == "pending" and "pending" in line]
    late = [line for line in lines if line.get("bench") == "lateness" and "summary" in line]
    front = [line for line in lines if line.get("bench") == "front" and "summary" in line]
    return {
        "pending": (
            "messages that wait",
            {
                title: _curves((_store(one), one["pending"], one[name]) for one in pending if name in one)
                for name, title in _PENDING.items()
            },
        ),
        "load": (
            "messages due a second",
            {
                f"{name[:-3]} of lateness, ms": _curves((_store(one), one["rate"], one[name]["median"]) for one in late)
                for name in ("p50_ms", "p99_ms")
            },
        ),
        "callers": (
            "callers at once",
            {
                title: _curves(
                    (_store(one), int(subject.removeprefix(kind)), found["median"])
                    for one in front
                    for subject, found in one["per_s"].items()
                    if subject.startswith(kind) and subject.removeprefix(kind).isdigit()
                )
                for kind, title in (("publish_", "requests a second"), ("threads_", "Tarry.publish a second"))
            },
        ),
    }


def _store(line: Mapping[str, Any]) -> str:
    return str(line["store"]).partition(" ")[0]


def _curves(points: Iterable[tuple[str, float, float]]) -> Curves:
    curves: dict[str, list[tuple[float, float]]] = {}
    for store, at, value in sorted(points):
        curves.setdefault(store, []).append((at, value))
    return curves


def draw(path: Path, over: str, panels: Mapping[str, Curves]) -> None:
    """Draws the panels three to a row; a store has the same colour in all of them."""
    panels = {title: curves for title, curves in panels.items() if curves}
    stores = sorted({store for curves in panels.values() for store in curves})
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    with _mpl.rc_context({"svg.hashsalt": "tarry", "svg.fonttype": "none", "font.size": 9, "text.color": _INK}):
        figure = _figure.Figure(figsize=(_WIDTH * columns, _HEIGHT * rows), facecolor="none", layout="constrained")
        for number, (title, curves) in enumerate(panels.items(), 1):
            axes = figure.add_subplot(rows, columns, number)
            _panel(axes, title, over, curves, stores)
        figure.axes[0].legend(frameon=False, labelcolor=_INK)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="svg", transparent=True, metadata={"Date": None})


def _panel(axes: Any, title: str, over: str, curves: Curves, stores: list[str]) -> None:
    axes.set_title(title, loc="left", fontsize=9, color=_INK)
    axes.set_xlabel(over, color=_INK)
    axes.set_xscale("log")
    at = sorted({x for points in curves.values() for x, _ in points})
    axes.set_xticks(at, [_short(x) for x in at])
    axes.minorticks_off()
    axes.tick_params(colors=_INK, which="both", length=0)
    axes.grid(axis="y", color=_INK, alpha=0.25, linewidth=0.6)
    axes.spines[:].set_visible(False)
    for store, points in curves.items():
        axes.plot(
            *zip(*points, strict=True), marker="o", markersize=3, color=_COLOURS[stores.index(store)], label=store
        )
    axes.set_ylim(bottom=0)


def _short(number: float) -> str:
    return f"{number / 1e6:g} M" if number >= 1e6 else f"{number:,g}"


if __name__ == "__main__":
    main()

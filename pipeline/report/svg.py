"""Colours by their purpose, and matplotlib's drawings as SVG for a page.

The page is light or dark as its reader's screen is, so a drawing holds no colours: it is drawn with one stand-in for
each purpose, which then becomes the name of a CSS variable.
"""

import io
import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any

_mpl: Any = import_module("matplotlib")
_figure: Any = import_module("matplotlib.figure")

Drawing = Any
Axes = Any
"""Types of matplotlib, half of which are unknown, so that a strict checker learns nothing from them."""

_NAMES = (
    "ink",
    "soft",
    "rule",
    "card",
    "blue",
    "pale",
    "green",
    "amber",
    "violet",
    "red",
    "grey",
    *(f"heat{n}" for n in range(8)),
)
_STAND_INS = {name: f"#0a0b{number:02x}" for number, name in enumerate(_NAMES, 16)}

INK, SOFT, RULE, CARD = (_STAND_INS[name] for name in ("ink", "soft", "rule", "card"))
BLUE, PALE, GREY = (_STAND_INS[name] for name in ("blue", "pale", "grey"))
GREEN, AMBER, VIOLET, RED = (_STAND_INS[name] for name in ("green", "amber", "violet", "red"))
HEAT = tuple(_STAND_INS[f"heat{n}"] for n in range(8))

_SETTINGS: Any = {"svg.fonttype": "none", "svg.hashsalt": "tarry", "font.family": "sans-serif", "font.size": 12}
_POINTS = 72
"""Points of an inch: a point of the drawing is a pixel of the page."""


def canvas(width: float, height: float) -> Drawing:
    """A drawing of so many pixels."""
    return _figure.Figure(figsize=(width / _POINTS, height / _POINTS), dpi=_POINTS, facecolor="none")


def plain(axes: Axes, *, grid: str = "") -> None:
    """Gives axes no frame, quiet ticks, and lines to read values by along the axis named."""
    axes.set_facecolor("none")
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0, colors=SOFT, labelsize=12, pad=5)
    if grid:
        axes.grid(axis=grid, color=RULE, linewidth=1)
        axes.set_axisbelow(True)


def names_at_left(axes: Axes, names: Sequence[str]) -> None:
    """Puts bars from top to bottom, each with its name."""
    axes.set_yticks(range(len(names)), labels=list(names), color=INK)
    axes.set_ylim(len(names) - 0.4, -0.6)


def written(figure: Drawing, says: str) -> str:
    """The drawing as SVG for a page. `says` is its text for screen readers."""
    held = io.StringIO()
    with _mpl.rc_context(_SETTINGS):
        figure.savefig(held, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = held.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r' id="(?:figure|axes|patch|text|line2d|matplotlib\.axis|xtick|ytick|legend)[^"]*"', "", text)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    for name, stand_in in _STAND_INS.items():
        text = text.replace(stand_in, f"var(--{name})")
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", text)
    width = round(figure.get_figwidth() * _POINTS)
    return text.replace("<svg", f'<svg role="img" aria-label="{_escaped(says)}" style="max-width: {width}px"', 1)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")

"""Draws the wheel as a ring: 3600 slots of a second, and the hand."""

from collections.abc import Sequence
from functools import cache
from math import cos, log1p, pi, sin

from markupsafe import Markup

from ..words import bodied, number
from .svg import draw

_SIZE, _CENTRE, _INNER, _DEPTH = 260, 130, 66, 44


def ring(slots: Sequence[int], hand: int) -> Markup:
    """A tick for each slot with entries, its length by the logarithm of their number; the hand points at now."""
    most = max(slots, default=0)
    filled = sum(1 for many in slots if many)
    about = (
        f"Timing wheel: {bodied(sum(slots), 'timer', 'timers')} in {number(filled)} of its {number(len(slots))} slots, "
        f"{number(most)} in the fullest; the hand is at second {hand} of the hour"
    )
    hours = [(f":{minute:02d}", *_at(minute * 60, _INNER + _DEPTH + 10)) for minute in range(0, 60, 15)]
    drawn = {"inner": _INNER, "depth": _DEPTH, "ticks": _ticks(slots, most), "hours": hours}
    return draw("ring", _SIZE, _SIZE, about, hand=hand, entries=sum(slots), **drawn)


def _ticks(slots: Sequence[int], most: int) -> str:
    lines: list[str] = []
    unit = (_DEPTH - 4) / log1p(most) if most else 0.0
    for many, (right, up, begin) in zip(slots, _directions(), strict=False):
        if many:
            end = _INNER + 4 + unit * log1p(many)
            lines.append(f"{begin}L{_CENTRE + end * right:.1f} {_CENTRE - end * up:.1f}")
    return "".join(lines)


@cache
def _directions() -> Sequence[tuple[float, float, str]]:
    """For each second its direction from the centre, and the SVG of its tick's start; the same in every picture."""
    angles = [second / 3600 * 2 * pi for second in range(3600)]
    begins = [_at(second, _INNER) for second in range(3600)]
    return [(sin(angle), cos(angle), f"M{x:.1f} {y:.1f}") for angle, (x, y) in zip(angles, begins, strict=True)]


def _at(second: float, radius: float) -> tuple[float, float]:
    angle = second / 3600 * 2 * pi
    return _CENTRE + radius * sin(angle), _CENTRE - radius * cos(angle)

"""The wheel as a ring: 3600 slots of a second, and the hand."""

from collections.abc import Sequence
from math import cos, log1p, pi, sin

from markupsafe import Markup

from ..words import bodied, number
from .svg import drawing, element, text

_SIZE, _CENTRE, _INNER, _DEPTH = 260, 130, 66, 44


def ring(slots: Sequence[int], hand: int) -> Markup:
    """A tick for each slot that has something, the longer the fuller (by its logarithm); the hand points at now."""
    most = max(slots, default=0)
    filled = sum(1 for many in slots if many)
    parts = [element("circle", cx=_CENTRE, cy=_CENTRE, r=_INNER - 2, class_="rim")]
    parts += [
        element("path", d=_ticks(slots, most), class_="ticks"),
        *(
            text(f":{minute:02d}", *_at(minute * 60, _INNER + _DEPTH + 8), class_="hour", dy="3", text_anchor="middle")
            for minute in range(0, 60, 15)
        ),
        element("line", x1=_CENTRE, y1=_CENTRE - 24, x2=_CENTRE, y2=_CENTRE - _INNER - _DEPTH, class_="hand",
                transform=f"rotate({hand / 10:.1f} {_CENTRE} {_CENTRE})"),
        text(number(sum(slots)), _CENTRE, _CENTRE + 2, class_="large", text_anchor="middle"),
        text("in the next hour", _CENTRE, _CENTRE + 17, class_="small", text_anchor="middle"),
    ]  # fmt: skip
    about = (
        f"The wheel: {bodied(sum(slots), 'entry', 'entries')} in {number(filled)} of its {number(len(slots))} slots, "
        f"{number(most)} in the fullest; the hand is at second {hand} of the hour"
    )
    return drawing(_SIZE, _SIZE, about, parts, "ring")


def _ticks(slots: Sequence[int], most: int) -> str:
    lines: list[str] = []
    for second, many in enumerate(slots):
        if many:
            length = 4 + (_DEPTH - 4) * log1p(many) / log1p(most)
            (x1, y1), (x2, y2) = _at(second, _INNER), _at(second, _INNER + length)
            lines.append(f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}")
    return "".join(lines)


def _at(second: float, radius: float) -> tuple[float, float]:
    angle = second / 3600 * 2 * pi
    return _CENTRE + radius * sin(angle), _CENTRE - radius * cos(angle)

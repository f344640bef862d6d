"""Draws the ladder as a funnel: how many deliveries of a group wait on each rung, and how many became dead letters."""

from collections.abc import Sequence

from markupsafe import Markup

from ..words import bodied, duration, number
from .svg import drawing, element, text, titled

_WIDTH, _ROW, _LEFT, _RIGHT = 480, 18, 128, 64


def funnel(resting: Sequence[int], ladder: Sequence[int], dead: int) -> Markup:
    """`resting` counts deliveries by rung; `ladder` is in milliseconds. Bars are centred, and as wide as the counts."""
    rows = [(f"{rung}.  after {duration(rest)}", many, "bar") for rung, (rest, many) in
            enumerate(zip(ladder, resting, strict=False), 1)]  # fmt: skip
    rows.append(("dead letters", dead, "bar dead"))
    most = max((many for _, many, _ in rows), default=0)
    room = _WIDTH - _LEFT - _RIGHT
    parts: list[str] = []
    for index, (label, many, kind) in enumerate(rows):
        y = index * _ROW
        width = room * many / most if most else 0
        length = max(width, 2.0 if many else 0.0)
        if not many:
            middle = _LEFT + room / 2
            parts.append(element("line", x1=middle - 3, x2=middle + 3, y1=y + 9, y2=y + 9, class_="axis"))
        bar = element("rect", x=_LEFT + (room - length) / 2, y=y + 3, width=length, height=_ROW - 6, class_=kind)
        parts.append(titled(bar, f"{label}: {number(many)}"))
        parts.append(text(label, _LEFT - 8, y + 13, class_="small", text_anchor="end"))
        parts.append(text(number(many), _WIDTH, y + 13, class_="small" if many else "small none", text_anchor="end"))
    resting_all = bodied(sum(resting), "delivery waits", "deliveries wait")
    about = f"The ladder: {resting_all} on {len(ladder)} rungs, {bodied(dead, 'dead letter', 'dead letters')}"
    return drawing(_WIDTH, len(rows) * _ROW, about, parts, "funnel")

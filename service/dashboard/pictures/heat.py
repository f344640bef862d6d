"""Draws how late messages were: a column for each stretch of time, a row for each bound, darker for more messages."""

from collections.abc import Sequence
from math import log1p

from markupsafe import Markup

from ..words import bodied, duration
from .svg import drawing, element, text, titled

_LEFT, _TOP, _CELL, _ROW, _FOOT = 62, 8, 14, 9, 16
"""Sizes. `_TOP` is room for the highest label, which is larger than its row on a narrow screen."""


def heat(counts: Sequence[Sequence[int]], bounds: Sequence[int], step: int) -> Markup:
    """`counts` are by stretch of `step` milliseconds, the last of which ends now; `bounds` are in milliseconds."""
    rows, columns = len(bounds) + 1, len(counts)
    most = max((many for column in counts for many in column), default=0)
    width, height = _LEFT + columns * _CELL, _TOP + rows * _ROW + _FOOT
    parts = [element("rect", x=_LEFT, y=_TOP, width=columns * _CELL, height=rows * _ROW, class_="ground")]
    for place, column in enumerate(counts):
        for row, many in enumerate(column):
            if many:
                cell = element(
                    "rect",
                    x=_LEFT + place * _CELL,
                    y=_TOP + (rows - 1 - row) * _ROW,
                    width=_CELL - 1,
                    height=_ROW - 1,
                    class_="cell",
                    fill_opacity=f"{0.2 + 0.8 * log1p(many) / log1p(most):.2f}",
                )
                parts.append(titled(cell, f"{_late(bounds, row)}: {bodied(many, 'message', 'messages')}"))
    parts += [
        text(_label(bounds, row), _LEFT - 4, _TOP + (rows - row) * _ROW - 1.5, class_="small", text_anchor="end")
        for row in range(0, rows, 2)
    ]
    if not most:
        middle = _LEFT + columns * _CELL / 2, _TOP + rows * _ROW / 2 + 4
        parts.append(text("nothing was delivered", *middle, class_="small", text_anchor="middle"))
    ago = duration(columns * step)
    parts.append(text(f"{ago} ago", _LEFT, height - 3, class_="small"))
    parts.append(text("now", width, height - 3, class_="small", text_anchor="end"))
    return drawing(width, height, about(counts, bounds, ago), parts, "heat")


def about(counts: Sequence[Sequence[int]], bounds: Sequence[int], ago: str) -> str:
    """The picture in words."""
    by_row = [sum(column) for column in zip(*counts, strict=True)]
    total = sum(by_row)
    if not total:
        return f"Lateness of the last {ago}: nothing was delivered"
    seen = 0
    for row, many in enumerate(by_row):
        seen += many
        if seen >= 0.99 * total:
            return (
                f"Lateness of the last {ago}: of {bodied(total, 'message', 'messages')} 99 in 100 {_late(bounds, row)}"
            )
    raise AssertionError("the sum of all is all")


def _late(bounds: Sequence[int], row: int) -> str:
    return f"over {duration(bounds[-1])} late" if row == len(bounds) else f"up to {duration(bounds[row])} late"


def _label(bounds: Sequence[int], row: int) -> str:
    return f"> {duration(bounds[-1])}" if row == len(bounds) else duration(bounds[row])

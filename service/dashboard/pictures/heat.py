"""Draws how late messages were: a column for each stretch of time, a row for each bound, darker for more messages."""

from collections.abc import Sequence

from markupsafe import Markup

from ..words import bodied, duration
from .svg import draw


def heat(counts: Sequence[Sequence[int]], bounds: Sequence[int], step: int) -> Markup:
    """`counts` are by stretch of `step` milliseconds, the last of which ends now; `bounds` are in milliseconds."""
    rows, ago = range(len(bounds) + 1), duration(len(counts) * step)
    lates = [_late(bounds, row) for row in rows]
    labels = [*map(duration, bounds), f"> {duration(bounds[-1])}"]
    most = max((many for column in counts for many in column), default=0)
    facts = {"counts": counts, "lates": lates, "labels": labels, "most": most, "ago": ago}
    # Above the rows there is room for the highest label, which is larger than its row on a narrow screen.
    return draw("heat", 62 + len(counts) * 14, 24 + len(rows) * 9, about(counts, bounds, ago), **facts)


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

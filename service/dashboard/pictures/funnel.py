"""Draws the ladder as a funnel: how many deliveries of a group wait on each rung, and how many became dead letters."""

from collections.abc import Sequence

from markupsafe import Markup

from ..words import bodied, duration
from .svg import draw


def funnel(resting: Sequence[int], ladder: Sequence[int], dead: int) -> Markup:
    """`resting` counts deliveries by rung; `ladder` is in milliseconds. Bars are centred, and as wide as the counts."""
    rungs = enumerate(zip(ladder, resting, strict=False), 1)
    rows = [(f"{rung}.  after {duration(rest)}", many, "bar") for rung, (rest, many) in rungs]
    rows.append(("dead letters", dead, "bar dead"))
    resting_all = bodied(sum(resting), "delivery waits", "deliveries wait")
    about = f"The ladder: {resting_all} on {len(ladder)} rungs, {bodied(dead, 'dead letter', 'dead letters')}"
    return draw("funnel", 480, len(rows) * 18, about, rows=rows)

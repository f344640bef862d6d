"""Draws how many messages fall due when: a bar for each stretch of time."""

from collections.abc import Sequence

from markupsafe import Markup

from ..words import bodied, short
from .svg import draw


def bars(
    counts: Sequence[int], labels: Sequence[str], about: str, *, times: Sequence[int] = (), form: str = "clock"
) -> Markup:
    """`labels` name the stretches, of which about six are written below; the count of the highest bar is written,
    too.

    `times` are the starts of the stretches in Unix milliseconds, if the labels are times of this form: the page may
    then show them in another zone.
    """
    most, every = max(counts, default=0), max(1, len(counts) // 6)
    told = f"{about}: {bodied(sum(counts), 'message', 'messages')}, at most {short(most)} in one bar"
    facts = {"counts": counts, "labels": labels, "times": times, "form": form, "most": most, "every": every}
    return draw("bars", 480, 108, told, **facts)

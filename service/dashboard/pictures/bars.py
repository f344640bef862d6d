"""Draws how many messages fall due when: a bar for each stretch of time."""

from collections.abc import Sequence

from markupsafe import Markup, escape

from ..words import bodied, short
from .svg import drawing, element, text

_WIDTH, _HEIGHT, _TOP, _FOOT = 480, 108, 18, 20


def bars(
    counts: Sequence[int],
    labels: Sequence[str],
    about: str,
    *,
    shown: int = 6,
    times: Sequence[int] = (),
    form: str = "clock",
) -> Markup:
    """`labels` name the stretches, of which about `shown` are written below; the count of the highest bar is written,
    too.

    `times` are the starts of the stretches in Unix milliseconds, if the labels are times of this form: the page may
    then show them in another zone.
    """
    most = max(counts, default=0)
    step = _WIDTH / max(len(counts), 1)
    room = _HEIGHT - _TOP - _FOOT
    parts = [element("line", x1=0, y1=_HEIGHT - _FOOT, x2=_WIDTH, y2=_HEIGHT - _FOOT, class_="axis")]
    for index, many in enumerate(counts):
        if many:
            height = max(1.5, room * many / most)
            bar = element(
                "rect",
                x=index * step + step * 0.1,
                y=_HEIGHT - _FOOT - height,
                width=step * 0.8,
                height=height,
                class_="bar",
            )
            rest = f": {bodied(many, 'message', 'messages')}"
            time = _time(times, index, form) | ({"data_rest": rest} if times else {})
            parts.append(element("g", element("title", f"{escape(labels[index] + rest)}", **time) + bar))
    every = max(1, len(counts) // shown)
    for index in range(0, len(counts), every):
        parts.append(text(labels[index], index * step, _HEIGHT - 3.0, class_="small", **_time(times, index, form)))
    if most:
        parts.append(text(f"most: {short(most)}", _WIDTH, 12, class_="small", text_anchor="end"))
    else:
        parts.append(text("nothing is due", _WIDTH / 2, _HEIGHT / 2, class_="small", text_anchor="middle"))
    total = bodied(sum(counts), "message", "messages")
    return drawing(_WIDTH, _HEIGHT, f"{about}: {total}, at most {short(most)} in one bar", parts, "bars")


def _time(times: Sequence[int], index: int, form: str) -> dict[str, object]:
    return {"data_at": times[index], "data_form": form} if index < len(times) else {}

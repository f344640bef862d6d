"""The command `upcoming`: shows how many messages fall due in the next minute, hour, day or month, as a histogram."""

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from .options import Topic
from .printing import note, print_json
from .server import HERE, Server

_SPANS = {"minute": (12, "5s"), "hour": (12, "5m"), "day": (24, "1h"), "month": (30, "1d")}
"""The number of buckets, and the width of each."""
_WIDEST = 30
"""The length of the longest bar, in letters."""
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def upcoming(
    topic: Topic,
    /,
    *,
    next_: Annotated[
        Literal["minute", "hour", "day", "month"],
        Parameter(name="--next", help="How far to look; 30 days are a month."),
    ] = "day",
    since: Annotated[
        str | None, Parameter(name="--from", help="Begin at this time, not now with what is overdue.")
    ] = None,
    server: Server = HERE,
) -> int:
    """Tell how many messages of a topic fall due when.

    Retries are not counted.
    """
    buckets, width = _SPANS[next_]
    with server.client() as tarry:
        found = tarry.upcoming(topic, buckets=buckets, width=width, start=since)
    if server.json:
        print_json(found)
        return 0
    if sys.stdout.isatty():
        server.show([], ("from", ">messages", ""), bars(found["buckets"], _EIGHTHS))
    else:
        server.show([], ("from", "messages"), [(one["at"], one["messages"]) for one in found["buckets"]])
    if (stopped := found["counted_until"]) is not None:
        note(f"counted up to {stopped}, there are too many: --from {stopped} goes on")
    return 0


def bars(buckets: Sequence[Mapping[str, Any]], eighths: str) -> list[tuple[str, int, str]]:
    """A row for each bucket; the fullest has the longest bar, and every bucket with a message has a bar."""
    most = max((one["messages"] for one in buckets), default=0)
    rows: list[tuple[str, int, str]] = []
    for one in buckets:
        parts = -(-one["messages"] * _WIDEST * 8 // most) if most else 0
        rows.append((one["at"], one["messages"], eighths[8] * (parts // 8) + eighths[parts % 8].strip()))
    return rows

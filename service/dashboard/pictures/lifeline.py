"""Computes the life of a message as steps on a line: what happened, to the millisecond."""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from ..words import duration, milliseconds

_GOOD = {"acked"}
_BAD = {"failed", "lease_lost", "dead", "expired"}
_OVER = {"cancelled", "suppressed", "skipped", "due"}


@frozen
class Step:
    """An event in a message's life, as texts to show."""

    what: str
    at: str
    mood: str
    """good, bad, over or plain."""
    since: str
    """How long after the step before."""
    place: int
    """Its position on the line, from 0 to 100."""
    group: str
    client: str
    attempt: str
    reason: str
    late: str
    """How late the message was, at a step that moved it on; else empty."""


def lifeline(life: Sequence[Mapping[str, Any]]) -> list[Step]:
    """The steps, in order of time."""
    times = [milliseconds(one["at"]) for one in life]
    span = max(times, default=0) - min(times, default=0)
    steps: list[Step] = []
    for index, (one, at) in enumerate(zip(life, times, strict=True)):
        what = one["what"]
        mood = "good" if what in _GOOD else "bad" if what in _BAD else "over" if what in _OVER else "plain"
        since = f"+{duration(at - times[index - 1])}" if index else ""
        steps.append(
            Step(
                what=what,
                at=one["at"],
                mood=mood,
                since=since,
                place=round(100 * (at - times[0]) / span) if span else 0,
                group=one.get("group") or "",
                client=one.get("client") or "",
                attempt=str(one.get("attempt") or ""),
                reason=one.get("reason") or "",
                late=f"{duration(one['late'])} late" if one.get("late") else "",
            )
        )
    return steps

"""A violation: a promise that was broken, and the events that show it."""

from collections.abc import Sequence

from attrs import frozen
from msgspec.json import encode

from .event import Event

LIMIT = 200
"""The most events of a message that are printed."""


@frozen
class Violation:
    kind: str
    """lost, early, late, duplicate, promoted twice, written twice, stale ack, refused, cancel, order, retries, rung,
    dead letter, body, skipped, counters, invented, expired, timer, fire or stuck."""
    what: str
    events: Sequence[Event] = ()

    def told(self) -> str:
        """The violation as lines of text."""
        lines = [encode(event).decode() for event in self.events[:LIMIT]]
        return "\n".join([f"{self.kind}: {self.what}", *(f"    {line}" for line in lines)])

"""Checks readers by offset: none of them skips a message of its queue."""

from collections import defaultdict
from collections.abc import Container, Iterator

from attrs import define, field

from .event import Event
from .violation import Violation

Queue = tuple[str, int]
"""Topic and number of the queue."""


@define
class Readings:
    """What readers found during the run, and what the final look found from the beginning of the queues."""

    found: dict[Queue, list[Event]] = field(factory=lambda: defaultdict[Queue, list[Event]](list))
    there: dict[Queue, list[Event]] = field(factory=lambda: defaultdict[Queue, list[Event]](list))

    def add(self, event: Event) -> None:
        by_queue = self.found if event.op == "read" else self.there
        by_queue[event.topic, event.queue].append(event)

    def violations(self, expiring: Container[str] = ()) -> Iterator[Violation]:
        """Yields the violations; messages in `expiring` may have been read and be gone at the end."""
        for queue, there in self.there.items():
            yield from _unique(queue, there)
        for queue, found in self.found.items():
            there = self.there.get(queue, [])
            names = {event.name for event in there}
            lasting = [event for event in found if event.name in names or event.name not in expiring]
            yield from _compared(queue, lasting, there)


def _unique(queue: Queue, there: list[Event]) -> Iterator[Violation]:
    by_offset: dict[int, Event] = {}
    for event in there:
        other = by_offset.setdefault(event.offset, event)
        if other.name != event.name:
            yield Violation("skipped", f"{queue}: offset {event.offset} has two messages", [other, event])


def _compared(queue: Queue, found: list[Event], there: list[Event]) -> Iterator[Violation]:
    """Checks that a reader saw exactly the messages up to its last offset, in their order."""
    last = max((event.offset for event in found), default=-1)
    wanted = [event for event in sorted(there, key=lambda event: event.offset) if event.offset <= last]
    for was, ought in zip(found, wanted, strict=False):
        if (was.offset, was.name) != (ought.offset, ought.name):
            what = f"{queue}: the reader went to {was.offset}, past {ought.offset} ({ought.name})"
            yield Violation("skipped", what, [was, ought])
            return
    if len(found) != len(wanted):
        yield Violation("skipped", f"{queue}: the reader found {len(found)} messages of {len(wanted)}", found[-1:])

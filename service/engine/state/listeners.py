"""Listeners: wakes tasks that wait for queues to grow. Nothing is kept; a queue that nobody waits for costs nothing."""

from collections.abc import Generator, Iterable
from contextlib import contextmanager

import trio


class Listeners:
    """The events of those who wait, by queue."""

    def __init__(self) -> None:
        self._listeners: dict[int, set[trio.Event]] = {}

    @property
    def awaited(self) -> set[int]:
        return set(self._listeners)

    def notify(self, queue_id: int) -> None:
        """Wakes those who wait for this queue: it has grown."""
        for event in self._listeners.pop(queue_id, ()):
            event.set()

    def notify_all(self) -> None:
        """Wakes everybody, to look again or to end the wait."""
        for queue_id in list(self._listeners):
            self.notify(queue_id)

    @contextmanager
    def listen(self, queue_ids: Iterable[int]) -> Generator[trio.Event, None, None]:
        """An event that is set when one of the queues grows. Listen first and look then, and nothing is missed."""
        event, ids = trio.Event(), tuple(queue_ids)
        for queue_id in ids:
            self._listeners.setdefault(queue_id, set()).add(event)
        try:
            yield event
        finally:
            for queue_id in ids:
                listeners = self._listeners.get(queue_id)
                if listeners is not None:
                    listeners.discard(event)
                    if not listeners:
                        del self._listeners[queue_id]

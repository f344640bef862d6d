"""Bells: who waits for queues to grow hears them ring. Nothing is kept; a bell that nobody waits for costs nothing."""

from collections.abc import Generator, Iterable
from contextlib import contextmanager

import trio


class Bells:
    """One bell to a queue, by its id."""

    def __init__(self) -> None:
        self._listeners: dict[int, set[trio.Event]] = {}

    @property
    def awaited(self) -> set[int]:
        """The queues that somebody listens for."""
        return set(self._listeners)

    def ring(self, queue_id: int) -> None:
        """The queue has grown."""
        for bell in self._listeners.pop(queue_id, ()):
            bell.set()

    def ring_all(self) -> None:
        """Everybody is to look, or to go home."""
        for queue_id in list(self._listeners):
            self.ring(queue_id)

    @contextmanager
    def listen(self, queue_ids: Iterable[int]) -> Generator[trio.Event, None, None]:
        """An event that is set when one of the queues grows. Listen first and look then, and nothing is missed."""
        bell, ids = trio.Event(), tuple(queue_ids)
        for queue_id in ids:
            self._listeners.setdefault(queue_id, set()).add(bell)
        try:
            yield bell
        finally:
            for queue_id in ids:
                listeners = self._listeners.get(queue_id)
                if listeners is not None:
                    listeners.discard(bell)
                    if not listeners:
                        del self._listeners[queue_id]

"""Lets waiting threads go by priority, and within the same priority in the order in which they came."""

import heapq
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from threading import Condition


class PriorityGate:
    """Lets `places` threads in at a time."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: list[tuple[int, int]] = []
        self._numbers = count()
        self._changed = Condition()

    @property
    def waiting(self) -> int:
        """How many wait for a place."""
        return len(self._waiting)

    @contextmanager
    def passing(self, priority: int) -> Generator[None, None, None]:
        """Waits for a place, and holds it."""
        with self._changed:
            own = (-priority, next(self._numbers))
            heapq.heappush(self._waiting, own)
            self._changed.wait_for(lambda: self._free > 0 and self._waiting[0] == own)
            heapq.heappop(self._waiting)
            self._free -= 1
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._free += 1
                self._changed.notify_all()

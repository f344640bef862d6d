"""Limits a task to its share of the rows a second that the job may do. No task knows of the others."""

import time
from collections.abc import Callable

from attrs import define, field


@define
class Pace:
    """`take` waits until the rows taken before are due, `finish` until all are: the next task begins anew.

    `rate` is that of this task, in rows a second; None: no limit.
    """

    rate: float | None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    _due: float = field(default=0.0, init=False)

    def at_a_time(self, most: int) -> int:
        """How many rows to take at once: at most those of a second, so that a slow pace is even."""
        return most if self.rate is None else max(1, min(most, int(self.rate)))

    def finish(self) -> None:
        self.take(0)

    def take(self, count: int) -> None:
        if self.rate is None:
            return
        now = self.clock()
        if self._due > now:
            self.sleep(self._due - now)
        self._due = max(self._due, now) + count / self.rate

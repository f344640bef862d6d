"""So many rows a second: a task's share of what the whole job may do. No task knows of the others."""

import time
from collections.abc import Callable

from attrs import define, field


@define
class Pace:
    """`take` waits until so many more are due, `finish` until all that was taken is: the next task begins anew.

    `rate` is of this task; None is as fast as it goes.
    """

    rate: float | None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    _due: float = field(default=0.0, init=False)

    def at_a_time(self, most: int) -> int:
        """How many to take at once: a second's worth, so that a slow pace is no row of jerks."""
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

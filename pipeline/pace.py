"""So many rows a second: a task's share of what the whole job may do. No task knows of the others."""

import time
from collections.abc import Callable

from attrs import define, field


@define
class Pace:
    """`take` waits until so many more are due. `rate` is of this task; None is as fast as it goes."""

    rate: float | None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    _due: float = field(default=0.0, init=False)

    def take(self, count: int) -> None:
        if self.rate is None:
            return
        now = self.clock()
        if self._due > now:
            self.sleep(self._due - now)
        self._due = max(self._due, now) + count / self.rate

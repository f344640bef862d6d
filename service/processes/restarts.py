"""Decides when a process that has ended is restarted, and when the server ends. Pure: the caller passes the time.

The first process runs alone until it serves, so that a fault that all would have is reported once: a process that exits
by itself before any has served ends the server, with its exit code. After that, a process that ends is restarted: at
once, or, if it does not live long, after growing pauses.
"""

from attrs import define, field

_PAUSES = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds until a process is restarted, by the number of short lives in a row before."""
_LONG = 60.0
"""Seconds after which a life does not count as short."""
_SIGNALLED = 128


@define(eq=False)
class Restarts:
    """Tell it which process `begins` or has `ended`; ask it which are `due`, and whether all is `over`."""

    processes: int
    _began: dict[int, float] = field(factory=dict[int, float], init=False)
    """When each running process was started."""
    _due: dict[int, float] = field(init=False)
    """When each of the others may be started."""
    _short: dict[int, int] = field(factory=dict[int, int], init=False)
    """Short lives in a row, by process."""
    _served: bool = field(default=False, init=False)
    """Whether any process has ever served."""
    _ending: bool = field(default=False, init=False)
    code: int = field(default=0, init=False)
    """The exit code of the server."""

    def __attrs_post_init__(self) -> None:
        self._due = dict.fromkeys(range(1, self.processes + 1), 0.0)

    def served(self) -> None:
        self._served = True

    @property
    def alone(self) -> bool:
        """Whether the first process has not yet shown that it can serve."""
        return not self._served and not self._ending

    def due(self, now: float) -> list[int]:
        if self._ending:
            return []
        first = [1] if self.alone else self._due
        return [number for number in first if self._due.get(number, now + 1) <= now]

    def wait(self, now: float) -> float | None:
        """Seconds until a process is due; None if none will be."""
        left = [] if self._ending else [at for number, at in self._due.items() if number == 1 or not self.alone]
        return max(0.0, min(left) - now) if left else None

    def begins(self, number: int, now: float) -> None:
        del self._due[number]
        self._began[number] = now

    def ended(self, number: int, code: int, now: float) -> float | None:
        """Notes that the process has ended with this code, negative for a signal; returns the seconds until it is
        restarted, or None."""
        lived = now - self._began.pop(number)
        if self._ending or (self.alone and code >= 0):
            self._ending = True
            self.code = self.code or (code if code >= 0 else _SIGNALLED - code)
            return None
        short = 0 if lived >= _LONG else self._short.get(number, 0)
        self._short[number] = short + 1
        pause = _PAUSES[min(short, len(_PAUSES) - 1)]
        self._due[number] = now + pause
        return pause

    def stop(self) -> None:
        self._ending = True

    def stop_at_once(self, signal: int) -> None:
        """Notes a second signal: the server's exit code is 128 plus its number."""
        self._ending = True
        self.code = _SIGNALLED + signal

    @property
    def over(self) -> bool:
        """Whether all processes have ended, and none will be started again."""
        return self._ending and not self._began

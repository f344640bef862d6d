"""When a process that has ended begins again, and when all is over. Pure: seconds come from outside, and may be any.

The first process is alone until it serves, so that what is wrong with all of them is told once: one that ends by itself
before any has served ends the server, with its exit code. After that a process that ends is started again: at once, and
when it does not live long, after pauses that grow.
"""

from attrs import define, field

_PAUSES = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds until a process is started again, after as many short lives in a row."""
_LONG = 60.0
"""Seconds of a life that is not short."""
_SIGNALLED = 128


@define(eq=False)
class Restarts:
    """Tell it who `begins` and has `ended`; ask it who is `due`, and whether all is `over`."""

    processes: int
    _began: dict[int, float] = field(factory=dict[int, float], init=False)
    """The living, and since when."""
    _due: dict[int, float] = field(init=False)
    """The others, and from when on they may be started."""
    _short: dict[int, int] = field(factory=dict[int, int], init=False)
    """Short lives in a row."""
    _served: bool = field(default=False, init=False)
    """Whether any has ever served."""
    _ending: bool = field(default=False, init=False)
    code: int = field(default=0, init=False)
    """With which the server ends."""

    def __attrs_post_init__(self) -> None:
        self._due = dict.fromkeys(range(1, self.processes + 1), 0.0)

    def served(self) -> None:
        """A process has begun to serve."""
        self._served = True

    @property
    def alone(self) -> bool:
        """Whether the first has yet to show that it can serve."""
        return not self._served and not self._ending

    def due(self, now: float) -> list[int]:
        """Who is to be started."""
        if self._ending:
            return []
        first = [1] if self.alone else self._due
        return [number for number in first if self._due.get(number, now + 1) <= now]

    def wait(self, now: float) -> float | None:
        """Seconds until somebody is due; None when nobody will be."""
        left = [] if self._ending else [at for number, at in self._due.items() if number == 1 or not self.alone]
        return max(0.0, min(left) - now) if left else None

    def begins(self, number: int, now: float) -> None:
        """The process was started."""
        del self._due[number]
        self._began[number] = now

    def ended(self, number: int, code: int, now: float) -> float | None:
        """It has ended, with this code, or by a signal where that is negative; seconds until it is started again."""
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
        """Nobody is started any more."""
        self._ending = True

    def stop_at_once(self, signal: int) -> None:
        """A second signal came: its number is what the server ends with."""
        self._ending = True
        self.code = _SIGNALLED + signal

    @property
    def over(self) -> bool:
        """Whether all have ended, and nobody is started again."""
        return self._ending and not self._began

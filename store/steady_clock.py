"""Time for a store that has no clock of its own: the host's clock as it was at the start, and real time since.

Whoever sets the host's clock meanwhile, by hand or by NTP, neither hastens nor delays what waits: `skew` says how
far the two have come apart, and the next start begins with the host's clock anew. (To follow a clock that is set ahead
would hand everything out early by as much. To follow one that is set back would be late by as much.)
"""

import time
from collections.abc import Callable

_MS = 1_000_000


def boottime() -> int:
    """Nanoseconds since the host was started, suspends included. Nobody sets this clock."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class SteadyClock:
    """Unix milliseconds from two clocks in nanoseconds."""

    def __init__(self, host: Callable[[], int] | None = None, elapsed: Callable[[], int] = boottime) -> None:
        self._host = host or time.time_ns
        self._elapsed = elapsed
        self._base = self._host() - elapsed()

    def now(self) -> int:
        """The time."""
        return (self._base + self._elapsed()) // _MS

    def exact_now(self) -> float:
        """The same, with the fraction of the millisecond."""
        return (self._base + self._elapsed()) / _MS

    def skew(self) -> int:
        """By how many milliseconds the host's clock has been set ahead since the start; below 0: set back."""
        ahead = self._host() - self._base - self._elapsed()
        return ahead // _MS if ahead >= 0 else -(-ahead // _MS)

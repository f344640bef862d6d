"""The clock of a store whose database has none: the host's clock at the start, plus the real time since then.

Setting the host's clock meanwhile, by hand or by NTP, makes no message early or late: `skew` says how far the two
clocks have come apart, and the next start takes the host's clock again. (Following a clock that is set ahead would hand
out everything early by as much; following one that is set back would make everything late by as much.)
"""

import time
from collections.abc import Callable

_MS = 1_000_000


def boottime() -> int:
    """Nanoseconds since the host was started, suspends included. This clock is never set."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class SteadyClock:
    """Unix milliseconds, computed from two clocks in nanoseconds: the host's time, and the time elapsed."""

    def __init__(self, host: Callable[[], int] | None = None, elapsed: Callable[[], int] = boottime) -> None:
        self._host = host or time.time_ns
        self._elapsed = elapsed
        self._base = self._host() - elapsed()

    def now(self) -> int:
        """The time in Unix milliseconds."""
        return (self._base + self._elapsed()) // _MS

    def exact_now(self) -> float:
        """As `now`, with fractions of a millisecond."""
        return (self._base + self._elapsed()) / _MS

    def skew(self) -> int:
        """How many milliseconds the host's clock has been set ahead since the start; negative: set back."""
        ahead = self._host() - self._base - self._elapsed()
        return ahead // _MS if ahead >= 0 else -(-ahead // _MS)

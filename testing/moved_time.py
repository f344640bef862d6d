"""The clock of an embedded server: real time, and what was added by hand.

The store, the server's own clock and trio's all use it, so that waits, leases and rounds pass with it as in real time.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import trio

from ..client.durations import Duration, milliseconds
from ..store.steady_clock import boottime

_MS = 1_000_000


class MovedTime(trio.abc.Clock):
    """Counts in nanoseconds. While a server uses the clock, `move` makes a change of it within that server's thread."""

    def __init__(self) -> None:
        self._added = 0
        self._host = time.time_ns() - boottime()
        self.move: Callable[[Callable[[], None]], None] = lambda change: change()

    def elapsed(self) -> int:
        """CLOCK_BOOTTIME, with what was added."""
        return boottime() + self._added

    def host(self) -> int:
        """Unix time: the host's clock at the start and the time since, without later steps of the host's clock."""
        return self._host + self.elapsed()

    def ahead(self) -> int:
        """Milliseconds that were added."""
        return self._added // _MS

    def follow(self, unix_ms: float) -> None:
        """Goes by another clock than the host's, the database's, which shows `unix_ms` now."""
        self._host = round(unix_ms * _MS) - boottime()

    def now(self) -> datetime:
        """The server's time."""
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self.host() // 1000)

    def advance(self, by: Duration) -> datetime:
        """Adds a time, `"2h"` or a timedelta, and returns the server's. Messages that fall due by this come at once."""
        more = milliseconds(by, "by") * _MS
        if more < 0:
            raise ValueError(f"by: {by!r} is below 0, and time does not go back")

        def add() -> None:
            self._added += more

        self.move(add)
        return self.now()

    def start_clock(self) -> None:
        """Does nothing: the clock runs already."""

    def current_time(self) -> float:
        """Seconds, for trio."""
        return self.elapsed() / 1e9

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Seconds of real time until the deadline, unless the clock is moved meanwhile."""
        return deadline - self.current_time()

"""Watches the clocks, and reports faults to the log, `/readyz?verbose` and the alarm.

If the database's clock has jumped, nothing is promoted until three samples agree; then the new time is followed. If the
host's clock was set while the embedded store is open, whose time began with it, the change is not followed before the
next start.
"""

from collections.abc import Callable

import structlog
import trio

from ..alarm import Alarm
from ..clock import Clock
from ..durations import format_time

_SKEW = 1_000
"""Milliseconds by which the host's clock must be off before it is reported; a leap second is not."""

_SOON = 0.2
"""Seconds between two samples of the clock of a new database server, until it is followed."""

log = structlog.get_logger()


class ClockWatch:
    """Takes samples of the clock. `skew` returns by how many milliseconds the host's clock was set since the start."""

    def __init__(self, clock: Clock, alarm: Alarm, skew: Callable[[], int]) -> None:
        self._clock = clock
        self._alarm = alarm
        self._skew = skew
        self._in_doubt = False
        self._jumps = 0
        self._told: int | None = None
        """The skew that was reported last; None if none was."""

    async def take(self) -> None:
        """Takes a sample, unless there is a fresh one already, and reports a jump or a skew."""
        before = self._clock.now()
        try:
            if not self._clock.is_fresh:
                await self._clock.take()
        finally:
            self._tell_jump(before)
            self._tell_skew()

    async def follow_another(self) -> None:
        """Takes samples until the clock of the server that now has the database is followed."""
        await self.take()
        while self._clock.is_anothers:
            await trio.sleep(_SOON)
            await self.take()

    @property
    def wrong(self) -> str | None:
        """What is wrong with the host's clock, as a sentence."""
        skew = self._skew()
        if abs(skew) <= _SKEW:
            return None
        way = "ahead" if skew > 0 else "back"
        return (
            f"the host's clock was set {way} by {abs(skew) / 1000:.1f} s while the server ran; times go on as they did"
            " at its start, until it is started again"
        )

    def _tell_jump(self, before: int) -> None:
        clock = self._clock
        if clock.jumped and not self._in_doubt:
            self._say("clock_jumped", by_ms=clock.doubted_by, promotion="waits until three samples agree")
        elif clock.jumps != self._jumps:
            self._say("clock_followed", by_ms=clock.now() - before, promotion="goes on")
        elif self._in_doubt and not clock.jumped:
            self._say("clock_as_before", by_ms=0, promotion="goes on")
        self._in_doubt, self._jumps = clock.jumped, clock.jumps

    def _tell_skew(self) -> None:
        skew = self._skew()
        if self.wrong is None:
            if self._told is not None:
                log.info("host_clock_as_before", skew_ms=skew)
            self._told = None
        elif self._told is None or abs(skew - self._told) > _SKEW:
            self._told = skew
            self._say("host_clock_set", by_ms=skew, promotion="goes on by the time since the start")

    def _say(self, event: str, **facts: object) -> None:
        log.warning(event, **facts)
        self._alarm.ring(event, at=format_time(self._clock.now()), **facts)

"""The breaker of an endpoint: after failures in a row nothing is posted but a probe now and then. Pure: time is told.

Only failures of different messages count: one that no endpoint can take must go down its ladder, and not be tried for
ever because nothing else comes.
"""

from collections.abc import Callable

_FAILURES = 5
"""Different messages in a row."""
_FIRST_REST, _LONGEST_REST = 1.0, 60.0
"""Seconds between probes, doubled each time."""
_JITTER = 0.25
"""By which part of itself a rest may be longer."""


class Breaker:
    """`chance` draws from 0 to 1. Times are seconds of a clock that nobody sets."""

    def __init__(self, chance: Callable[[], float]) -> None:
        self._chance = chance
        self._failed: set[int] = set()
        """Messages, since the last that was sent."""
        self._rest = 0.0
        self.opened_at: float | None = None
        """None: it is closed."""
        self.probe_at = 0.0
        """While it is open: when the next probe may go out."""

    @property
    def open(self) -> bool:
        """Whether the endpoint is taken for away."""
        return self.opened_at is not None

    def sent(self) -> bool:
        """A message was; whether that closed it."""
        closed = self.open
        self._failed.clear()
        self._rest, self.opened_at = 0.0, None
        return closed

    def refused(self, now: float) -> None:
        """The endpoint is there and refused a message. It is no failure of the endpoint's, but only a message that it
        takes closes the breaker."""
        self._failed.clear()
        if self.open and now >= self.probe_at:
            self._put_off(now)

    def failed(self, id_: int, now: float) -> None:
        """The endpoint did not do its part for this message."""
        if not self.open:
            self._failed.add(id_)
            if len(self._failed) < _FAILURES:
                return
            self.opened_at = now
            self._put_off(now)
        elif now >= self.probe_at:  # others were under way already
            self._put_off(now)

    def left(self, now: float) -> int:
        """Milliseconds until the next probe; 0 when it is time."""
        return max(0, round((self.probe_at - now) * 1000)) if self.open else 0

    def _put_off(self, now: float) -> None:
        self._rest = min(self._rest * 2, _LONGEST_REST) or _FIRST_REST
        self.probe_at = now + self._rest * (1 + _JITTER * self._chance())

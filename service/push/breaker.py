"""The circuit breaker of an endpoint: after several failures in a row only a probe is posted now and then. Pure: the
caller passes the time.

Only failures of different messages count: a single message that the endpoint never accepts must go down its ladder, and
not be retried for ever because no other message comes.
"""

from collections.abc import Callable

_FAILURES = 5
"""Different messages that fail in a row before the breaker opens."""
_FIRST_REST, _LONGEST_REST = 1.0, 60.0
"""Seconds between probes, doubled each time up to the longest."""
_JITTER = 0.25
"""The fraction by which a rest may be longer, at random."""


class Breaker:
    """The state of the breaker. `chance` draws from 0 to 1. Times are seconds of a monotonic clock."""

    def __init__(self, chance: Callable[[], float]) -> None:
        self._chance = chance
        self._failed: set[int] = set()
        """Ids of messages that failed since the last success."""
        self._rest = 0.0
        self.opened_at: float | None = None
        """When the breaker opened; None while it is closed."""
        self.probe_at = 0.0
        """When the next probe may be sent, while the breaker is open."""

    @property
    def open(self) -> bool:
        return self.opened_at is not None

    def sent(self) -> bool:
        """Notes that a message was sent; returns whether that closed the breaker."""
        closed = self.open
        self._failed.clear()
        self._rest, self.opened_at = 0.0, None
        return closed

    def refused(self, now: float) -> None:
        """Notes that the endpoint answered but refused a message. That is not the endpoint's failure, but only an
        accepted message closes the breaker."""
        self._failed.clear()
        if self.open and now >= self.probe_at:
            self._put_off(now)

    def failed(self, id_: int, now: float) -> None:
        """Notes that the endpoint failed to process this message."""
        if not self.open:
            self._failed.add(id_)
            if len(self._failed) < _FAILURES:
                return
            self.opened_at = now
            self._put_off(now)
        elif now >= self.probe_at:  # earlier failures are of posts that were under way already
            self._put_off(now)

    def left(self, now: float) -> int:
        """Milliseconds until the next probe; 0 if it may be sent now, or the breaker is closed."""
        return max(0, round((self.probe_at - now) * 1000)) if self.open else 0

    def _put_off(self, now: float) -> None:
        self._rest = min(self._rest * 2, _LONGEST_REST) or _FIRST_REST
        self.probe_at = now + self._rest * (1 + _JITTER * self._chance())

"""Logs a server's absence: a line when it is noticed, few while it lasts, one when it is over. Pure.

While the server is away all calls of a loop fail, over and over, and each time with the same error.
"""

import logging

from .errors import Unavailable

_log = logging.getLogger("tarry.client")

_REMIND = 10.0
"""Seconds until the first reminder; it doubles with each one."""


class Absence:
    """Whether the server is away, for one loop over a topic. Times are seconds of whatever clock the loop has."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._failures = 0
        """Calls that have failed since the server went away; 0 while it is there."""
        self._again = 0
        """Messages that come again because of the absence."""
        self._since = 0.0
        self._remind_at = 0.0

    def failed(self, what: str, error: Unavailable, now: float) -> None:
        """Notes that a call failed for good."""
        self._failures += 1
        if self._failures == 1:
            self._since, self._remind_at = now, now + _REMIND
            _log.warning("%s %s: %s; going on", what, self._topic, error)
        elif now >= self._remind_at:
            away = now - self._since
            self._remind_at = self._since + 2 * away
            _log.warning("%s: away for %.0f s, %d calls: %s", self._topic, away, self._failures, error)

    def lost(self, messages: int) -> bool:
        """Whether so many messages come again because of the absence; the line at its end counts them."""
        if self._failures:
            self._again += messages
        return self._failures > 0

    def answered(self, now: float) -> None:
        """Notes that a call was answered, by a success or a refusal."""
        self._end("the server answers again after %.0f s", now)

    def closed(self, now: float) -> None:
        """Notes that the loop has ended."""
        self._end("the server was away until the end, for %.0f s", now)

    def _end(self, what: str, now: float) -> None:
        if not self._failures:
            return
        _log.warning(
            f"%s: {what}, %d calls; %d messages come again", self._topic, now - self._since, self._failures, self._again
        )
        self._failures = self._again = 0

"""Failures of the store, counted once; its absences are in the log: a line when it goes, a few while it is away, and
one when it is back, with how long it took.

All that asks the store fails while it is away, over and over. So each transaction is watched here, and those who failed
say it to the debugging log alone (`tell_failure`).
"""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import structlog

from ..store.errors import DuplicateKey, OutcomeUnknown, StoreError, Unavailable
from ..store.store import Kind

_REMIND = 10.0
"""Seconds until the first reminder; to each next one it is twice as long."""

log = structlog.get_logger()


def tell_failure(event: str, error: Exception, **facts: Any) -> None:
    """A warning; unless the store was away, which has its own lines."""
    say = log.debug if isinstance(error, Unavailable) else log.warning
    say(event, error=str(error), **facts)


class Outage:
    """Whether the store is away, and since when; its failures are counted by their names."""

    def __init__(self, count: Callable[[str], None], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._count = count
        self._monotonic = monotonic
        self._failing: set[Kind] = set()
        self._since = 0.0
        self._remind_at = 0.0
        self._failures = 0

    def failed(self, kind: Kind, error: Unavailable) -> None:
        """A transaction could not be had."""
        now = self._monotonic()
        if not self._failing:
            self._since, self._remind_at, self._failures = now, now + _REMIND, 0
            log.warning("store_away", error=str(error), code=error.code)
        elif now >= self._remind_at:
            away = now - self._since
            self._remind_at = self._since + 2 * away
            log.warning("store_still_away", seconds=round(away, 1), failures=self._failures, error=str(error))
        self._failing.add(kind)
        self._failures += 1

    def answered(self, kind: Kind) -> None:
        """A transaction was had. A full disk lets all be read: that it can be read says nothing of writing."""
        if kind in self._failing or (self._failing and kind == "write"):
            self._failing.clear()
            seconds = round(self._monotonic() - self._since, 1)
            log.info("store_back", seconds=seconds, failures=self._failures)

    @contextmanager
    def watch(self, kind: Kind) -> Generator[None, None, None]:
        """Around a transaction, or another question to the database."""
        try:
            yield
        except DuplicateKey:  # nothing is wrong: the same is done under another
            raise
        except StoreError as error:
            self._count(type(error).__name__)
            if isinstance(error, OutcomeUnknown):
                log.warning("outcome_unknown", error=str(error), code=error.code)
            if isinstance(error, Unavailable):
                self.failed(kind, error)
            raise
        self.answered(kind)

"""Failures of the store, counted once; its absences are in the log: a line when it goes, a few while it is away, and
one when it is back, with how long it took.

All that asks the store fails while it is away, over and over. So each transaction is watched here, and those who failed
say it to the debugging log alone (`tell_failure`).
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import structlog

from ..store.errors import DuplicateKey, OutcomeUnknown, StoreError, Unavailable
from ..store.ports import Backend, Work

T = TypeVar("T")
Kind = Literal["read", "write"]

_REMIND = 10.0
"""Seconds until the first reminder; to each next one it is twice as long."""

log = structlog.get_logger()


def tell_failure(event: str, error: Exception, **facts: Any) -> None:
    """A warning; unless the store was away, which has its own lines."""
    say = log.debug if isinstance(error, Unavailable) else log.warning
    say(event, error=str(error), **facts)


class Outage:
    """Whether the store is away, and since when."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
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


class WatchedBackend:
    """A `Backend` whose failures are counted by their names, and whose absences are logged."""

    def __init__(self, backend: Backend, count: Callable[[str], None], outage: Outage | None = None) -> None:
        self._backend = backend
        self._count = count
        self._outage = outage or Outage()

    async def _watched(self, kind: Kind, answer: Awaitable[T]) -> T:
        try:
            result = await answer
        except DuplicateKey:  # nothing is wrong: the same is done under another
            raise
        except StoreError as error:
            self._count(type(error).__name__)
            if isinstance(error, OutcomeUnknown):
                log.warning("outcome_unknown", error=str(error), code=error.code)
            if isinstance(error, Unavailable):
                self._outage.failed(kind, error)
            raise
        self._outage.answered(kind)
        return result

    async def write(self, work: Work[T]) -> T:
        return await self._watched("write", self._backend.write(work))

    async def read(self, work: Work[T]) -> T:
        return await self._watched("read", self._backend.read(work))

    async def now(self) -> int:
        return await self._watched("read", self._backend.now())

    def skew(self) -> int:
        return self._backend.skew()

    async def migrate(self) -> list[str]:
        # Nothing to migrate is a read.
        return await self._watched("read", self._backend.migrate())

    async def applied(self) -> dict[int, bytes]:
        return await self._watched("read", self._backend.applied())

    def sequence(self, topic_queues: Sequence[int], *, by_redis: bool) -> None:
        self._backend.sequence(topic_queues, by_redis=by_redis)

    async def reseat(self, ends: Mapping[int, int]) -> list[int]:
        return await self._backend.reseat(ends)

    async def durability(self) -> list[str]:
        return await self._watched("read", self._backend.durability())

    async def aclose(self) -> None:
        await self._backend.aclose()

    def statistics(self) -> dict[str, int]:
        return self._backend.statistics()

"""The forecast's upkeep: adds up changes, and counts all rows now and then.

Nobody tells the forecast of rows that a user's own SQL adds or takes away. So all rows are counted every hour, and at
the latest then it is right again.
"""

import structlog
import trio
from attrs import define, field

from ....store.looking import upcoming
from ....store.looking.upcoming import Upcoming
from ....store.records import Topic
from ....store.store import Store
from ....store.timers import forecast
from ...clock import Clock
from ...metrics import Metrics

_AGAIN = 3_600_000
"""Milliseconds after which all rows are counted once more."""
_ROUND, _IDLE_ROUND = 2.0, 10.0
_AHEAD = 2 * forecast.MINUTE
"""Milliseconds: by no server's clock is a minute over that begins so far ahead of ours."""

log = structlog.get_logger()


@define(eq=False)
class Forecast:
    """Tells what falls due when. The node that has the duties adds up, counts and forgets."""

    _store: Store
    _clock: Clock
    _metrics: Metrics
    _found: bool = field(default=False, init=False)
    """There was something to add up in the last round."""

    async def upcoming(self, topic: Topic | None, begin: int, width: int, buckets: int, *, overdue: bool) -> Upcoming:
        """How many messages of a topic, or of all, fall due in each stretch of `width` milliseconds."""
        now = self._clock.now()
        return await self._store.read(upcoming.read, topic, begin, width, buckets, now, overdue=overdue)

    async def add_up(self) -> None:
        """Adds up what was changed. Raises `StoreError`."""
        self._found = False
        while await self._store.read(forecast.is_changed):
            self._found = True
            if not await self._store.write(forecast.add_up, self._clock.now()):
                break
            await trio.sleep(0.01)  # others come first

    def rest(self) -> float:
        """Seconds until the next adding up; while nothing changes there is no hurry."""
        return _ROUND if self._found else _IDLE_ROUND

    async def look(self) -> None:
        """Counts all rows, if no node has for an hour. Raises `StoreError`."""
        if self._clock.now() - await self._store.read(forecast.checked_at) > _AGAIN:
            await self._check()

    async def forget(self) -> None:
        """Removes hours that are over. Raises `StoreError`."""
        self._metrics.cleaned("forecast", await self._store.write(forecast.forget, self._clock.now()))

    async def _check(self) -> None:
        began = self._clock.now()
        at, wrong = (began + _AHEAD) // forecast.MINUTE * forecast.MINUTE, 0
        while at < forecast.EVER:
            since = trio.current_time()
            at, some = await self._store.write(forecast.check, at)
            wrong += some
            await trio.sleep(trio.current_time() - since)  # leaves as much time to others
        await self._store.write(forecast.checked, began)
        log.info("forecast_checked", wrong=wrong, took_ms=self._clock.now() - began)

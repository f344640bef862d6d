"""The forecast at work: adds up changes, counts all rows now and then, and tells readers which of the two to trust.

Servers and outboxes of before do not tell what they change. While such a server is at work nobody trusts the forecast;
once none is, all rows are counted, and whoever began before that trusts it again. An outbox is not seen; so who has the
duties counts all rows every hour, and at the latest then a message of it is in the forecast.
"""

import secrets

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
from ..cluster.nodes import Nodes

_FORECAST = 14
"""The migration since which servers tell what they change."""
_AGAIN = 3_600_000
"""Milliseconds after which all rows are counted once more."""
_ASKED_AGAIN = 60_000
"""Milliseconds until a server that trusts the forecast asks when all rows were counted last."""
_ROUND, _IDLE_ROUND = 2.0, 10.0
_APART = 2.0
"""Seconds: servers that start together do not all count."""
_AHEAD = 2 * forecast.MINUTE
"""Milliseconds: no server's clock calls a minute over that begins so far ahead of ours."""

log = structlog.get_logger()

_dice = secrets.SystemRandom()
"""Apart from `random`, whose numbers are for whoever seeds it."""


@define(eq=False)
class Forecast:
    """What falls due when, of this server's point of view."""

    _store: Store
    _clock: Clock
    _metrics: Metrics
    _nodes: Nodes
    _since: int | None = field(default=None, init=False)
    """Since when no server is at work that does not tell; None while one is, or nobody has looked."""
    _checked_at: int = field(default=0, init=False)
    _asked_at: int = field(default=0, init=False)
    """When the store was asked for that; Unix milliseconds."""
    _found: bool = field(default=False, init=False)
    """There was something to add up."""

    @property
    def trusted(self) -> bool:
        """Whether all that waits is in it."""
        since = self._since
        return since is not None and self._nodes.level >= _FORECAST and self._checked_at > since

    async def upcoming(self, topic: Topic | None, begin: int, width: int, buckets: int, *, overdue: bool) -> Upcoming:
        """How many messages of a topic, or of all, fall due in each stretch of `width` milliseconds."""
        if self.trusted:
            now = self._clock.now()
            return await self._store.read(upcoming.read, topic, begin, width, buckets, now, overdue=overdue)
        return await self._store.read(upcoming.scan, topic, begin, width, buckets, overdue=overdue)

    async def add_up(self) -> None:
        """Adds up what was changed. Raises `StoreError`."""
        self._found = False
        if self._nodes.has_duties or self._nodes.level < _FORECAST:  # for a server of before has the duties, perhaps
            while await self._store.read(forecast.is_changed):
                self._found = True
                if not await self._store.write(forecast.add_up, self._clock.now()):
                    break
                await trio.sleep(0.01)  # others come first

    def rest(self) -> float:
        """Seconds until there is to be added up again; while nothing waits or moves there is no hurry."""
        return _ROUND if self._found else _IDLE_ROUND

    async def look(self) -> None:
        """Counts all rows, if that is to be done. Raises `StoreError`."""
        if self._nodes.level < _FORECAST:
            self._since = None
            return
        if self._since is None:
            self._since = self._clock.now()
            await trio.sleep(_dice.uniform(0.1, _APART))
        if self._is_known and 0 <= self._clock.now() - self._asked_at < _ASKED_AGAIN:
            return
        self._asked_at, self._checked_at = self._clock.now(), await self._store.read(forecast.checked_at)
        if not self._is_known:
            await self._check()

    @property
    def _is_known(self) -> bool:
        """Whether nothing is to be counted by this server now."""
        return self.trusted and not (self._nodes.has_duties and self._clock.now() - self._checked_at > _AGAIN)

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
            await trio.sleep(trio.current_time() - since)  # as much time is for others
        if self._nodes.level >= _FORECAST:
            await self._store.write(forecast.checked, began)
            self._checked_at = began
        log.info("forecast_checked", wrong=wrong, took_ms=self._clock.now() - began)

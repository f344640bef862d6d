"""Probes whether the store takes writes, for `/readyz`, the log and the alarm.

It looks at the outcome of the last write, and at how long the write under way has had no answer. A server that is not
ready gets no requests, so nothing would show when writes succeed again: then a publish is rehearsed once a second. Only
a complete rehearsal makes the server ready again, since a store may accept some writes and refuse others. Some failures
tell nothing of other writes: those that may be the caller's own, of a row that others lock, or of a setting or table
that other writes do not meet. After each of them one rehearsal is made, too. Where other programs share the database
and this server writes nothing, a small write now and then shows what a publish would meet.
"""

import os
from collections.abc import Callable

import structlog
import trio
from attrs import define, field

from ...store.errors import DuplicateKey, StoreError
from ...store.store import Store
from ...store.stream import rehearsal
from ..alarm import Alarm
from ..clock import Clock
from ..durations import format_time
from ..outages import Outage, tell_failure

STANDS = 5.0
"""Seconds after which a write without an answer counts as stuck; also, after which a lasting fault is reported."""
_REST, _SHORT_REST, _ROUND = 1.0, 0.2, 1.4
"""Seconds between two probes: while writes are refused; at least; and while all is well."""
_IDLE = 1.0
"""Seconds without a write, after which a small one is made. A writing session that is idle for 1.6 is not reused: this
keeps one open, so that no write has to log in."""
_LARGE = 16 << 10
"""Bytes of the message that is rehearsed after a refused write: a nearly full disk would still accept a small one.
Servers that are set to accept only short statements would refuse a larger one."""

log = structlog.get_logger()


@define(eq=False)
class WriteProbe:
    """`run` makes rehearsals where there is a reason, for ever; `look`, called every second, reports lasting faults."""

    _store: Store
    _outage: Outage
    _clock: Clock
    _alarm: Alarm
    _monotonic: Callable[[], float]
    _rehearsed: bool = field(default=False, init=False)
    """Whether there was a rehearsal at all: one is made at the start."""
    _since: float | None = field(default=None, init=False)
    _is_told: bool = field(default=False, init=False)

    @property
    def wrong(self) -> str | None:
        """Why a publish would be refused, or would hang; None if it would succeed."""
        standing = self._outage.standing
        if standing >= STANDS:
            return f"a write has had no answer for {standing:.0f} s: the store is locked, or cannot commit"
        refused = self._outage.refused
        return None if refused is None else f"the last write was refused: {refused}"

    async def run(self) -> None:
        while True:
            await self._try()
            if self._outage.refused is not None:
                await trio.sleep(_REST)
                continue
            await trio.sleep(_SHORT_REST)
            with trio.move_on_after(_ROUND - _SHORT_REST):
                await self._outage.hurry.wait()

    async def _try(self) -> None:
        outage = self._outage
        doubted, outage.doubted, outage.hurry = outage.doubted, False, trio.Event()
        try:
            if doubted or outage.refused is not None or not self._rehearsed:
                await self._rehearse(os.urandom(_LARGE if outage.refused is not None else 1))
            elif self._store.backend.shared and self._monotonic() - outage.written_at > _IDLE:
                await self._store.write(rehearsal.clear_away, 0, self._clock.now())  # changes nothing, but commits
        except DuplicateKey:
            return  # it got as far as the table: that shows enough
        except StoreError as error:
            # Nobody else locks the rehearsal's rows, so even a lock wait means that the table is locked.
            outage.refuse(error)
            tell_failure("write_rehearsal_failed", error)

    async def _rehearse(self, filling: bytes) -> None:
        refused, now = self._outage.refused, self._clock.now()
        id_ = self._store.ids.make(now)
        await self._store.write(rehearsal.rehearse, id_, now, filling)
        await self._store.write(rehearsal.clear_away, id_, now)
        self._rehearsed = True
        self._outage.rehearsed(refused)

    async def look(self) -> None:
        """Reports a fault that has lasted for `STANDS` seconds, and its end."""
        wrong, now = self.wrong, self._monotonic()
        if self._outage.standing >= STANDS:
            self._outage.stands()
        if wrong is None:
            if self._is_told and self._since is not None:
                seconds = round(now - self._since, 1)
                log.info("store_takes_writes", seconds=seconds)
                self._alarm.ring("store_takes_writes", at=format_time(self._clock.now()), seconds=seconds)
            self._since, self._is_told = None, False
            return
        if self._since is None:
            self._since = now - self._outage.standing
        if now - self._since >= STANDS and not self._is_told:
            self._is_told = True
            log.warning("store_takes_no_writes", because=wrong, seconds=round(now - self._since, 1))
            self._alarm.ring("store_takes_no_writes", at=format_time(self._clock.now()), because=wrong)

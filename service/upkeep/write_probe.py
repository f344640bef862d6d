"""Whether the store takes writes, for `/readyz`, the log and the alarm: what became of the last one, and for how long
the one that is under way has had no answer.

Who is not ready is asked nothing more, so that nothing would tell when writes are taken again: they are rehearsed then,
once a second. It takes a rehearsal in which all went well to be ready again, for a store may take some writes and not
others. A failure that may be its caller's own, or of a row that others hold, says nothing by itself, nor does one of a
setting or a table that others may not meet: each has one rehearsed too. Where others share the database and this server
writes nothing, a small write now and then tells what a publish would meet.
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
"""Seconds without an answer after which a write stands; and without a write that is taken, after which it is told."""
_REST, _SHORT_REST, _ROUND = 1.0, 0.2, 1.4
"""Seconds: while writes are refused, between two rehearsals at least, and while all is well."""
_IDLE = 1.0
"""Seconds without a write. After 1.6 a session that writes is not used again: so one stays, and no write logs in."""
_LARGE = 16 << 10
"""Bytes of a message that is rehearsed after a write that was refused: on a disk that is nearly full a small one would
be taken. With more, servers that are set to take short statements would not take it."""

log = structlog.get_logger()


@define(eq=False)
class WriteProbe:
    """`run` rehearses where there is a reason, for ever; `look` tells, every second."""

    _store: Store
    _outage: Outage
    _clock: Clock
    _alarm: Alarm
    _monotonic: Callable[[], float]
    _rehearsed: bool = field(default=False, init=False)
    """Once, at the start, there is a reason."""
    _since: float | None = field(default=None, init=False)
    _is_told: bool = field(default=False, init=False)

    @property
    def wrong(self) -> str | None:
        """Why a publish would be refused, or would wait; None: it would be taken."""
        standing = self._outage.standing
        if standing >= STANDS:
            return f"a write has had no answer for {standing:.0f} s: the store is locked, or cannot commit"
        refused = self._outage.refused
        return None if refused is None else f"the last write was refused: {refused}"

    async def run(self) -> None:
        """For ever."""
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
                await self._store.write(rehearsal.clear_away, 0, self._clock.now())  # nothing, and its commit
        except DuplicateKey:
            return  # it got as far as the table
        except StoreError as error:
            # Nobody else has its rows: a wait for them was one for a table.
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
        """A word about what lasts."""
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

"""Schedules: changes of them, and the mending of those whose message was not sent by promotion."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import structlog
import trio
from attrs import define, field

from ....store.errors import Held, StoreError
from ....store.ports import Transaction
from ....store.rows import ScheduleRow
from ....store.schedules import schedules
from ....store.schedules.firing import Firing
from ....store.schedules.schedules import Fire, Result, Wish
from ....store.store import Store
from ...clock import Clock
from ...errors import Busy
from ...schedules.courses import traced
from ..batching.patience import until_free
from .accepted import Accepted

T = TypeVar("T")

_LATE = 10_000
"""Milliseconds after which it is looked into why a fire time has had no turn."""
_BATCH = 100
_KEPT = 1000
"""Fire times of a schedule that are remembered."""
_SOME = 50
_TURNS = 100
"""Fire times that have come and have their turn before a change, at most."""

log = structlog.get_logger()


@define(eq=False)
class Schedules:
    """Changes schedules, one change after another."""

    _store: Store
    _clock: Clock
    _accepted: Accepted
    _turn: trio.Lock = field(factory=trio.Lock, init=False)
    _behind: int = field(default=0, init=False)
    """The schedule where the last round of `forget` ended."""

    async def put(self, wish: Wish) -> tuple[Result, ScheduleRow | None]:
        """Makes or changes a schedule, once all fire times that have come had their turn. Raises `Busy`."""
        for _ in range(_TURNS):
            result, row = await self._do(lambda tx, firing: schedules.put(tx, firing, wish))
            if result != "behind":
                return result, row
        raise Busy("the schedule is behind its time, and what was due is sent first; try again in a second")

    async def pause(self, name: str, *, paused: bool) -> ScheduleRow | None:
        """Pauses a schedule, or lets it go on; None when there is none."""
        return await self._do(lambda tx, firing: schedules.pause(tx, firing, name, paused=paused))

    async def remove(self, name: str, revision: int | None) -> tuple[bool, ScheduleRow | None, list[Fire]]:
        """Removes a schedule; False when it is at another revision. Also returns the fire times that had come and are
        not sent."""
        return await self._do(lambda tx, firing: schedules.remove(tx, firing, name, revision))

    async def run(self, name: str, trace: Mapping[str, str]) -> tuple[int, int] | None:
        """Sends a message of the schedule now, with this trace: its id and its fire time; None without a schedule."""
        return await self._do(lambda tx, firing: schedules.run(tx, firing, name, partial(traced, trace)))

    async def backfill(self, name: str, times: Sequence[int], trace: Mapping[str, str]) -> list[tuple[int, int]] | None:
        """Sends messages for those of these fire times that had none: (fire time, id); None without a schedule."""
        return await self._do(lambda tx, firing: schedules.backfill(tx, firing, name, times, partial(traced, trace)))

    async def mend(self) -> None:
        before = self._clock.now() - _LATE
        place: schedules.WaitingKey | None = schedules.FIRST
        while place is not None:
            ids, place = await self._store.read(schedules.overdue, before, place, _BATCH)
            if ids:
                await self._do(partial(_mend, ids))

    async def go_on(self, cancelled: Sequence[int]) -> None:
        """Has schedules whose message was cancelled wait for their next fire time."""
        try:
            await self._do(partial(_mend, cancelled))
        except StoreError as error:  # the cancel is done; `mend` sees to the rest
            log.warning("schedule_waits", error=str(error), messages=len(cancelled))

    async def forget(self) -> None:
        """Forgets old fire times, of a bounded number of schedules a round."""
        _, on = await self._store.write(schedules.forget_fires, self._behind, _KEPT, _SOME)
        self._behind = on or 0

    async def _do(self, function: Callable[[Transaction, Firing], Awaitable[T]]) -> T:
        """Makes a change in a transaction. Raises `Busy` while another transaction holds a message that is due."""

        async def look() -> T | Held:
            try:
                async with self._turn:
                    done, fired = await self._store.schedule(function, self._clock.now())
                    self._accepted.fired(fired)
                    return done
            except Held as held:
                return held

        done = await until_free(look, lambda one: isinstance(one, Held), "the schedule's message")
        if isinstance(done, Held):
            raise done
        return done


async def _mend(ids: Sequence[int], tx: Transaction, firing: Firing) -> int:
    return await schedules.mend(tx, firing, ids)

"""A store that records its side results: schedules' messages that wait or were dropped, and guards to be asked."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeVar

from attrs import define, field

from tarry.store.ports import Transaction
from tarry.store.schedules.course import Armed, Fired
from tarry.store.schedules.firing import Firing
from tarry.store.store import Store
from tarry.store.timers.timers import Brought

T = TypeVar("T")


@define
class HearingStore(Store):
    """Records them in order, since its start."""

    armed: list[Armed] = field(factory=list[Armed], init=False)
    dropped: list[tuple[int, int]] = field(factory=list[tuple[int, int]], init=False)
    guarded: dict[int, str] = field(factory=dict[int, str], init=False)

    def _hear(self, fired: Fired) -> None:
        self.armed += fired.armed
        self.dropped += fired.dropped

    async def promote_some(
        self, entries: Sequence[int], now: int, behind: Collection[int] | None = (), *, whole: bool = False
    ) -> Brought:
        brought = await super().promote_some(entries, now, behind, whole=whole)
        self._hear(brought.fired)
        self.guarded |= brought.guarded
        return brought

    async def change(self, function: Callable[[Transaction, Firing], Awaitable[T]], now: int) -> T:
        """Runs a function over schedules and returns its result."""
        done, fired = await self.schedule(function, now)
        self._hear(fired)
        return done

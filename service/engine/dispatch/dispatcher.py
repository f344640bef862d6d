"""The dispatcher: sleeps to the next due millisecond, wakes for an earlier one, and has what is due promoted.

It alone turns the wheel. It works its position out anew at every wake-up, so that a suspend of the host or a long
promotion skips nothing. Batches are bounded. What is due beyond one goes to the `burst`, where topics take turns, and
so does all that falls due until the burst is gone.
"""

from collections.abc import Sequence

import trio
from attrs import define, field

from ....store.errors import StoreError
from ....wheel.columns import Columns
from ...clock import Clock
from ...outages import tell_failure
from ..state.pending import Pending
from .burst import BATCH, Burst
from .promotion import Promotion

_STRETCH, _FIRST_STRETCH = 20_000, 2_000
"""Due entries whose topics are looked up together; the latter while the burst's largest topic is not known, and where
nothing has to be looked up: other tasks have their turn in between."""
_BREATH = 0.002
"""Seconds between two looks that lay a burst in lanes. Within its second entries fall due all the time, and looking
again and again would leave no time to those who are served."""
_PIECE = 4000
"""Entries of the next cycle dealt to their slots at one wake-up, and entries of large slots sorted."""
_LONGEST_REST = 1.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
"""Seconds before another try when the store is away."""
_DOUBTED = 0.1
"""Seconds between two looks whether the time is still in doubt."""


@define(eq=False)
class Dispatcher:
    _pending: Pending
    _promotion: Promotion
    _burst: Burst
    _clock: Clock
    _many: bool = field(default=False, init=False)
    """More was due than one batch holds, when last looked."""
    _turned: trio.Event = field(factory=trio.Event, init=False)
    _stopping: bool = field(default=False, init=False)
    _stopped: trio.Event = field(factory=trio.Event, init=False)

    async def turned(self) -> None:
        """Waits until the wheel has been looked at once more; for tests, which step the clock themselves."""
        await self._turned.wait()

    async def run(self) -> None:
        pending = self._pending
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._burst.run)
            while not self._stopping:
                pending.wake = trio.Event()
                was_due = not self._clock.in_doubt and await self._look()
                self._turned.set()
                self._turned = trio.Event()
                if was_due:
                    continue
                unready = pending.wheel.deal(_PIECE) + pending.wheel.prepare(_PIECE)
                await self._rest(0.01 if unready else _LONGEST_REST)
            self._burst.stop()
        self._stopped.set()

    async def stop(self) -> None:
        """Stops, and returns when nothing is under way and nothing will be."""
        self._stopping = True
        self._pending.wake.set()
        await self._stopped.wait()

    async def _look(self) -> bool:
        """Has what is due promoted; returns whether something was due."""
        now, pending = self._clock.now(), self._pending
        if pending.lanes or self._many or pending.releases or pending.seconds.knows(now):
            return await self._look_at_many(now)
        entries = pending.wheel.advance(now, BATCH)
        if entries:
            next_due = pending.wheel.next_due() if len(entries) == BATCH else None
            self._many = next_due is not None and next_due <= now
            await self._fire(entries)
        return bool(entries)

    async def _look_at_many(self, now: int) -> bool:
        pending = self._pending
        known = pending.seconds.knows(now)
        stretch = _STRETCH if self._burst.largest and not known else _FIRST_STRETCH
        timers = pending.wheel.advance_columns(now, stretch)
        self._many = False
        # While a burst is known, not even its first messages go by themselves.
        if pending.lanes or known or len(timers) > BATCH or pending.releases:
            await self._lay(timers)
            if 0 < len(timers) < stretch and len(pending.lanes) > BATCH:
                await trio.sleep(_BREATH)
        elif timers:
            await self._fire(timers.ids.tolist())
        return len(timers) > 0

    async def _rest(self, longest: float) -> None:
        seconds, pending = longest, self._pending
        due = pending.wheel.next_due()
        if due is not None and not self._clock.in_doubt:
            seconds = min(seconds, self._clock.seconds_until(due))
        pending.sleeps_until = due
        with trio.move_on_after(seconds):
            await pending.wake.wait()
        pending.sleeps_until = None

    async def _fire(self, entries: Sequence[int]) -> None:
        self._pending.under_way = left = entries
        while left:
            _, left = await self._promotion.promote(left)
        self._pending.under_way = ()

    async def _lay(self, timers: Columns) -> None:
        """Has the entries laid in lanes, however long the store is away."""
        if not timers:
            return
        self._pending.under_way = timers.ids
        pause = _FIRST_PAUSE
        while True:
            try:
                await self._burst.put(timers)
                break
            except StoreError as error:
                tell_failure("looking_ahead_failed", error, again_in=pause)
                await trio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            while self._clock.in_doubt:  # the database may be another server by now
                await trio.sleep(_DOUBTED)
        self._pending.under_way = ()

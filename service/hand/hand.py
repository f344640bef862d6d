"""The hand: sleeps to the next due millisecond, wakes for an earlier one, and has what is due promoted.

The hand alone moves the wheel. It works its position out anew at every wake-up, so that a suspend of the host or a long
promotion skips nothing. Batches are bounded; what is due beyond one stays ready in the wheel, oldest first.
"""

from collections.abc import Awaitable, Callable, Container, Iterable, Sequence, Set

import trio
from attrs import define, field

from ...store.errors import StoreError
from ...store.records import Promoted
from ...wheel.horizon import Horizon
from ...wheel.timing_wheel import TimingWheel
from ..clock import Clock
from ..outages import tell_failure
from ..shares import Shares, whole

BATCH = 1000
"""Messages promoted in one transaction."""
_PIECE = 4000
"""Entries of the next cycle dealt to their slots at one wake-up."""
_LONGEST_REST = 1.0
_SOON = 6_000
"""Milliseconds: what falls due so soon is kept when its shard goes, whose owner may not have seen it yet."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
"""Seconds before another try when the store is away."""
_DOUBTED = 0.1
"""Seconds between two looks whether the time is still in doubt."""


@define(eq=False)
class Hand:
    """Turns one wheel. `promote` hands entries to the stream and tells which of them were."""

    wheel: TimingWheel
    horizon: Horizon
    _clock: Clock
    _promote: Callable[[Sequence[int], int], Awaitable[Sequence[Promoted]]]
    _streamed: Callable[[Sequence[Promoted]], None]
    _aside: Container[int] = field(factory=frozenset[int], alias="aside")
    """Entries that are due and are not in the wheel any more."""
    shares: Shares = field(factory=whole)
    _firing: Set[int] = field(factory=frozenset[int], init=False)
    """Entries on their way: out of the wheel, and not in the stream or aside."""
    _wake: trio.Event = field(factory=trio.Event, init=False)
    _sleeps_until: int | None = field(default=None, init=False)  # None: awake, or with nothing to wait for
    _turned: trio.Event = field(factory=trio.Event, init=False)
    _stopping: bool = field(default=False, init=False)
    _stopped: trio.Event = field(factory=trio.Event, init=False)

    def add(self, due: int, entry: int) -> None:
        """Takes note of a committed row, whoever has its shard. Past the horizon it is left to its page."""
        if self.horizon.covers(due):
            self.wheel.add(due, entry)
            if self._sleeps_until is None or due < self._sleeps_until:
                self._wake.set()

    def add_many(self, dues: Sequence[int], entries: Sequence[int]) -> None:
        """Takes note of a page of rows, whose times need not be in order."""
        self.wheel.add_many(dues, entries)
        self._wake.set()

    def add_missing(self, timers: Iterable[tuple[int, int]]) -> int:
        """Takes note of those rows a sweep found that nobody here knows of; returns how many."""
        timers = [(due, entry) for due, entry in timers if entry not in self._aside and entry not in self._firing]
        missing = self.wheel.missing([due for due, _ in timers], [entry for _, entry in timers])
        for due, entry in missing:
            self.add(due, entry)
        return len(missing)

    def cancel(self, due: int, entry: int) -> None:
        """Forgets a row that was cancelled or moved. (One that fires all the same finds nothing to promote.)"""
        if self.horizon.covers(due):
            self.wheel.cancel(due, entry)

    async def forget(self, shards: Set[int]) -> None:
        """Forgets what is of these shards, but for what is due soon: their owner may not have seen it yet."""
        for _ in self.wheel.forget(shards, self._clock.now() + _SOON):
            await trio.lowlevel.checkpoint()

    @property
    def behind(self) -> int:
        """By how many milliseconds the oldest entry that is due is late; 0 when none is."""
        due = self.wheel.next_due()
        return 0 if due is None or self._clock.in_doubt else max(0, self._clock.now() - due)

    async def turned(self) -> None:
        """Waits until the hand has looked at the wheel once more; for tests, which step the clock themselves."""
        await self._turned.wait()

    async def run(self) -> None:
        """Turns until it is stopped."""
        while not self._stopping:
            self._wake = trio.Event()
            entries = [] if self._clock.in_doubt else self.wheel.advance(self._clock.now(), BATCH)
            if entries:
                await self._fire(entries)
            self._turned.set()
            self._turned = trio.Event()
            if entries:
                continue
            undealt = self.wheel.deal(_PIECE)
            await self._rest(0.01 if undealt else _LONGEST_REST)
        self._stopped.set()

    async def stop(self) -> None:
        """Returns when nothing is under way, and nothing will be."""
        self._stopping = True
        self._wake.set()
        await self._stopped.wait()

    async def _rest(self, longest: float) -> None:
        seconds = longest
        due = self.wheel.next_due()
        if due is not None and not self._clock.in_doubt:
            seconds = min(seconds, self._clock.seconds_until(due))
        self._sleeps_until = due
        with trio.move_on_after(seconds):
            await self._wake.wait()
        self._sleeps_until = None

    async def _fire(self, entries: Sequence[int]) -> None:
        pause = _FIRST_PAUSE
        self._firing = set(entries)
        while True:
            try:
                promoted = await self._promote(entries, self._clock.now())
                break
            except StoreError as error:
                tell_failure("promotion_failed", error, entries=len(entries), again_in=pause)
                await trio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            while self._clock.in_doubt:  # it may be another server that has the database by now
                await trio.sleep(_DOUBTED)
        self._firing = frozenset()
        self._streamed(promoted)

"""Pending: entries that wait for their time, and those that are due and wait for their turn.

The part that has committed a row tells of it here. Pending holds the wheel, the horizon, and the lanes of what is due
beyond a batch. It is passive: the dispatcher turns the wheel, and is woken by an entry that is due earlier than it
sleeps for.
"""

import math
from collections.abc import Generator, Iterable, Sequence, Set
from contextlib import contextmanager

import trio
from attrs import define, field

from ....store.records import Promoted
from ....wheel.horizon import Horizon
from ....wheel.timing_wheel import TimingWheel
from ...clock import Clock
from .due_lanes import DueLanes
from .known_seconds import FEW, KnownSeconds
from .releases import Releases

_SECOND = 1_000
_SOON = 6_000
"""Milliseconds: entries due so soon are kept when their shard goes, for its owner may not have seen them yet."""
_LATE = 1_000
"""Milliseconds that due entries may be late while cleaning goes on: beyond that it waits, for they come first."""


@define(eq=False)
class Pending:
    """Wheel entries, from their commit until their promotion begins."""

    wheel: TimingWheel
    horizon: Horizon
    _clock: Clock
    releases: Releases
    lanes: DueLanes = field(factory=DueLanes, init=False)
    """Entries that are due beyond a batch."""
    seconds: KnownSeconds = field(factory=KnownSeconds, init=False)
    """Crowded seconds that were looked at before they begin."""
    under_way: Sequence[int] = field(default=(), init=False)
    """Entries that have left the wheel, and are not in the stream, aside or in the lanes."""
    wake: trio.Event = field(factory=trio.Event, init=False)
    sleeps_until: int | None = field(default=None, init=False)
    """The due time that the sleeping dispatcher waits for: an earlier one wakes it. None: it is awake, or has none."""
    _sweeps: int = field(default=0, init=False)
    """Sweeps that are under way."""
    _gone: set[int] = field(factory=set[int], init=False)
    """Entries that went into the stream while a sweep was under way."""

    def __len__(self) -> int:
        return len(self.wheel) + len(self.lanes)

    def add(self, due: int, entry: int) -> None:
        """Notes a committed row, whoever has its shard. A row past the horizon is left to its page."""
        if self.horizon.covers(due):
            self.wheel.add(due, entry)
            self.seconds.note(due, entry)
            if self.sleeps_until is None or due < self.sleeps_until:
                self.wake.set()

    def add_many(self, dues: Sequence[int], entries: Sequence[int]) -> None:
        """Notes a page of rows, whose times need not be in order."""
        self.wheel.add_many(dues, entries)
        self.seconds.note_many(dues)
        self.wake.set()

    def cancel(self, due: int, entry: int) -> None:
        """Forgets a row that was cancelled or moved. (One that fires all the same finds nothing to promote.)"""
        if self.horizon.covers(due):
            self.wheel.cancel(due, entry)

    async def forget(self, shards: Set[int]) -> None:
        """Forgets the entries of these shards, except those due about now: their owner may not have seen them yet."""
        for _ in self.wheel.forget(shards, self._clock.now() + _SOON):
            await trio.lowlevel.checkpoint()
        for _ in self.lanes.forget(shards, self._clock.now() - _SOON):
            await trio.lowlevel.checkpoint()

    @contextmanager
    def sweep(self) -> Generator[None, None, None]:
        """Around a sweep. Entries that go into the stream meanwhile may have been read before: they are not missing."""
        self._sweeps += 1
        try:
            yield
        finally:
            self._sweeps -= 1
            if not self._sweeps:
                self._gone.clear()

    def went(self, promoted: Sequence[Promoted]) -> None:
        if self._sweeps:
            self._gone.update(one.entry for one in promoted)

    def add_missing(self, timers: Iterable[tuple[int, int]], found: set[int] | None = None) -> int:
        """Notes those rows that a sweep found and that are not known here; returns how many. They go into `found`."""
        under_way, gone = frozenset(self.under_way), self._gone
        timers = [one for one in timers if one[1] not in under_way and one[1] not in gone]
        if self.lanes and timers:
            here = self.lanes.among(timers)
            timers = [(due, entry) for due, entry in timers if entry not in here]
        missing = self.wheel.missing([due for due, _ in timers], [entry for _, entry in timers])
        for due, entry in missing:
            self.add(due, entry)
        if found is not None:
            found.update(entry for _, entry in missing)
        return len(missing)

    def known(self, until: int) -> int:
        """How many entries are known that are due, or fall due up to the second of `until`, which comes soon."""
        seconds = range(self._clock.now() // _SECOND, until // _SECOND + 1)
        return len(self.lanes) + self.wheel.opened + sum(self.wheel.load(second) or 0 for second in seconds)

    @property
    def oldest_in_lanes(self) -> int | None:
        """The due time of the entry that has waited longest in the lanes and is not held back by a rate."""
        return self.lanes.oldest(but=self.releases.bounds)

    @property
    def behind(self) -> int:
        """By how many milliseconds the oldest entry that is due is late; 0 when none is. Messages that a topic's
        release rate holds back are not late."""
        dues = [due for due in (self.wheel.next_due(), self.oldest_in_lanes) if due is not None]
        return max(0, self._clock.now() - min(dues)) if dues and not self._clock.in_doubt else 0

    @property
    def is_late(self) -> bool:
        return self.behind > _LATE

    @property
    def held_back(self) -> list[int]:
        """The topics with a release rate of which entries are due and wait."""
        return [topic for topic in self.lanes.topics if self.releases.bounds(topic)] if self.releases else []

    def held_back_of(self, topic: int) -> int:
        """How many entries of a topic are due and wait for its rate; 0 where it has none."""
        return self.lanes.waiting(topic) if self.releases.bounds(topic) else 0

    def until_other_topic(self) -> float:
        """Seconds until an entry falls due that comes by itself, not with a burst; as far as is known."""
        now = self._clock.now()
        if self.seconds.knows(now):
            due = self.seconds.next_other(now)
        else:
            due = self.wheel.next_due() if self.wheel.opened <= FEW else None
        return math.inf if due is None else self._clock.seconds_until(due)

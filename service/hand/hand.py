"""The hand: sleeps to the next due millisecond, wakes for an earlier one, and has what is due promoted.

The hand alone moves the wheel. It works its position out anew at every wake-up, so that a suspend of the host or a long
promotion skips nothing. Batches are bounded. What is due beyond one goes to the `crowd`, where topics take turns, and
so does all that falls due until the crowd is gone.
"""

import math
from collections.abc import Awaitable, Callable, Container, Generator, Iterable, Sequence, Set
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import trio
from attrs import define, field

from ...store.errors import StoreError
from ...store.records import Promoted
from ...wheel.columns import Columns
from ...wheel.horizon import Horizon
from ...wheel.timing_wheel import TimingWheel
from ..clock import Clock
from ..outages import tell_failure
from ..shares import Shares, whole
from .crowd import Crowd, TopicsOf, unknown
from .gaps import FEW, Gaps
from .lookahead import Lookahead, Strangers, nobody_known
from .releases import Releases, unbounded

T = TypeVar("T")

BATCH = 500
"""Messages promoted in one transaction. The commit of a thousand takes so long that others wait for it: measured, a
neighbour of a crowd had its messages a third later, and the crowd was through no sooner."""
_STRETCH, _FIRST_STRETCH = 20_000, 2_000
"""Due entries whose topics are looked up together; the latter while it is not known of which topic most are, and where
nothing has to be looked up: others have their turn in between."""
_BREATH = 0.002
"""Seconds between two looks that lay a crowd in lanes. In its second something is due at all times, and to look again
and again would leave no time to those who are served."""
_PIECE = 4000
"""Entries of the next cycle dealt to their slots, and of a large slot put in order, at one wake-up."""
_SECOND = 1_000
_LONGEST_REST = 1.0
_SOON = 6_000
"""Milliseconds: what falls due so soon is kept when its shard goes, whose owner may not have seen it yet."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
"""Seconds before another try when the store is away."""
_DOUBTED = 0.1
"""Seconds between two looks whether the time is still in doubt."""


@define(eq=False)
class Hand:
    """Turns one wheel. `promote` hands entries to the stream, and tells which of them were and which are left to do."""

    wheel: TimingWheel
    horizon: Horizon
    _clock: Clock
    _promote: Callable[[Sequence[int], int], Awaitable[tuple[Sequence[Promoted], Sequence[int]]]]
    _streamed: Callable[[Sequence[Promoted]], None]
    _aside: Container[int] = field(factory=frozenset[int], alias="aside")
    """Entries that are due and are not in the wheel any more."""
    shares: Shares = field(factory=whole)
    _topics_of: TopicsOf = field(default=unknown, alias="topics_of")
    _strangers: Strangers = field(default=nobody_known, alias="strangers")
    _releases: Releases = field(factory=unbounded, alias="releases")
    crowd: Crowd = field(init=False)
    """What is due beyond a batch."""
    _lookahead: Lookahead = field(init=False)
    _firing: Sequence[int] = field(default=(), init=False)
    """Entries on their way: out of the wheel, and not in the stream, aside or in the crowd."""
    _sweeps: int = field(default=0, init=False)
    """How many are under way."""
    _gone: set[int] = field(factory=set[int], init=False)
    """Entries that went into the stream since a sweep began that is under way."""
    _many: bool = field(default=False, init=False)
    """More was due than a batch, when last looked."""
    _wake: trio.Event = field(factory=trio.Event, init=False)
    _sleeps_until: int | None = field(default=None, init=False)  # None: awake, or with nothing to wait for
    _turned: trio.Event = field(factory=trio.Event, init=False)
    _stopping: bool = field(default=False, init=False)
    _stopped: trio.Event = field(factory=trio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        doubted = lambda: self._clock.in_doubt  # noqa: E731 - a question, and no name of its own
        self._lookahead = Lookahead(self._topics_of, self._strangers)
        topics_of = self._lookahead.topics_of
        gaps = Gaps(self._until_neighbour)
        self.crowd = Crowd(self._promote_some, topics_of, doubted, BATCH, self._releases, gaps, self._aside)

    def __len__(self) -> int:
        """Timers in memory."""
        return len(self.wheel) + len(self.crowd)

    def add(self, due: int, entry: int) -> None:
        """Takes note of a committed row, whoever has its shard. Past the horizon it is left to its page."""
        if self.horizon.covers(due):
            self.wheel.add(due, entry)
            self._lookahead.note(due, entry)
            if self._sleeps_until is None or due < self._sleeps_until:
                self._wake.set()

    def add_many(self, dues: Sequence[int], entries: Sequence[int]) -> None:
        """Takes note of a page of rows, whose times need not be in order."""
        self.wheel.add_many(dues, entries)
        self._lookahead.note_many(dues)
        self._wake.set()

    @contextmanager
    def sweep(self) -> Generator[None, None, None]:
        """Around a sweep. What goes into the stream meanwhile may have been read before that, and is not missing."""
        self._sweeps += 1
        try:
            yield
        finally:
            self._sweeps -= 1
            if not self._sweeps:
                self._gone.clear()

    def add_missing(self, timers: Iterable[tuple[int, int]], found: set[int] | None = None) -> int:
        """Takes note of those rows a sweep found that nobody here knows of; returns how many. They go into `found`."""
        aside, firing, gone = self._aside, frozenset(self._firing), self._gone
        timers = [one for one in timers if one[1] not in aside and one[1] not in firing and one[1] not in gone]
        if self.crowd and timers:
            here = self.crowd.among(timers)
            timers = [(due, entry) for due, entry in timers if entry not in here]
        missing = self.wheel.missing([due for due, _ in timers], [entry for _, entry in timers])
        for due, entry in missing:
            self.add(due, entry)
        if found is not None:
            found.update(entry for _, entry in missing)
        return len(missing)

    def cancel(self, due: int, entry: int) -> None:
        """Forgets a row that was cancelled or moved. (One that fires all the same finds nothing to promote.)"""
        if self.horizon.covers(due):
            self.wheel.cancel(due, entry)

    async def forget(self, shards: Set[int]) -> None:
        """Forgets what is of these shards, but for what is due about now: their owner may not have seen it yet."""
        for _ in self.wheel.forget(shards, self._clock.now() + _SOON):
            await trio.lowlevel.checkpoint()
        for _ in self.crowd.forget(shards, self._clock.now() - _SOON):
            await trio.lowlevel.checkpoint()

    async def look_ahead(self) -> None:
        """Finds out, now and then, of which topics those are that fall due in a crowded second. Raises `StoreError`."""
        if not self._clock.in_doubt:
            await self._lookahead.look(self._clock.now(), self.wheel.load)

    def known(self, until: int) -> int:
        """How many it knows of that are due, or fall due up to the second of `until`, which comes soon."""
        seconds = range(self._clock.now() // _SECOND, until // _SECOND + 1)
        return len(self.crowd) + self.wheel.opened + sum(self.wheel.load(second) or 0 for second in seconds)

    @property
    def behind(self) -> int:
        """By how many milliseconds the oldest entry that is due is late; 0 when none is. What a topic's release rate
        holds back is not late."""
        dues = [due for due in (self.wheel.next_due(), self.crowd.oldest) if due is not None]
        return max(0, self._clock.now() - min(dues)) if dues and not self._clock.in_doubt else 0

    async def turned(self) -> None:
        """Waits until the hand has looked at the wheel once more; for tests, which step the clock themselves."""
        await self._turned.wait()

    async def run(self) -> None:
        """Turns until it is stopped."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.crowd.run)
            while not self._stopping:
                self._wake = trio.Event()
                was_due = not self._clock.in_doubt and await self._look()
                self._turned.set()
                self._turned = trio.Event()
                if was_due:
                    continue
                unready = self.wheel.deal(_PIECE) + self.wheel.prepare(_PIECE)
                await self._rest(0.01 if unready else _LONGEST_REST)
            self.crowd.stop()
        self._stopped.set()

    async def stop(self) -> None:
        """Returns when nothing is under way, and nothing will be."""
        self._stopping = True
        self._wake.set()
        await self._stopped.wait()

    async def _look(self) -> bool:
        """Has promoted what is due; whether something was."""
        now = self._clock.now()
        if self.crowd or self._many or self._releases or self._lookahead.knows(now):
            return await self._look_at_many(now)
        entries = self.wheel.advance(now, BATCH)
        if entries:
            next_due = self.wheel.next_due() if len(entries) == BATCH else None
            self._many = next_due is not None and next_due <= now
            await self._fire(entries)
        return bool(entries)

    async def _look_at_many(self, now: int) -> bool:
        known = self._lookahead.knows(now)
        stretch = _STRETCH if self.crowd.largest and not known else _FIRST_STRETCH
        timers = self.wheel.advance_columns(now, stretch)
        self._many = False
        # Of a crowd that is known not even the first go by themselves.
        if self.crowd or known or len(timers) > BATCH or self._releases:
            await self._lay(timers)
            if 0 < len(timers) < stretch and len(self.crowd) > BATCH:
                await trio.sleep(_BREATH)
        elif timers:
            await self._fire(timers.ids.tolist())
        return len(timers) > 0

    def _until_neighbour(self) -> float:
        """Seconds until something falls due that comes by itself, not with a crowd; as far as is known."""
        now = self._clock.now()
        if self._lookahead.knows(now):
            due = self._lookahead.next_stranger(now)
        else:
            due = self.wheel.next_due() if self.wheel.opened <= FEW else None
        return math.inf if due is None else self._clock.seconds_until(due)

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
        self._firing = left = entries
        while left:
            _, left = await self._promote_some(left)
        self._firing = ()

    async def _lay(self, timers: Columns) -> None:
        """Has them laid in lanes."""
        if timers:
            self._firing = timers.ids
            await self._until_done("looking_ahead_failed", lambda: self.crowd.put(timers))
            self._firing = ()

    async def _promote_some(self, entries: Sequence[int]) -> tuple[Sequence[Promoted], Sequence[int]]:
        """What of these is in the stream now, and the last of them, whose turn is still to come."""
        some, left = await self._until_done(
            "promotion_failed", partial(self._promote_now, entries), entries=len(entries)
        )
        if self._sweeps:
            self._gone.update(one.entry for one in some)
        self._streamed(some)
        return some, left

    async def _promote_now(self, entries: Sequence[int]) -> tuple[Sequence[Promoted], Sequence[int]]:
        return await self._promote(entries, self._clock.now())

    async def _until_done(self, failed: str, step: Callable[[], Awaitable[T]], **facts: int) -> T:
        pause = _FIRST_PAUSE
        while True:
            try:
                return await step()
            except StoreError as error:
                tell_failure(failed, error, **facts, again_in=pause)
                await trio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            while self._clock.in_doubt:  # it may be another server that has the database by now
                await trio.sleep(_DOUBTED)

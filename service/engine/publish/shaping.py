"""Shaping: finds the emptiest second of a window for a message, and tells how full a second is.

What falls due is known by the minute from the forecast, for all servers and a little late; by the second from this
server's wheel and from the messages that it has placed itself, at once. So all of it is an estimate, and nobody waits
for it.
"""

import secrets
from collections.abc import Iterable, Sequence
from functools import partial
from hashlib import blake2b

import trio
from attrs import define, field

from ....store.store import Store
from ....store.timers import forecast
from ....wheel.spread import Spread
from ....wheel.timing_wheel import TimingWheel
from ...clock import Clock
from ..state.pace import Pace

Window = tuple[int, int]
"""From and to, Unix milliseconds; the end not included."""

WIDEST = 7 * 24 * 3_600_000
"""Milliseconds of the widest window."""
_FRESH = 30_000
"""Milliseconds for which what was read of an hour is used."""
_BACK = 60
"""Seconds that are looked back at to tell whether a second will be late."""
_GROWN = 1.1
"""A second that has grown by this factor is looked at again."""
_SECOND = 1000
_AT_ONCE = 100
"""Hours that are learned before other tasks have their turn: a batch may have windows in ten thousand of them."""
_NOTHING = (0,) * 60
"""The counts of an hour's minutes in which nothing falls due."""


@define(eq=False)
class Shaping:
    """Places messages, and tells how full their seconds are."""

    _store: Store
    _clock: Clock
    _wheel: TimingWheel
    _pace: Pace
    _spread: Spread = field(factory=Spread, init=False)
    _late: dict[int, tuple[int, int]] = field(factory=dict[int, tuple[int, int]], init=False)
    """By second: how many entries it had and by how many milliseconds they will be late, as found since the second
    `_late_at` began."""
    _late_at: int = field(default=0, init=False)

    async def learn(self, windows: Iterable[Window]) -> None:
        """Reads what falls due in these windows, if it is not known. Raises `StoreError`."""
        now = self._clock.now()
        asked = {hour for window in set(windows) for hour in self._spread.unknown(*window, now - _FRESH)}
        if not asked:
            return
        self._spread.forget(now)
        first, last = min(asked), max(asked)
        minutes = await self._store.read(forecast.read, forecast.ALL, first * 60, (last + 1) * 60)
        busy = {minute // 60 for minute in minutes}
        for number, hour in enumerate(asked):
            counts = (
                [minutes.get(minute, 0) for minute in range(hour * 60, (hour + 1) * 60)] if hour in busy else _NOTHING
            )
            self._spread.learn(hour, counts, now, partial(self._seconds, hour))
            if number % _AT_ONCE == _AT_ONCE - 1:
                await trio.lowlevel.checkpoint()

    def _seconds(self, hour: int, minute: int) -> Sequence[int] | None:
        first = hour * 3600 + minute * 60
        loads = [self._wheel.load(first + second) for second in range(60)]
        return None if loads[0] is None else [load or 0 for load in loads]

    def place(self, window: Window, key: str | None) -> int:
        """The time in a window for the next message, Unix milliseconds; the key chooses among equal seconds."""
        since, until = max(window[0], self._clock.now()), window[1]
        number = secrets.randbits(64) if key is None else int(blake2b(key.encode(), digest_size=8).hexdigest(), 16)
        return self._spread.place(since, until, number) if since < until else since

    def load(self, due: int) -> int | None:
        """How many entries fall due in that second, as far as is known here; None but for this hour and the next."""
        return self._wheel.load(due // _SECOND)

    def late_by(self, due: int) -> int | None:
        """By how many milliseconds entries due in that second will be late, at the pace of the last promotions; None if
        that is not known, or if they will not be late."""
        second, now = due // _SECOND, self._clock.now() // _SECOND
        per_s = self._pace.per_s
        load = self._wheel.load(second)
        if per_s is None or load is None:
            return None
        if now != self._late_at:
            self._late_at, self._late = now, {}
        known = self._late.get(second)
        if known is None or load > known[0] * _GROWN:
            known = self._late[second] = load, self._look_back(second, now, per_s)
        return known[1] or None

    def _look_back(self, second: int, now: int, per_s: float) -> int:
        """Milliseconds at most that entries due since some second before take beyond the end of this one."""
        many, late = 0, 0.0
        for before in range(min(_BACK, second - now + 1)):
            many += self._wheel.load(second - before) or 0
            late = max(late, many / per_s - before - 1)
        return int(late * _SECOND)

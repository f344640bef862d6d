"""When it is best to come: the emptiest second of a window, and how full a second is that somebody asks for.

What falls due is known by the minute from the forecast, of all servers, a little old; by the second of what is in this
server's wheel and of what it has placed itself, at once. So all of it is an estimate, and nobody waits for it.
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
"""Milliseconds: so wide may a window be."""
_FRESH = 30_000
"""Milliseconds for which what was read of an hour will do."""
_BACK = 60
"""Seconds before one that may make it late."""
_GROWN = 1.1
"""A second that is so many times as full is looked at again."""
_SECOND = 1000
_AT_ONCE = 100
"""Hours that are learned before others have their turn: a batch may have windows in ten thousands of them."""
_NOTHING = (0,) * 60
"""Of each minute of an hour."""


@define(eq=False)
class Shaping:
    """Places messages, and says how full it is where they are."""

    _store: Store
    _clock: Clock
    _wheel: TimingWheel
    _pace: Pace
    _spread: Spread = field(factory=Spread, init=False)
    _late: dict[int, tuple[int, int]] = field(factory=dict[int, tuple[int, int]], init=False)
    """By second how much there was and by how many milliseconds it will be late, when somebody looked since the second
    `_late_at` began."""
    _late_at: int = field(default=0, init=False)

    async def learn(self, windows: Iterable[Window]) -> None:
        """Reads what falls due in these windows, where that is not known. Raises `StoreError`."""
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
        """The time in a window for the next message, Unix milliseconds; of equal ones the key chooses."""
        since, until = max(window[0], self._clock.now()), window[1]
        number = secrets.randbits(64) if key is None else _hash(key)
        return self._spread.place(since, until, number) if since < until else since

    def load(self, due: int) -> int | None:
        """How many fall due in that second, as far as this server knows; None where it does not, which is the case but
        for the hour under way and the next."""
        return self._wheel.load(due // _SECOND)

    def late_by(self, due: int) -> int | None:
        """By how many milliseconds what falls due in that second will be late, at the pace of the last promotions; None
        where nothing is known of it, or it will not."""
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
        """The longest that what falls due since some second before takes beyond the end of this one."""
        many, late = 0, 0.0
        for before in range(min(_BACK, second - now + 1)):
            many += self._wheel.load(second - before) or 0
            late = max(late, many / per_s - before - 1)
        return int(late * _SECOND)


def _hash(key: str) -> int:
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "big")

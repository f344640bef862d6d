"""The clock: the database's, carried on by the host's boot-time clock between samples.

Now = the last sample, as of the arrival of its answer (so never ahead of the database) + CLOCK_BOOTTIME since then. The
host's wall clock is not used, so steps and suspends of the host do no harm. A sample that is off by more than 5 s holds
promotion until three samples agree, and is then followed.
"""

from collections.abc import Awaitable, Callable

from ..store.steady_clock import boottime

JUMP = 5_000
"""Milliseconds by which a sample may be off before it is doubted."""
AGREEING = 3

_NS = 1_000_000


class Clock:
    """Unix milliseconds. `take` is to be awaited once before `now`, and then every second or two."""

    def __init__(self, sample: Callable[[], Awaitable[int]], *, monotonic: Callable[[], int] = boottime) -> None:
        self._sample = sample
        self._monotonic = monotonic
        self._base: int | None = None
        self._at = 0  # `monotonic` when the sample `_base` arrived
        self._doubted: list[tuple[int, int]] = []  # (sample, arrival) since the jump
        self.jumps = 0

    @property
    def in_doubt(self) -> bool:
        """Whether the database's clock is in doubt, so that nothing may be promoted."""
        return self._base is None or bool(self._doubted)

    @property
    def doubted_by(self) -> int:
        """By how many milliseconds the last sample is off that is doubted; 0 when none is."""
        if self._base is None or not self._doubted:
            return 0
        value, arrived = self._doubted[-1]
        return value - self._base - (arrived - self._at) // _NS

    def now(self) -> int:
        """The time. Raises RuntimeError before the first sample."""
        if self._base is None:
            raise RuntimeError("the clock has no sample yet")
        return self._base + (self._monotonic() - self._at) // _NS

    def seconds_until(self, ms: int) -> float:
        """How long to sleep so that `now()` has reached `ms`; 0 when it has."""
        if self._base is None:
            raise RuntimeError("the clock has no sample yet")
        return max(0, (ms - self._base) * _NS - (self._monotonic() - self._at)) / 1e9

    async def take(self) -> None:
        """Takes a sample."""
        value = await self._sample()
        arrived = self._monotonic()
        if self._base is not None and abs(value - self.now()) > JUMP:
            self._doubt(value, arrived)
            return
        self._doubted.clear()
        self._base, self._at = value, arrived

    def _doubt(self, value: int, arrived: int) -> None:
        if self._doubted:
            last, at = self._doubted[-1]
            if abs(value - last - (arrived - at) // _NS) > JUMP:
                self._doubted.clear()  # it agrees with nothing: begin again
        self._doubted.append((value, arrived))
        if len(self._doubted) >= AGREEING:
            self._doubted.clear()
            self._base, self._at = value, arrived
            self.jumps += 1

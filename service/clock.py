"""The clock: the database's, carried on by the host's boot-time clock between samples.

Now = the last sample, as of the arrival of its answer (so never ahead of the database) + CLOCK_BOOTTIME since then. The
host's wall clock is not used, so steps and suspends of the host do no harm. A sample that is off by more than 5 s holds
promotion until three samples agree, and is then followed. When another server has the database, its clock is another's:
the time is in doubt until there is a sample of it.

Each sample is behind by as long as its answer was on the way, and so is all that is due. So one that is behind what is
known, by no more than it took, is not followed: the earlier one was quicker. And a first one that took long is followed
by others. (The idea is Cristian's, "Probabilistic clock synchronization", 1989.) Held against the earlier one is that
the database's clock may have been slowed meanwhile, mostly by 500 ppm at most (adjtimex(2)); if by more, this clock is
3 ms ahead at most, or as much as the answer took.

Who asks the database for something else every other second, and the time with it, offers it: then no sample is asked
for. One that is off by more than 5 s is not taken from there, but asked for.
"""

import math
from collections.abc import Awaitable, Callable

from ..store.steady_clock import boottime

JUMP = 5_000
"""Milliseconds by which a sample may be off before it is doubted."""
AGREEING = 3

_NS = 1_000_000
_FRESH = 2_500 * _NS
"""For so long nothing is asked for when something was offered."""
_SLEWED = 2_000
"""A clock that is being slowed loses a nanosecond in so many."""
_ON_THE_WAY = 3 * _NS
"""An answer may be so much longer on its way than the quickest, or as long as it took. What is further behind is a
clock that was set back."""
_QUICK = 5 * _NS
_TRIES = 4
"""Of the first sample, until one is quick."""


class Clock:
    """Unix milliseconds. `take` is to be awaited once before `now`, and then every second or two."""

    def __init__(
        self,
        sample: Callable[[], Awaitable[float]],
        *,
        monotonic: Callable[[], int] = boottime,
        server: Callable[[], str] = str,
        ahead: Callable[[], float] = float,
    ) -> None:
        """`sample` gives Unix milliseconds, with their fraction if it has one: what is cut off, all are late by.
        `server`: whose clock is sampled. `ahead`: by how many milliseconds the time is moved on from that clock's, as
        it is in a test."""
        self._sample = sample
        self._monotonic = monotonic
        self._server = server
        self._ahead = ahead
        self._sampled = ""  # the server that `_lead` is of
        self._lead: int | None = None  # of the database's clock before `monotonic`, nanoseconds
        self._at = 0  # `monotonic` when that was so
        self._doubted: list[int] = []  # the leads of the samples since the jump
        self._fresh_until = 0  # `monotonic` up to which what was offered last will do
        self.jumps = 0

    @property
    def in_doubt(self) -> bool:
        """Whether the database's clock is in doubt, so that nothing may be promoted."""
        return self._lead is None or self.jumped or self.is_anothers

    @property
    def jumped(self) -> bool:
        """Whether the last samples are not followed yet."""
        return bool(self._doubted)

    @property
    def is_anothers(self) -> bool:
        """Whether another server has the database since the last sample."""
        return self._server() != self._sampled

    @property
    def doubted_by(self) -> int:
        """By how many milliseconds the last sample is off that is doubted; 0 when none is."""
        return self._off(self._doubted[-1]) if self._doubted else 0

    @property
    def server(self) -> str:
        """Whose clock is sampled."""
        return self._server()

    @property
    def is_fresh(self) -> bool:
        """Whether something was offered and followed just now, so that nothing needs to be asked for."""
        return not self.in_doubt and self._monotonic() < self._fresh_until

    def now(self) -> int:
        """The time. Raises RuntimeError before the first sample."""
        return (self._known() + self._monotonic()) // _NS

    def monotonic(self) -> int:
        """Milliseconds of the host's boot-time clock, for spans that no step of the database's clock is to change."""
        return self._monotonic() // _NS

    def seconds_until(self, ms: int) -> float:
        """How long to sleep so that `now()` has reached `ms`; 0 when it has."""
        return max(0, ms * _NS - self._known() - self._monotonic()) / 1e9

    def offer(self, value: float, server: str, asked: int) -> None:
        """A sample that came with something else, just now; `server` is whose it was when that was asked for, `asked`
        what `monotonic` said. It is followed only where nothing speaks against it."""
        arrived = self._monotonic()
        lead = self._lead_of(value, arrived)
        self._fresh_until = 0
        if not self.in_doubt and server == self._sampled and abs(self._off(lead)) <= JUMP:
            self._follow(self._quickest(lead, arrived, arrived - asked * _NS), arrived)
            self._fresh_until = arrived + _FRESH

    async def take(self) -> None:
        """Asks for a sample; for more than one where it is the first of a server, and slow."""
        for _ in range(_TRIES if self._lead is None or self.is_anothers else 1):
            asked = self._monotonic()
            await self._take(asked)
            if self._monotonic() - asked <= _QUICK:
                break

    async def _take(self, asked: int) -> None:
        server = self._server()
        value = await self._sample()
        arrived = self._monotonic()
        lead = self._lead_of(value, arrived)
        if server not in ("", self._server()):
            return  # nobody knows whose it is
        if self._lead is not None and abs(self._off(lead)) > JUMP:
            self._doubt(lead, arrived)
            return
        self._doubted.clear()
        self._follow(self._quickest(lead, arrived, arrived - asked), arrived)

    def _lead_of(self, value: float, arrived: int) -> int:
        return math.floor(value * _NS) + math.floor(self._ahead() * _NS) - arrived

    def _quickest(self, lead: int, arrived: int, took: int) -> int:
        """This lead, or what is left of the one before if that was less behind."""
        if self._lead is None or self.is_anothers:
            return lead
        before = self._lead - (arrived - self._at) // _SLEWED
        return before if 0 < before - lead < max(_ON_THE_WAY, took) else lead

    def _follow(self, lead: int, arrived: int) -> None:
        self._lead, self._at, self._sampled = lead, arrived, self._server()

    def _doubt(self, lead: int, arrived: int) -> None:
        if self._doubted and abs(lead - self._doubted[-1]) > JUMP * _NS:
            self._doubted.clear()  # it agrees with nothing: begin again
        self._doubted.append(lead)
        if len(self._doubted) >= AGREEING:
            self._doubted.clear()
            self._follow(lead, arrived)
            self.jumps += 1

    def _known(self) -> int:
        if self._lead is None:
            raise RuntimeError("the clock has no sample yet")
        return self._lead

    def _off(self, lead: int) -> int:
        """By how many milliseconds a sample is off."""
        return (lead - self._known()) // _NS

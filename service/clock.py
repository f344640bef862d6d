"""The clock: the database's, carried on by the host's boot-time clock between samples.

Now = the last sample, as of the arrival of its answer (so never ahead of the database) + CLOCK_BOOTTIME since then. The
host's wall clock is not used, so steps and suspends of the host do no harm. A sample that is off by more than 5 s holds
promotion until three samples agree, and is then followed. When another server has become the database, its clock is a
different one: the time is in doubt until that has been sampled.

Each sample is behind by the time that its answer was on the way, and everything due is late by as much. So a sample
that is behind the known time by no more than its answer took is not followed: the earlier one was quicker. And a first
sample that took long is followed by more. (The idea is Cristian's, "Probabilistic clock synchronization", 1989.) The
database's clock may have been slowed since the earlier sample, usually by no more than 500 ppm (adjtimex(2)), and that
is taken off; if it was slowed by more, this clock is 3 ms ahead at most, or as much as the answer took.

A part that queries the database every other second reads the time along with it and offers it: then no sample is asked
for. An offer that is off by more than 5 s is not followed; a sample is asked for instead.
"""

import math
from collections.abc import Awaitable, Callable

from ..store.steady_clock import boottime

JUMP = 5_000
"""Milliseconds by which a sample may be off before it is doubted."""
AGREEING = 3

_NS = 1_000_000
_FRESH = 2_500 * _NS
"""Nanoseconds after an offer for which no sample is asked for."""
_SLEWED = 2_000
"""A clock that is being slowed loses one nanosecond in so many."""
_ON_THE_WAY = 3 * _NS
"""Nanoseconds by which a sample may be behind because its answer was slow, or as many as the answer took if that is
more. One that is further behind means that the clock was set back."""
_QUICK = 5 * _NS
_TRIES = 4
"""Attempts at the first sample of a server, until one is quick."""


class Clock:
    """Unix milliseconds. Await `take` once before `now`, and then every second or two."""

    def __init__(
        self,
        sample: Callable[[], Awaitable[float]],
        *,
        monotonic: Callable[[], int] = boottime,
        server: Callable[[], str] = str,
        ahead: Callable[[], float] = float,
    ) -> None:
        """`sample` gives Unix milliseconds, with their fraction if it has one: everything is late by a fraction that is
        cut off. `server` names the server whose clock is sampled. `ahead`: milliseconds to add to that clock's time,
        for tests."""
        self._sample = sample
        self._monotonic = monotonic
        self._server = server
        self._ahead = ahead
        self._sampled = ""  # the server whose clock `_lead` is about
        self._lead: int | None = None  # nanoseconds by which the database's clock is ahead of `monotonic`
        self._at = 0  # what `monotonic` was then
        self._doubted: list[int] = []  # the leads of the samples since the jump
        self._fresh_until = 0  # what `monotonic` is when the last offer is no longer fresh
        self.jumps = 0

    @property
    def in_doubt(self) -> bool:
        """Whether the database's clock is in doubt, so that nothing may be promoted."""
        return self._lead is None or self.jumped or self.is_anothers

    @property
    def jumped(self) -> bool:
        """Whether the last samples have jumped, and are not followed yet."""
        return bool(self._doubted)

    @property
    def is_anothers(self) -> bool:
        """Whether the database has moved to another server since the last sample."""
        return self._server() != self._sampled

    @property
    def doubted_by(self) -> int:
        """By how many milliseconds the last sample in doubt is off; 0 when none is."""
        return self._off(self._doubted[-1]) if self._doubted else 0

    @property
    def server(self) -> str:
        return self._server()

    @property
    def is_fresh(self) -> bool:
        """Whether an offer was followed just now, so that no sample needs to be asked for."""
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
        """Offers a sample that came just now with another answer. `server` is where it came from, as of the asking, and
        `asked` what `monotonic` returned then. It is followed only where nothing speaks against it."""
        arrived = self._monotonic()
        lead = self._lead_of(value, arrived)
        self._fresh_until = 0
        if not self.in_doubt and server == self._sampled and abs(self._off(lead)) <= JUMP:
            self._follow(self._quickest(lead, arrived, arrived - asked * _NS), arrived)
            self._fresh_until = arrived + _FRESH

    async def take(self) -> None:
        """Asks for a sample; for up to four if it is the first of a server, and slow."""
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
            return  # the server has changed meanwhile: it is not known which one answered
        if self._lead is not None and abs(self._off(lead)) > JUMP:
            self._doubt(lead, arrived)
            return
        self._doubted.clear()
        self._follow(self._quickest(lead, arrived, arrived - asked), arrived)

    def _lead_of(self, value: float, arrived: int) -> int:
        return math.floor(value * _NS) + math.floor(self._ahead() * _NS) - arrived

    def _quickest(self, lead: int, arrived: int, took: int) -> int:
        """This lead, or the one before, less what the clock may have lost since, if that was less behind."""
        if self._lead is None or self.is_anothers:
            return lead
        before = self._lead - (arrived - self._at) // _SLEWED
        return before if 0 < before - lead < max(_ON_THE_WAY, took) else lead

    def _follow(self, lead: int, arrived: int) -> None:
        self._lead, self._at, self._sampled = lead, arrived, self._server()

    def _doubt(self, lead: int, arrived: int) -> None:
        if self._doubted and abs(lead - self._doubted[-1]) > JUMP * _NS:
            self._doubted.clear()  # it does not agree with those before: begin again
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
        """By how many milliseconds a sample differs from the known time."""
        return (lead - self._known()) // _NS

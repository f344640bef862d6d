"""Measures closed loops: callers that make a call, wait for its answer and repeat; gives calls a second and times.

A warm-up of a tenth of the time comes first and does not count. `cpu_us` is the processor time of this process for
one answer, which a busy machine disturbs less than the other figures.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import TypeVar

import trio

from .report import Figures, percentile

_WARM_UP = 0.1

T = TypeVar("T")


class _Tally:
    """Counts and times the calls of all callers."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        began = time.perf_counter()
        self._cpu = time.process_time()
        self._counts_from = began + seconds * _WARM_UP
        self.ends = self._counts_from + seconds
        self._times: list[float] = []
        self._done = 0

    def note(self, began: float) -> None:
        ended = time.perf_counter()
        self._done += 1
        if self._counts_from <= ended < self.ends:
            self._times.append(ended - began)

    async def repeat(self, act: Callable[[], Awaitable[object]]) -> None:
        """A caller that is a task."""
        while (began := time.perf_counter()) < self.ends:
            await act()
            self.note(began)

    def join(self, other: "_Tally") -> None:
        self._times += other._times
        self._done += other._done

    def figures(self) -> Figures:
        times = sorted(self._times)
        return {
            "per_s": round(len(times) / self._seconds),
            "p50_ms": round(percentile(times, 0.5) * 1000, 2),
            "p99_ms": round(percentile(times, 0.99) * 1000, 2),
            "cpu_us": round((time.process_time() - self._cpu) / self._done * 1e6, 1),
            "answered": self._done,
        }


def cycle(
    claim: Callable[[], Awaitable[T]], ack: Callable[[T], Awaitable[None]], *, ahead: bool
) -> Callable[[], Awaitable[None]]:
    """A consumer's step: a claim and its ack. With `ahead` the next claim is sent together with the ack of the last."""
    held: list[T] = []

    async def one_after_the_other() -> None:
        await ack(await claim())

    async def fetch() -> None:
        held.append(await claim())

    async def overlapping() -> None:
        if not held:
            await fetch()
        mine = held.pop()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fetch)
            nursery.start_soon(ack, mine)

    return overlapping if ahead else one_after_the_other


async def in_tasks(callers: Sequence[Callable[[], Awaitable[object]]], seconds: float) -> Figures:
    """Runs each caller in its own trio task, all in this thread."""
    tally = _Tally(seconds)
    async with trio.open_nursery() as nursery:
        for act in callers:
            nursery.start_soon(tally.repeat, act)
    return tally.figures()


async def in_asyncio(callers: Sequence[Callable[[], Awaitable[object]]], seconds: float) -> Figures:
    """Runs each caller in its own asyncio task, for clients that support no other event loop."""
    tally = _Tally(seconds)
    await asyncio.gather(*map(tally.repeat, callers))
    return tally.figures()


def in_threads(callers: Sequence[Callable[[], object]], seconds: float) -> Figures:
    """Runs each caller in its own thread. An exception in a caller is raised here."""
    total = _Tally(seconds)
    with ThreadPoolExecutor(len(callers)) as pool:
        for tally in pool.map(_repeat, callers, repeat(seconds)):
            total.join(tally)
    return total.figures()


def in_line(act: Callable[[], object], seconds: float) -> Figures:
    """Runs one caller in this thread."""
    return _repeat(act, seconds).figures()


def _repeat(act: Callable[[], object], seconds: float) -> _Tally:
    tally = _Tally(seconds)
    while (began := time.perf_counter()) < tally.ends:
        act()
        tally.note(began)
    return tally

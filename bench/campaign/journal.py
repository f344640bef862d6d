"""Writes the history of a run: every request and answer as it happens; tasks can wait for a number of events."""

import io
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import trio
from attrs import define, field
from msgspec.json import Encoder

from ..checker.event import Event

_ENCODER = Encoder()


@define(eq=False)
class _Waiter:
    op: str
    left: int
    reached: trio.Event = field(factory=trio.Event)


class Journal:
    """Writes JSON lines, from a single process, so that its steady clock orders them. `wall` and `steady` are its
    clocks, in nanoseconds."""

    def __init__(
        self, path: Path, wall: Callable[[], int] = time.time_ns, steady: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self.path = path
        self._wall = wall
        self._steady = steady
        self.counts: Counter[tuple[str, str]] = Counter()
        """Number of lines by operation and phase."""
        self._file: io.BufferedWriter = path.open("wb")
        self._calls = 0
        self._waiters: list[_Waiter] = []

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    @property
    def now_ms(self) -> float:
        """The harness's wall clock, Unix milliseconds."""
        return self._wall() / 1e6

    def call(self) -> int:
        """The number of a new call."""
        self._calls += 1
        return self._calls

    def write(self, op: str, phase: str, **rest: Any) -> None:
        """Writes one line with the current time."""
        event = Event(op, phase, self._wall(), self._steady(), **rest)
        self._file.write(_ENCODER.encode(event) + b"\n")
        self.counts[op, phase] += 1
        for waiter in self._waiters:
            if waiter.op == f"{op}:{phase}":
                waiter.left -= 1
                if waiter.left <= 0:
                    waiter.reached.set()

    async def reached(self, what: str, times: int, seconds: float) -> bool:
        """Waits for `times` more lines of a kind such as `ack:invoke`; returns whether they came within `seconds`."""
        waiter = _Waiter(what, times)
        self._waiters.append(waiter)
        with trio.move_on_after(seconds):
            await waiter.reached.wait()
        self._waiters.remove(waiter)
        return waiter.reached.is_set()

    def flush(self) -> None:
        self._file.flush()

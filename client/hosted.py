"""Runs `loops` as tasks of an event loop in a thread of the client's own; other threads handle the messages.

So one thread waits for the long polls of many topics. All that tasks and threads share is under one lock, which a task
never holds while it waits.
"""

from collections.abc import Callable
from functools import partial

from anyio import CancelScope, Event, move_on_after

from .async_consumption import TaskLoops
from .consumption import ForThreads, Lock
from .delivery import Delivery
from .loops import Sender, Together
from .processes import Owner
from .stock import Terms

Later = Callable[[Callable[[], object]], object]
"""A function that has the event loop call something soon, from any thread."""


class HostedBell:
    """A `Bell` that tasks wait for, under the lock, and any thread rings."""

    def __init__(self, lock: Lock, later: Later) -> None:
        self._lock = lock
        self._later = later
        self._waiting: list[Event] = []

    def ring(self, _many: int = 1, /) -> None:
        while self._waiting:  # nobody waits once the event loop is over, which could not be called any more
            self._later(self._waiting.pop().set)

    async def rung(self, seconds: float | None = None, /) -> None:
        event = Event()
        self._waiting.append(event)
        self._lock.__exit__()
        try:
            with CancelScope() if seconds is None else move_on_after(seconds):
                await event.wait()
        finally:
            self._lock.__enter__()
            if event in self._waiting:
                self._waiting.remove(event)


class HostedConsumption(ForThreads[Event], TaskLoops[Delivery]):
    """Messages of one topic among several. Made in the event loop."""

    def __init__(
        self,
        transport: Sender[Event],
        terms: Terms,
        clock: Callable[[], float],
        lock: Lock,
        later: Later,
        together: Together,
    ) -> None:
        super().__init__(transport, terms, clock, lock, partial(HostedBell, lock, later), together, Delivery)
        self._owner = Owner()

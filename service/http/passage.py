"""A bounded channel from one task to another: keeps the order, hands over everything at once, bounded by total
weight."""

from typing import Generic, TypeVar

import trio
from attrs import define, field

T = TypeVar("T")


@define(eq=False)
class Passage(Generic[T]):
    """One task calls `put` and `end`, the other `take`."""

    limit: int
    """The weight above which it is full."""
    _things: list[T] = field(factory=list[T], init=False)
    _weight: int = field(default=0, init=False)
    _ended: bool = field(default=False, init=False)
    _patient: bool = field(default=False, init=False)
    _changed: trio.Event = field(factory=trio.Event, init=False)

    async def put(self, things: list[T], weight: int) -> None:
        """Adds these, then waits while the passage is full."""
        self._things += things
        self._weight += weight
        self._change()
        while self._weight > self.limit:
            await self._changed.wait()

    async def drained(self) -> None:
        while self._things:
            await self._changed.wait()

    def end(self) -> None:
        """Marks the end: nothing more will be put."""
        self._ended = True
        self._change()

    def wait_for_more(self, patient: bool) -> None:
        """Sets whether `take` waits until the passage is full."""
        self._patient = patient
        self._change()

    async def take(self) -> list[T]:
        """Takes everything, as soon as there is something; an empty list at the end."""
        while not (self._weight > self.limit if self._patient else self._things) and not self._ended:
            await self._changed.wait()
        things, self._things, self._weight = self._things, [], 0
        self._change()
        return things

    def _change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

"""A bounded channel from one task to another: in order, all that is there at once, up to a total weight."""

from typing import Generic, TypeVar

import trio
from attrs import define, field

T = TypeVar("T")


@define(eq=False)
class Passage(Generic[T]):
    """`put` and `end` are for the one task, `take` for the other."""

    limit: int
    """The weight with which it is full."""
    _things: list[T] = field(factory=list[T], init=False)
    _weight: int = field(default=0, init=False)
    _ended: bool = field(default=False, init=False)
    _patient: bool = field(default=False, init=False)
    _changed: trio.Event = field(factory=trio.Event, init=False)

    async def put(self, things: list[T], weight: int) -> None:
        """Hands these on, and waits while it is full."""
        self._things += things
        self._weight += weight
        self._change()
        while self._weight > self.limit:
            await self._changed.wait()

    async def drained(self) -> None:
        """Waits until all has been taken."""
        while self._things:
            await self._changed.wait()

    def end(self) -> None:
        """Nothing more comes."""
        self._ended = True
        self._change()

    def wait_for_more(self, patient: bool) -> None:
        """From now on `take` waits until it is full, or no more."""
        self._patient = patient
        self._change()

    async def take(self) -> list[T]:
        """All that is there, as soon as there is something; nothing at the end."""
        while not (self._weight > self.limit if self._patient else self._things) and not self._ended:
            await self._changed.wait()
        things, self._things, self._weight = self._things, [], 0
        self._change()
        return things

    def _change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

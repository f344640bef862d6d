"""Chooses the topic that is served next, where the same workers serve several. Under the lock of the loops, and pure.

A free worker goes to the topic that the fewest workers handle, and of these to the one that was served longest ago. So
a topic with many waiting messages gets all workers that no other topic needs, and only its share as soon as others need
them: slow handlers or many messages of one topic keep no other waiting longer than until a worker is free.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from .delivery import Delivery
from .loops import ALL, Bell, Loops

D = TypeVar("D", bound=Delivery)


class Rota(Generic[D]):
    """The loops over several topics, and whose message is next; `limit` messages in all."""

    def __init__(
        self, loops: Sequence[Loops[D, Any]], arrived: Bell, clock: Callable[[], float], limit: int | None = None
    ) -> None:
        self._loops = loops
        self._arrived = arrived
        self._clock = clock
        self._limit = limit
        self._handed = 0
        self._served = dict.fromkeys(loops, 0)
        """When each topic was served last, by the count of all messages handed out."""

    def answer(self, until: float | None) -> tuple[bool, D | None]:
        """Whether `next` may return, and its message. At `until` it returns without one."""
        for loops in self._loops:
            if loops.error is not None:
                raise loops.error
            loops.sweep()
        if self._handed == self._limit:
            return True, None
        for loops in sorted((one for one in self._loops if one.stock.waiting), key=self._turn):
            if (delivery := loops.hand_out()) is not None:
                self._handed += 1
                self._served[loops] = self._handed
                if self._handed == self._limit:
                    self._arrived.ring(ALL)
                return True, delivery
        return until is not None and self._clock() >= until, None

    def _turn(self, loops: Loops[D, Any]) -> tuple[int, int]:
        return loops.stock.in_hands, self._served[loops]

    async def change(self, until: float | None) -> None:
        """Waits until `answer` may have another result."""
        for loops in self._loops:
            loops.hunger()
        try:
            await self._arrived.rung(None if until is None else until - self._clock())
        finally:
            for loops in self._loops:
                loops.sate()

    def end_loop(self) -> None:
        """Ends the user's loop: messages that it has left unsettled have failed."""
        for loops in self._loops:
            loops.end_loop()

    def warn_of_left(self) -> None:
        """Warns, once for each topic, at the line of the user that asked for the next message."""
        for loops in self._loops:
            loops.warn_of_left()

"""How many requests begin, and how many answers, in one round of the event loop; the first come first.

In a round every task that can go on takes a step. Without a bound ten thousand requests that come at once take theirs
side by side: rounds of seconds, in which each of them, and every transaction under way, waits for all the others, and
the first is answered with the last. So what is new waits here, and what has begun is done soon.
"""

import trio
from attrs import define, field

ROUND = 64
"""Requests and answers that begin in a round: a tenth of a second of work at most. With 16 each publish over 200
connections took a tenth more processor time; with 64 no more than without a bound."""


@define(eq=False)
class Pace(trio.abc.Instrument):
    """`run` is a task of the server's; the server's loop has it among its instruments."""

    _left: int = field(default=ROUND, init=False)
    """Of this round."""
    _line: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _formed: trio.Event = field(factory=trio.Event, init=False)
    """Somebody stands in line."""

    def after_io_wait(self, timeout: float) -> None:
        """A round begins."""
        del timeout
        self._left = ROUND

    async def turn(self) -> None:
        """At once, or when all who came before have had theirs."""
        if self._left > 0 and not self._line:
            self._left -= 1
            return
        self._formed.set()
        await self._line.park()

    async def run(self) -> None:
        """Lets in line begin as many in a round as may."""
        trio.lowlevel.add_instrument(self)
        try:
            while True:
                if not self._line:
                    self._formed = trio.Event()
                    await self._formed.wait()
                await trio.lowlevel.checkpoint()
                self._left -= len(self._line.unpark(count=self._left))
        finally:
            trio.lowlevel.remove_instrument(self)

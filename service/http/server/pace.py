"""How many requests begin, and how many answers, in one round of the event loop.

In a round every task that can go on takes a step. Without a bound ten thousand requests that come at once take theirs
side by side: rounds of seconds, in which each of them, and every transaction under way, waits for all the others, and
the first is answered with the last. So what is new waits here, and what has begun is done soon.

The first come first, up to a crowd of hundreds: where thousands come at once, to ask for messages or meaning ill, the
first and the last have their turns alternately. Who comes a moment later does not wait for all of them, and the first
are not kept waiting for ever by who comes after them. Few are never parted: those who are answered together ask
together again, and are written in one transaction.
"""

from collections import OrderedDict

import trio
from attrs import define, field
from trio.lowlevel import Abort, Task

ROUND = 64
"""Requests and answers that begin in a round: a tenth of a second of work at most. With 16 each publish over 200
connections took a tenth more processor time; with 64 no more than without a bound."""
_CROWD = 8 * ROUND
"""In line."""


@define(eq=False)
class Pace(trio.abc.Instrument):
    """`run` is a task of the server's; the server's loop has it among its instruments."""

    _left: int = field(default=ROUND, init=False)
    """Of this round."""
    _line: OrderedDict[Task, None] = field(factory=OrderedDict[Task, None], init=False)
    _formed: trio.Event = field(factory=trio.Event, init=False)
    """Somebody stands in line."""

    def after_io_wait(self, timeout: float) -> None:
        """A round begins."""
        del timeout
        self._left = ROUND

    @property
    def has_crowd(self) -> bool:
        """Whether hundreds stand in line."""
        return len(self._line) > _CROWD

    async def turn(self) -> None:
        """At once, or when those who stand in line have had theirs, as above."""
        if self._left > 0 and not self._line:
            self._left -= 1
            return
        task = trio.lowlevel.current_task()
        self._line[task] = None
        self._formed.set()

        def leave(_: object) -> Abort:
            del self._line[task]
            return Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)

    async def run(self) -> None:
        """Lets in line begin as many in a round as may."""
        trio.lowlevel.add_instrument(self)
        try:
            while True:
                if not self._line:
                    self._formed = trio.Event()
                    await self._formed.wait()
                await trio.lowlevel.checkpoint()
                self._let_in()
        finally:
            trio.lowlevel.remove_instrument(self)

    def _let_in(self) -> None:
        crowd = self.has_crowd
        for number in range(min(self._left, len(self._line))):
            task, _ = self._line.popitem(last=crowd and number % 2 == 1)
            trio.lowlevel.reschedule(task)
            self._left -= 1

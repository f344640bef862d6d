"""How many requests begin, and how many answers, in one round of the event loop.

In a round every task that can go on takes a step. Without a bound ten thousand requests that come at once take theirs
side by side: rounds of seconds, in which each of them, and every transaction under way, waits for all the others, and
the first is answered with the last. So what is new waits here, and what has begun is done soon.

Those who came first and those who came last have their turns alternately. Where thousands come at once, a crowd that
asks for messages or that means ill, who comes a moment later does not wait for all of them; and the first are not kept
waiting for ever by who comes after them.
"""

from collections import OrderedDict

import trio
from attrs import define, field
from trio.lowlevel import Abort, Task

ROUND = 64
"""Requests and answers that begin in a round: a tenth of a second of work at most. With 16 each publish over 200
connections took a tenth more processor time; with 64 no more than without a bound."""


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

    def at_once(self) -> bool:
        """Whether it is one's turn already; then it is taken."""
        if self._left > 0 and not self._line:
            self._left -= 1
            return True
        return False

    async def turn(self) -> None:
        """At once, or when those who stand in line have had theirs, as above."""
        if self.at_once():
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
        for number in range(min(self._left, len(self._line))):
            task, _ = self._line.popitem(last=number % 2 == 1)
            trio.lowlevel.reschedule(task)
            self._left -= 1

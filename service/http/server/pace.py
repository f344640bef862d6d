"""Limits how many requests, and how many answers, begin in one round of the event loop.

In a round every task that can go on takes a step. Without a limit ten thousand requests that come at once would all
proceed side by side: rounds would take seconds, in which each request, and every transaction under way, waits for all
the others, and the first is answered with the last. So new requests wait here, and requests that have begun are
finished soon.

The first to come is the first served, up to a crowd of hundreds. If thousands come at once, to claim messages or with
ill intent, the first and the last in line have their turns alternately: a request that comes a moment later does not
wait for all of them, and the first are not delayed for ever by those that come after. A few requests are never
separated: clients that are answered together ask together again, and are written in one transaction.

There are three lines. A client that was answered on its connection before does not wait for all new connections. Nobody
waits for a client that sends many requests without waiting for answers: it has one turn after the other.
"""

from collections import OrderedDict
from enum import IntEnum

import trio
from attrs import define, field
from trio.lowlevel import Abort, Task

ROUND = 64
"""Requests and answers that begin in a round: a tenth of a second of work at most. With 16, a publish over 200
connections took a tenth more processor time than without a limit; with 64 it takes no more."""
_HALF = ROUND // 2
_CROWD = 8 * ROUND
"""Tasks in a line above which it is a crowd."""


class Line(IntEnum):
    """The line in which a request waits. `KNOWN` has precedence, and the others have a share of the turns."""

    KNOWN = 0
    """A request on this connection was answered before."""
    NEW = 1
    BEHIND = 2
    """The request was sent before the last answer on its connection."""


_TURNS = (*(Line.NEW, Line.KNOWN) * 3, Line.BEHIND, Line.KNOWN)
"""The order of turns, repeated while each line has tasks."""


@define(eq=False)
class Pace(trio.abc.Instrument):
    """Grants the turns; `run` is a task of the server, and registers this as an instrument of the event loop."""

    _left: int = field(default=ROUND, init=False)
    """Turns that are left in this round."""
    _lines: tuple[OrderedDict[Task, None], ...] = field(
        factory=lambda: tuple([OrderedDict[Task, None]() for _ in Line]), init=False
    )
    _lasts: list[bool] = field(factory=lambda: [False for _ in Line], init=False)
    """For each line: whether its last task has the next turn, if it is a crowd."""
    _formed: trio.Event = field(factory=trio.Event, init=False)
    """Set when a task waits in a line."""

    def after_io_wait(self, timeout: float) -> None:
        """Begins a round."""
        del timeout
        self._left = ROUND

    @property
    def has_crowd(self) -> bool:
        """Whether hundreds of tasks wait in line."""
        return len(self._lines[Line.KNOWN]) + len(self._lines[Line.NEW]) > _CROWD

    async def turn(self, where: Line = Line.KNOWN) -> None:
        """Returns at once, or when it is the caller's turn in this line, as described above."""
        known, new, behind = self._lines
        ahead = known or (where and new) or (where == Line.BEHIND and behind)
        # Half of each round is reserved for tasks in line, however many come.
        if not ahead and self._left > (_HALF if new or behind else 0):
            self._left -= 1
            return
        task, line = trio.lowlevel.current_task(), self._lines[where]
        line[task] = None
        self._formed.set()

        def leave(_: object) -> Abort:
            del line[task]
            return Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)

    async def run(self) -> None:
        """Grants the turns of each round to the tasks in line, for ever."""
        trio.lowlevel.add_instrument(self)
        try:
            while True:
                if not any(self._lines):
                    self._formed = trio.Event()
                    await self._formed.wait()
                await trio.lowlevel.checkpoint()
                self._let_in()
        finally:
            trio.lowlevel.remove_instrument(self)

    def _let_in(self) -> None:
        known, new, behind = self._lines
        many = min(self._left, len(known) + len(new) + len(behind))
        for number in range(many):
            where = _TURNS[number % len(_TURNS)]
            if not self._lines[where]:
                where = Line.KNOWN if known else Line.NEW if new else Line.BEHIND
            line, last = self._lines[where], False
            if len(line) > _CROWD:
                last = self._lasts[where]
                self._lasts[where] = not last
            task, _ = line.popitem(last=last)
            trio.lowlevel.reschedule(task)
        self._left -= many

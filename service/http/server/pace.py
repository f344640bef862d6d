"""How many requests begin, and how many answers, in one round of the event loop.

In a round every task that can go on takes a step. Without a bound ten thousand requests that come at once take theirs
side by side: rounds of seconds, in which each of them, and every transaction under way, waits for all the others, and
the first is answered with the last. So what is new waits here, and what has begun is done soon.

The first come first, up to a crowd of hundreds: where thousands come at once, to ask for messages or meaning ill, the
first and the last have their turns alternately. Who comes a moment later does not wait for all of them, and the first
are not kept waiting for ever by who comes after them. Few are never parted: those who are answered together ask
together again, and are written in one transaction.

There are three lines. Who has been answered on this connection before does not wait for all who have just come; nor
does anybody for those who send many requests without waiting for answers, of whom each has one turn after the other.
"""

from collections import OrderedDict
from enum import IntEnum

import trio
from attrs import define, field
from trio.lowlevel import Abort, Task

ROUND = 64
"""Requests and answers that begin in a round: a tenth of a second of work at most. With 16 each publish over 200
connections took a tenth more processor time; with 64 no more than without a bound."""
_HALF = ROUND // 2
_CROWD = 8 * ROUND
"""In line."""


class Line(IntEnum):
    """Where somebody stands; the first comes first, and the others have a part of the turns meanwhile."""

    KNOWN = 0
    """On this connection something was answered before."""
    NEW = 1
    BEHIND = 2
    """The request was sent before the last answer."""


_TURNS = (*(Line.NEW, Line.KNOWN) * 3, Line.BEHIND, Line.KNOWN)
"""Again and again, while somebody stands in each line."""


@define(eq=False)
class Pace(trio.abc.Instrument):
    """`run` is a task of the server's; the server's loop has it among its instruments."""

    _left: int = field(default=ROUND, init=False)
    """Of this round."""
    _lines: tuple[OrderedDict[Task, None], ...] = field(
        factory=lambda: tuple([OrderedDict[Task, None]() for _ in Line]), init=False
    )
    _lasts: list[bool] = field(factory=lambda: [False for _ in Line], init=False)
    """Of each line, if it is a crowd, the last has the next turn."""
    _formed: trio.Event = field(factory=trio.Event, init=False)
    """Somebody stands in line."""

    def after_io_wait(self, timeout: float) -> None:
        """A round begins."""
        del timeout
        self._left = ROUND

    @property
    def has_crowd(self) -> bool:
        """Whether hundreds stand in line."""
        return len(self._lines[Line.KNOWN]) + len(self._lines[Line.NEW]) > _CROWD

    async def turn(self, where: Line = Line.KNOWN) -> None:
        """At once, or when those who stand in line have had theirs, as above."""
        known, new, behind = self._lines
        ahead = known or (where and new) or (where == Line.BEHIND and behind)
        # Half a round is for those who stand in line, whoever comes.
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
        """Lets in line begin as many in a round as may."""
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

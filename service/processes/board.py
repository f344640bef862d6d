"""Numbers that all processes of a server see, in memory that they share: who serves, with how many connections."""

import mmap
from collections.abc import Sequence

from attrs import define, field

_ABSENT, _SERVES, _LOADED = 0, 1, 2
_NUMBERS = 3
"""Of each process: how it is, its connections, and when it last gave a sign of life (monotonic nanoseconds)."""
_PAUSE = 0.002
"""Seconds for which a connection is left to those who have fewer."""
_PAUSES = 5
"""After so many of them they are busy, or stuck: it is taken."""
_BEGINNING = 0.02
"""Seconds between two looks of a process that has not begun to serve."""


class Board:
    """One cell for each process and number. Each process writes its own, and the supervisor those of the dead."""

    def __init__(self, processes: int) -> None:
        self._memory = mmap.mmap(-1, 8 * _NUMBERS * processes)  # shared with all that are forked from here on
        self._cells = memoryview(self._memory).cast("q")
        self._processes = processes

    def serves(self, number: int) -> bool:
        """Whether the process takes connections. They are counted from 1."""
        return self._cells[number - 1] >= _SERVES

    def begin(self, number: int) -> None:
        """The process serves."""
        self._cells[number - 1] = _SERVES

    def load(self, number: int) -> None:
        """A process that serves has its timers in memory, too."""
        if self.serves(number):
            self._cells[number - 1] = _LOADED

    def is_loaded(self, number: int) -> bool:
        """Whether it has."""
        return self._cells[number - 1] == _LOADED

    def live(self, number: int, now: int) -> None:
        """The process gave a sign of life."""
        self._cells[2 * self._processes + number - 1] = now

    def lived(self, number: int) -> int:
        """When it did so last; 0: never."""
        return self._cells[2 * self._processes + number - 1]

    def end(self, number: int) -> None:
        """It takes no more connections, or is dead."""
        self._cells[number - 1] = _ABSENT
        self.note(number, 0)

    def forget(self, number: int) -> None:
        """It is dead: the next one of this number begins anew."""
        self.end(number)
        self.live(number, 0)

    def note(self, number: int, connections: int) -> None:
        """So many are open there."""
        self._cells[self._processes + number - 1] = connections

    def others(self, number: int) -> Sequence[int]:
        """The numbers of those others that serve."""
        return [other for other in range(1, self._processes + 1) if other != number and self.serves(other)]

    def connections(self, number: int) -> int:
        """How many are open there."""
        return self._cells[self._processes + number - 1]


@define(eq=False)
class Share:
    """What of the connections is one process's to take: those that nobody who serves has more room for."""

    board: Board
    number: int
    _paused: int = field(default=0, init=False)

    def note(self, connections: int) -> None:
        """So many are open here."""
        self.board.note(self.number, connections)

    def rest(self) -> float:
        """Seconds to leave who knocks now to others: 0 when he is to be let in here."""
        others = self.board.others(self.number)
        if not others:
            return 0
        if not self.board.serves(self.number):
            return _BEGINNING
        least = min(map(self.board.connections, others))
        if self.board.connections(self.number) <= least + least // 8 or self._paused >= _PAUSES:
            self._paused = 0
            return 0
        self._paused += 1
        return _PAUSE

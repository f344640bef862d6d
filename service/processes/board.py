"""Numbers in memory that all processes of a server share: which of them serve, with how many connections."""

import mmap
from collections.abc import Sequence

from attrs import define, field

_ABSENT, _SERVES, _LOADED = 0, 1, 2
_NUMBERS = 3
"""Numbers of each process: its state, its connections, and its last sign of life (monotonic nanoseconds)."""
_PAUSE = 0.002
"""Seconds for which a connection is left to processes that have fewer."""
_PAUSES = 5
"""After so many pauses the others must be busy, or stuck, and the connection is accepted here."""
_BEGINNING = 0.02
"""Seconds between two checks of a process that does not serve yet."""


class Board:
    """One cell for each process and number. Each process writes its own cells; the supervisor resets those of dead
    ones."""

    def __init__(self, processes: int) -> None:
        self._memory = mmap.mmap(-1, 8 * _NUMBERS * processes)  # shared with all processes that are forked from here on
        self._cells = memoryview(self._memory).cast("q")
        self._processes = processes

    def serves(self, number: int) -> bool:
        """Whether the process takes connections. Processes are numbered from 1."""
        return self._cells[number - 1] >= _SERVES

    def begin(self, number: int) -> None:
        self._cells[number - 1] = _SERVES

    def load(self, number: int) -> None:
        """Notes that a process that serves has also loaded its timers."""
        if self.serves(number):
            self._cells[number - 1] = _LOADED

    def is_loaded(self, number: int) -> bool:
        return self._cells[number - 1] == _LOADED

    def live(self, number: int, now: int) -> None:
        self._cells[2 * self._processes + number - 1] = now

    def lived(self, number: int) -> int:
        """When the process last gave a sign of life; 0 if never."""
        return self._cells[2 * self._processes + number - 1]

    def end(self, number: int) -> None:
        """Notes that the process takes no more connections, or is dead."""
        self._cells[number - 1] = _ABSENT
        self.note(number, 0)

    def forget(self, number: int) -> None:
        """Resets the numbers of a dead process for the next one with its number."""
        self.end(number)
        self.live(number, 0)

    def note(self, number: int, connections: int) -> None:
        self._cells[self._processes + number - 1] = connections

    def others(self, number: int) -> Sequence[int]:
        """The numbers of the other processes that serve."""
        return [other for other in range(1, self._processes + 1) if other != number and self.serves(other)]

    def connections(self, number: int) -> int:
        return self._cells[self._processes + number - 1]


@define(eq=False)
class Share:
    """Decides whether a process accepts a connection: only if no other serving process has clearly fewer."""

    board: Board
    number: int
    _paused: int = field(default=0, init=False)

    def note(self, connections: int) -> None:
        self.board.note(self.number, connections)

    def rest(self) -> float:
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

"""Signals: which runs they end, and how they wait while the main thread must not be interrupted.

Python runs a signal's handler between any two steps of the main thread, and `threading.Condition` is written in Python:
a KeyboardInterrupt within its `wait` may leave the lock released, or held forever. Trio guards its own steps in the
same way, with a handler that looks where it is.
"""

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """Defers the handlers of SIGINT and SIGTERM within its `with`; at its end they run, and raise what they raise.

    Only in the main thread, since no other runs handlers; elsewhere it does nothing. There is one for the process.
    """

    def __init__(self) -> None:
        self._users = 0
        self._depth = 0
        self._waiting: set[int] = set()
        self._handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
        """The handlers that this replaces."""

    def watch(self) -> None:
        """Replaces the present handlers, until as many calls of `leave`."""
        if not _in_main_thread():
            return
        self._users += 1
        for number in _NUMBERS:
            handler = signal.getsignal(number)
            if callable(handler) and handler != self._arrive:
                self._handlers[number] = handler
                signal.signal(number, self._arrive)

    def leave(self) -> None:
        """Puts the handlers back, except one that somebody has changed meanwhile."""
        if not _in_main_thread():
            return
        self._users = max(0, self._users - 1)
        if self._users == 0:
            for number in _NUMBERS:
                if signal.getsignal(number) == self._arrive:
                    signal.signal(number, self._handlers[number])

    def put_back(self, number: int, handler: Any) -> None:
        """Makes this the signal's handler. It is deferred as the others are, unless it is the system's own."""
        if signal.getsignal(number) == self._arrive and callable(handler):
            self._handlers[number] = handler
        else:
            signal.signal(number, handler)

    def __enter__(self) -> None:
        if _in_main_thread():
            self._depth += 1

    def __exit__(self, *error: object) -> None:
        if not _in_main_thread():
            return
        self._depth -= 1
        while self._waiting and self._depth == 0:
            self._handle(self._waiting.pop(), None)

    def _arrive(self, number: int, frame: FrameType | None) -> None:
        if self._depth > 0:
            self._waiting.add(number)
        else:
            self._waiting.discard(number)
            self._handle(number, frame)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._handlers[number](number, frame)


class Ends:
    """Ends each `run` of the main thread that hears signals, at SIGTERM and SIGINT. A second signal is not caught.

    By default a run hears them if it is the main program: if nobody else has a handler for SIGTERM, as a web server
    has. There is one for the process, so that a signal ends all its runs.
    """

    def __init__(self) -> None:
        self._ends: list[Callable[[], object]] = []
        self._former: dict[int, Any] = {}
        """The handlers that this replaces; none while it replaces none."""

    @contextmanager
    def heard(self, end: Callable[[], object], wanted: bool | None) -> Generator[None, None, None]:
        """Within its `with`, a signal calls `end`, whatever the main thread is doing."""
        if not self._hears(wanted):
            yield
            return
        self._ends.append(end)
        if not self._former:
            self._former = {number: signal.getsignal(number) or signal.SIG_DFL for number in _NUMBERS}
            for number in _NUMBERS:
                signal.signal(number, self._arrive)
        try:
            yield
        finally:
            self._ends.remove(end)
            if not self._ends:
                self._leave()

    @property
    def hears(self) -> bool:
        """Whether a signal ends any run."""
        return bool(self._former)

    def _hears(self, wanted: bool | None) -> bool:
        if not _in_main_thread():
            if wanted:
                raise ValueError("signals=True: Python hears signals in the main thread alone, and this is another")
            return False
        if wanted is None:
            return self.hears or signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        return wanted

    def _arrive(self, _number: int, _frame: FrameType | None) -> None:
        self._leave()
        for end in list(self._ends):
            end()

    def _leave(self) -> None:
        while self._former:
            signals.put_back(*self._former.popitem())


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


signals = Signals()
ends = Ends()

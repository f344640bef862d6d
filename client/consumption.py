"""Runs the three `loops` of a consumption in threads of the client; the threads of handlers take and settle messages.

A Ctrl-C never interrupts the main thread while it holds the lock: it comes before, or after.
"""

import logging
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import anyio

from .calls import Call
from .coroutines import drive
from .delivery import Delivery
from .durations import Duration
from .holds import Hold
from .loops import Loops, Sender
from .processes import Owner
from .rota import Rota
from .signals import signals
from .stock import PATIENCE, Terms

_log = logging.getLogger("tarry.client")

T = TypeVar("T")
E = TypeVar("E", threading.Event, anyio.Event)

_GLANCE = 0.2
"""Seconds that the main thread sleeps at most, because a Ctrl-C waits until it wakes."""


class Lock:
    """A lock that also holds off Ctrl-C within its `with`."""

    def __init__(self) -> None:
        self.lock = threading.RLock()

    def __enter__(self) -> None:
        signals.__enter__()
        self.lock.acquire()

    def __exit__(self, *error: object) -> None:
        self.lock.release()
        signals.__exit__()


class ThreadBell(threading.Condition):
    """A `Bell` for threads."""

    ring = threading.Condition.notify

    async def rung(self, seconds: float | None = None, /) -> None:
        if threading.current_thread() is threading.main_thread():
            seconds = _GLANCE if seconds is None else min(seconds, _GLANCE)
        self.wait(seconds)


class ForThreads(Loops[Delivery, E]):
    """Loops whose messages are handled by threads, in the process that started them."""

    _owner: Owner

    def ack(self, hold: Hold, id_: str) -> bool:
        """Records that a message was handled; False if it is not held any more, or in a fork."""
        return not self._forked(id_) and super().ack(hold, id_)

    def fail(self, hold: Hold, id_: str, reason: str | None, retry_after: Duration | None, *, count: bool) -> bool:
        """Records that a message is to be given back; False if it is not held any more, or in a fork."""
        return not self._forked(id_) and super().fail(hold, id_, reason, retry_after, count=count)

    def check_process(self) -> None:
        """Raises `RuntimeError` in a fork."""
        if not self._owner.here():
            raise RuntimeError(
                f"this loop over {self._terms.topic} began in process {self._owner.pid}, whose threads alone go on "
                "with it: call consume in the process that handles the messages"
            )

    def _forked(self, id_: str) -> bool:
        """Whether this process is a fork, where the lock may be held forever and no thread sends results."""
        if self._owner.here():
            return False
        _log.warning(
            "message %s of %s is in the hands of process %d, which settles it; what was said here is dropped",
            id_,
            self._terms.topic,
            self._owner.pid,
        )
        return True


class Consumption(ForThreads[threading.Event]):
    """Messages of one group, held by one client, from `start` to `close`. Safe to share between threads."""

    def __init__(
        self, transport: Sender[threading.Event], terms: Terms, clock: Callable[[], float] = time.monotonic
    ) -> None:
        lock = Lock()
        super().__init__(transport, terms, clock, lock, partial(ThreadBell, lock.lock), threading.Event(), Delivery)
        self.rota = Rota([self], self._arrived, clock, terms.limit)
        self._owner = Owner()
        self._abandoned = threading.Event()
        loops = {"fetcher": self._fetch, "settler": self._settle, "keeper": self._keep}
        self._threads = {
            name: threading.Thread(target=self._work, args=(loop,), name=f"tarry-{name}", daemon=True)
            for name, loop in loops.items()
        }

    def start(self) -> None:
        """Starts all threads, or none if a Ctrl-C comes first; call `close` after it in any case."""
        signals.watch()
        with signals:
            for thread in self._threads.values():
                thread.start()

    def _work(self, loop: Callable[[], Awaitable[None]]) -> None:
        drive(self._guard(loop))

    def next(self, timeout: float | None = None) -> Delivery | None:
        """The next message; None if there was none for `timeout` seconds, after `stop`, and past the limit."""
        self.check_process()
        until = None if timeout is None else self._clock() + timeout
        while True:
            with self._lock:
                if self._stopped.is_set() and self.error is None:
                    return None
                known, delivery = self.rota.answer(until)
                if known:
                    return delivery
                drive(self.rota.change(until))

    def close(self, *, but_in_hands: bool = False) -> None:
        """Gives back held messages, sends pending results, and ends the threads.

        With `but_in_hands`, messages that handlers still work on are left to their lease, so nobody else gets them
        before.
        """
        try:
            if self._owner.here():  # the end of a fork is not the end of the loop
                self.stop()
                if self._threads["keeper"].ident is not None:
                    self._end(but_in_hands=but_in_hands)
        finally:
            signals.leave()

    def _end(self, *, but_in_hands: bool) -> None:
        self._threads["fetcher"].join()
        drive(self._let_go(but_in_hands=but_in_hands))
        self._threads["settler"].join(PATIENCE)
        self._abandoned.set()
        self._threads["settler"].join()
        self._threads["keeper"].join()
        drive(self._say_goodbye(but_in_hands=but_in_hands))

    async def _send(self, call: Call[T], *, deadline: float | None = None, claiming: bool = False) -> T:
        abandon = self._stopped if claiming else self._abandoned
        return await self._transport.send(call, deadline=deadline, abandon=abandon)

    async def _pause(self, seconds: float) -> None:
        self._stopped.wait(seconds)

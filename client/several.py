"""Consumes several topics for the same workers: the loops of each topic, side by side in one thread, and a rota."""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import anyio
from anyio import create_task_group

from .async_tasks import from_outside, start
from .consumption import Lock, ThreadBell
from .coroutines import drive
from .delivery import Delivery
from .hosted import HostedConsumption, Later
from .loops import ALL, Sender, Together
from .processes import Owner
from .pulse import Pulse
from .rota import Rota
from .signals import signals
from .stock import Terms


class Several:
    """Like `Consumption`, for several topics. Safe to share between threads."""

    def __init__(
        self,
        sender: Callable[[threading.Event], Sender[anyio.Event]],
        terms: Sequence[Terms],
        limit: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sender = sender
        """Makes, in the event loop, the sender of its calls, which learns of `stop` by the event."""
        self._terms = terms
        self._limit = limit
        self._clock = clock
        self._owner = Owner()
        self._lock = Lock()
        """Guards all fields below, and all of the loops."""
        self._together = Together(ThreadBell(self._lock.lock), Pulse(clock()))
        self._all: list[HostedConsumption] = []
        self.rota: Rota[Delivery] = Rota((), self._together.arrived, clock)
        self._stopped = threading.Event()
        self._error: BaseException | None = None
        # A SimpleQueue, as in the runner: the main thread takes from it, whatever interrupts it.
        self._begun: queue.SimpleQueue[Later | None] = queue.SimpleQueue()
        self._later: Later | None = None
        self._thread = threading.Thread(target=self._host, name="tarry-loops", daemon=True)

    def start(self) -> None:
        """Starts the thread, unless a Ctrl-C comes first; call `close` after it in any case."""
        signals.watch()
        with signals:
            self._thread.start()
            self._later = self._begun.get()

    def _host(self) -> None:
        try:
            anyio.run(self._live, backend="asyncio")
        except BaseException as error:
            with self._lock:
                self._error = error
                self._together.arrived.ring(ALL)
        finally:
            self._begun.put(None)

    async def _live(self) -> None:
        later, sender = from_outside(), self._sender(self._stopped)
        self._all = [
            HostedConsumption(sender, one, self._clock, self._lock, later, self._together) for one in self._terms
        ]
        self.rota = Rota(self._all, self._together.arrived, self._clock, self._limit)
        self._begun.put(later)
        try:
            async with create_task_group() as tasks:
                for one in self._all:
                    start(tasks, one.live)
        finally:
            await sender.close()

    def next(self, timeout: float | None = None) -> Delivery | None:
        """The next message; None if there was none for `timeout` seconds, after `stop`, and past the limit."""
        if self._all:
            self._all[0].check_process()
        until = None if timeout is None else self._clock() + timeout
        while True:
            with self._lock:
                if self._error is not None:
                    raise self._error
                if self._stopped.is_set():
                    return None
                known, delivery = self.rota.answer(until)
                if known:
                    return delivery
                drive(self.rota.change(until))

    def stop(self) -> None:
        """Stops claiming and handing out; messages that are being handled may be finished."""
        with self._lock:
            self._stopped.set()
            self._together.arrived.ring(ALL)
        self._tell(lambda one: one.stop())

    def close(self, *, but_in_hands: bool = False) -> None:
        """Gives back held messages, sends pending results, and ends the thread.

        With `but_in_hands`, messages that handlers still work on are left to their lease, so nobody else gets them
        before.
        """
        try:
            if self._owner.here():  # the end of a fork is not the end of the loop
                self.stop()
                self._tell(lambda one: one.leave(but_in_hands=but_in_hands))
                if self._thread.ident is not None:
                    self._thread.join()
        finally:
            signals.leave()

    def _tell(self, what: Callable[[HostedConsumption], None]) -> None:
        with suppress(RuntimeError):  # the event loop is over
            if self._later is not None:
                for one in self._all:
                    self._later(partial(what, one))

"""The worker threads of `run`, until a signal or an event stops them."""

import logging
import queue
import threading
import time
from collections.abc import Awaitable
from inspect import isawaitable, iscoroutine

from attrs import define, field

from .consumption import Consumption
from .delivery import Delivery
from .several import Several
from .signals import ends
from .work import Work

_log = logging.getLogger("tarry.client")

_GLANCE = 0.2
"""Seconds between two looks at the caller's event, and for a signal that came just before the sleep."""


@define(eq=False)
class Runner:
    """Handlers in threads, until SIGTERM or SIGINT (see `signals`) or `stop`; a second signal is not caught."""

    consumption: Consumption | Several
    work: Work
    stop: threading.Event | None
    # A SimpleQueue, because a signal handler may put into it whatever the interrupted thread is doing.
    _wakes: queue.SimpleQueue[BaseException | None] = field(init=False)
    _threads: list[threading.Thread] = field(factory=list[threading.Thread], init=False)

    def __attrs_post_init__(self) -> None:
        self._wakes = queue.SimpleQueue()

    def run(self) -> None:
        """Runs until it is stopped; then finishes messages in flight, for `drain` seconds at most, and gives back the
        rest."""
        error: BaseException | None = None
        working = 0
        try:
            with ends.heard(lambda: self._wakes.put(None), self.work.signals):
                self.consumption.start()
                for number in range(self.work.workers):
                    name = f"tarry-worker-{number}"
                    self._threads.append(threading.Thread(target=self._work, name=name, daemon=True))
                    self._threads[-1].start()
                error = self._wait()
                self.consumption.stop()
                working = self._finish()
        finally:
            self.consumption.close(but_in_hands=working > 0)
        if error is not None:
            raise error

    def _finish(self) -> int:
        """Waits for the handlers; returns how many still work when `drain` is over."""
        drain = self.work.drain
        until = None if drain is None else time.monotonic() + drain
        for thread in self._threads:
            thread.join(None if until is None else max(0.0, until - time.monotonic()))
        working = sum(thread.is_alive() for thread in self._threads)
        if working:
            _log.warning(
                "%d handlers still work %g s after the end was asked for; their messages come again", working, drain
            )
        return working

    def _wait(self) -> BaseException | None:
        while True:
            try:
                return self._wakes.get(timeout=_GLANCE)
            except queue.Empty:
                if self.stop is not None and self.stop.is_set():
                    return None

    def _work(self) -> None:
        try:
            while (delivery := self.consumption.next()) is not None:
                with delivery:
                    result = self.work.handle(delivery)
                    if isawaitable(result):
                        self._refuse(delivery, result)
        except BaseException as error:
            # From `next`, or a handler's own SystemExit: the run is over, and `run` raises it.
            self._wakes.put(error)

    def _refuse(self, delivery: Delivery, result: Awaitable[object]) -> None:
        """Ends the run: the handler looked like a plain function, but gave an awaitable, so its work was not done."""
        delivery.fail("given back", retry_after=0, count=False)
        if iscoroutine(result):
            result.close()
        self._wakes.put(TypeError("handler: it gave something to be awaited, which threads do not: use AsyncTarry.run"))

"""Workers over a consumption, until a signal or an event says stop."""

import logging
import queue
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isasyncgenfunction, isawaitable, iscoroutine, iscoroutinefunction, isgeneratorfunction
from typing import Any

from attrs import define, field

from .consumption import Consumption
from .delivery import Delivery
from .signals import ends

_log = logging.getLogger("tarry.client")

_GLANCE = 0.2
"""Seconds between two looks at the caller's own event, and for a signal that came just before the sleep."""


@define(eq=False, kw_only=True)
class Runner:
    """A handler in threads, until SIGTERM or SIGINT (see `signals`) or `stop`; a second signal is not caught."""

    consumption: Consumption
    handler: Callable[[Any], object]
    whole: bool
    """The handler gets the message, and not its body alone."""
    workers: int
    stop: threading.Event | None
    drain: float | None
    signals: bool | None
    # A signal handler may put into a SimpleQueue whatever the thread it interrupts is doing.
    _wakes: queue.SimpleQueue[BaseException | None] = field(init=False)
    _threads: list[threading.Thread] = field(factory=list[threading.Thread], init=False)

    def __attrs_post_init__(self) -> None:
        refuse_idle(self.handler, awaits=False)
        self._wakes = queue.SimpleQueue()

    def run(self) -> None:
        """Returns when all that was in flight is finished, for `drain` seconds at most, and the rest is given back."""
        error: BaseException | None = None
        working = 0
        try:
            with ends.heard(lambda: self._wakes.put(None), self.signals):
                self.consumption.start()
                for number in range(self.workers):
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
        """Waits for the handlers; how many still work when `drain` is over."""
        until = None if self.drain is None else time.monotonic() + self.drain
        for thread in self._threads:
            thread.join(None if until is None else max(0.0, until - time.monotonic()))
        working = sum(thread.is_alive() for thread in self._threads)
        if working:
            _log.warning(
                "%d handlers still work %g s after the end was asked for; their messages come again",
                working,
                self.drain,
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
                    result = self.handler(delivery if self.whole else delivery.body)
                    if isawaitable(result):
                        self._refuse(delivery, result)
        except BaseException as error:
            # From `next`, or a handler's own SystemExit: the run is over, and `run` raises it.
            self._wakes.put(error)

    def _refuse(self, delivery: Delivery, result: Awaitable[object]) -> None:
        """Ends the run: the handler looked like a plain function, and its work was not done."""
        delivery.fail("given back", retry_after=0, count=False)
        if iscoroutine(result):
            result.close()
        self._wakes.put(TypeError("handler: it gave something to be awaited, which threads do not: use AsyncTarry.run"))


def refuse_idle(handler: Callable[..., object], *, awaits: bool) -> None:
    """Raises `TypeError` for a handler whose call does nothing, so that its messages would be acked unhandled."""
    plain = handler
    while isinstance(plain, partial):
        plain = plain.func
    faces = (plain, getattr(type(plain), "__call__", None))  # noqa: B004  # looked into, not whether it is there
    if any(isgeneratorfunction(face) or isasyncgenfunction(face) for face in faces):
        raise TypeError("handler: it is a generator, which does nothing when it is called: take out its yield")
    if not awaits and any(iscoroutinefunction(face) for face in faces):
        raise TypeError("handler: an async function is nothing that threads can run: give it to AsyncTarry.run")

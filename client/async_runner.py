"""The worker tasks of `AsyncTarry.run`, until a signal or an event stops them."""

import asyncio
import logging
from functools import partial
from inspect import isawaitable
from typing import Any, Protocol

from anyio import CancelScope, Event, create_task_group, current_time, get_cancelled_exc_class
from attrs import define, field

from .async_consumption import AsyncConsumption
from .async_tasks import from_outside, is_cancelled, own_task, start, uncancel
from .delivery import AsyncDelivery
from .signals import ends
from .work import Work

_log = logging.getLogger("tarry.client")


class Stop(Protocol):
    """An event of anyio, asyncio or trio."""

    async def wait(self) -> object:
        """Waits until it is set."""
        ...


@define(eq=False)
class AsyncRunner:
    """Handlers in tasks, until SIGTERM or SIGINT (see `signals`) or `stop`; a second signal is not caught."""

    consumption: AsyncConsumption
    work: Work
    stop: Stop | None
    _over: Event = field(factory=Event, init=False)
    _error: BaseException | None = field(default=None, init=False)
    _task: asyncio.Task[Any] | None = field(default=None, init=False)
    """The task that awaits `run`: cancelling it cancels the run."""
    _cancelled_before: int = field(default=0, init=False)

    async def run(self) -> None:
        """Runs until it is stopped; then finishes messages in flight, or cancels them after `drain` seconds, and gives
        back the rest."""
        self._task = own_task()
        self._cancelled_before = 0 if self._task is None else self._task.cancelling()
        with ends.heard(partial(from_outside(), self._over.set), self.work.signals):
            async with create_task_group() as tasks:
                start(tasks, self.consumption.live)
                try:
                    await self._work_until_over()
                finally:
                    await self.consumption.close()
        if self._error is not None:
            raise self._error

    async def _work_until_over(self) -> None:
        with CancelScope() as scope:  # around the group: before anyio 4.7 a group's own scope was over while it waits
            async with create_task_group() as workers:
                for _ in range(self.work.workers):
                    workers.start_soon(self._work)
                async with create_task_group() as watchers:
                    if self.stop is not None:
                        watchers.start_soon(self._await, self.stop)
                    await self._over.wait()
                    watchers.cancel_scope.cancel()
                self.consumption.stop()
                if self.work.drain is not None:
                    scope.deadline = current_time() + self.work.drain
        if scope.cancelled_caught:
            _log.warning("handlers still worked %g s after the end was asked for, and were cancelled", self.work.drain)

    async def _await(self, stop: Stop) -> None:
        await stop.wait()
        self._over.set()

    async def _work(self) -> None:
        try:
            while (delivery := await self._next()) is not None:
                with delivery:
                    await self._handle(delivery)
        except get_cancelled_exc_class():
            raise
        except BaseException as error:
            # From `next`, or a handler's own SystemExit: the run is over, and `run` raises it.
            self._error = self._error or error
            self._over.set()

    async def _next(self) -> AsyncDelivery | None:
        while True:
            try:
                return await self.consumption.next()
            except get_cancelled_exc_class():
                if self._cancelled():
                    raise
                uncancel(own_task())  # a handler has cancelled its own task, and returned

    async def _handle(self, delivery: AsyncDelivery) -> None:
        try:
            result = self.work.handle(delivery)
            if isawaitable(result):
                await result
        except BaseException:
            if not self._cancelled():
                uncancel(own_task())  # the worker goes on: the cancellation was the handler's own
            raise

    def _cancelled(self) -> bool:
        return is_cancelled(self._task, self._cancelled_before)

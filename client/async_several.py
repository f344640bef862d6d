"""Messages of several topics for the same tasks: the loops over each, side by side, and a rota."""

import time
from collections.abc import Callable, Sequence

from anyio import CancelScope, Event, create_task_group
from anyio.lowlevel import checkpoint

from .async_consumption import AsyncConsumption, TaskBell
from .async_tasks import start
from .delivery import AsyncDelivery
from .loops import Sender, Together
from .pulse import Pulse
from .rota import Rota
from .stock import Terms


class AsyncSeveral:
    """What `AsyncConsumption` is of one topic."""

    def __init__(
        self,
        transport: Sender[Event],
        terms: Sequence[Terms],
        limit: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        together = Together(TaskBell(), Pulse(clock()))
        self._all = [AsyncConsumption(transport, one, clock, together) for one in terms]
        self._clock = clock
        self._rota = Rota(self._all, together.arrived, clock, limit)
        self._stopped = False
        self._ended = Event()

    async def live(self) -> None:
        """Claims, settles and renews until `close`; then gives back what is held and sends what is owed."""
        try:
            with CancelScope(shield=True):
                async with create_task_group() as tasks:
                    for one in self._all:
                        start(tasks, one.live)
        finally:
            self._ended.set()

    async def next(self, timeout: float | None = None) -> AsyncDelivery | None:
        """The next message; None when there was none for `timeout`, after `stop`, and past the limit.

        Cancelled, it has taken none.
        """
        await checkpoint()
        until = None if timeout is None else self._clock() + timeout
        while not self._stopped:
            known, delivery = self._rota.answer(until)
            if known:
                return delivery
            await self._rota.change(until)
        return None

    def end_loop(self) -> None:
        """The loop goes no further: what it has left unsettled has failed."""
        self._rota.end_loop()

    def warn_of_left(self) -> None:
        """Warns once of each topic that the loop has left messages of it unsettled."""
        self._rota.warn_of_left()

    def stop(self) -> None:
        """No more claims, and nothing more is handed out; what is being handled may be finished."""
        self._stopped = True
        for one in self._all:
            one.stop()

    def leave(self) -> None:
        """Begins to close."""
        self.stop()
        for one in self._all:
            one.leave()

    async def close(self) -> None:
        """Gives back what is held, sends what is owed, and ends the tasks; also where all else is cancelled."""
        self.leave()
        with CancelScope(shield=True):
            await self._ended.wait()

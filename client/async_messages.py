"""`async for message in tarry.consume(...)`, and the tasks behind it.

This is no async generator: one that is left has no moment at which it may await. The tasks live in the block of the
client (`Consumptions`), so they may outlive a loop that was left by `break`, but never the client.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from anyio import create_task_group
from anyio.abc import TaskGroup

from .async_consumption import AsyncConsumption
from .async_tasks import from_outside, start
from .delivery import AsyncDelivery
from .durations import Seconds, seconds


class Consumptions:
    """The consumptions of one client; their tasks are in its `async with` block."""

    def __init__(self) -> None:
        self._tasks: TaskGroup | None = None
        self._consumptions: set[AsyncConsumption] = set()

    async def open(self) -> None:
        """To be called at the beginning of the block."""
        tasks = create_task_group()
        await tasks.__aenter__()
        self._tasks = tasks

    def room(self) -> TaskGroup | None:
        """The task group of the client's own tasks; None outside of the block."""
        return self._tasks

    def start(self, consumption: AsyncConsumption) -> None:
        """Begins a consumption. Raises `RuntimeError` outside of the block."""
        if self._tasks is None:
            raise RuntimeError("consume wants `async with AsyncTarry(...) as tarry`: its tasks live in that block")
        self._consumptions.add(consumption)
        start(self._tasks, self._live, consumption)

    async def _live(self, consumption: AsyncConsumption) -> None:
        try:
            await consumption.live()
        finally:
            self._consumptions.discard(consumption)

    async def close(self) -> None:
        """Ends all consumptions, side by side, and shielded from cancellation."""
        for consumption in list(self._consumptions):
            consumption.leave()
        for consumption in list(self._consumptions):
            await consumption.close()

    async def leave(self) -> None:
        """To be called at the end of the block. Its errors do not go through the task group, which would wrap them."""
        await self.close()
        if (tasks := self._tasks) is not None:
            self._tasks = None
            # A task that has ended leaves its group in a step of its own, awaited even in a cancelled scope.
            tasks.cancel_scope.shield = True
            await tasks.__aexit__(None, None, None)


class AsyncMessages(AsyncIterator[AsyncDelivery]):
    """Messages, one after the other. `async with` around the loop ends it there; `close` does so by hand.

    Other tasks may handle them, if the block is around these tasks: `async with tarry.consume(...) as messages,
    create_task_group() as tasks`. Without a block the end of the loop gives back messages not settled by then.
    """

    def __init__(self, consumptions: Consumptions, consumption: AsyncConsumption, idle_timeout: Seconds | None) -> None:
        self._consumptions = consumptions
        self._idle_timeout = None if idle_timeout is None else seconds(idle_timeout, "idle_timeout")
        self._consumption = consumption
        self._begun = False
        self._block = False
        self._over = False
        self._later: Callable[[Callable[[], object]], object] | None = None

    async def __aenter__(self) -> Self:
        self._block = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # In the block other tasks had the messages; at its end they are done with them.
        await (self._end() if error is None and self._begun else self.close())
        self._consumption.rota.warn_of_left()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AsyncDelivery:
        """If it is cancelled, it has taken no message, and may be called again."""
        if self._over:
            raise StopAsyncIteration
        if not self._begun:
            self._consumptions.start(self._consumption)
            self._begun = True
            self._later = from_outside()
        try:
            delivery = await self._consumption.next(self._idle_timeout)
        except Exception:
            await self.close()
            raise
        if delivery is None:
            if not self._block:
                await self._end()
                self._consumption.rota.warn_of_left()
            raise StopAsyncIteration
        self._consumption.rota.warn_of_left()
        return delivery

    async def _end(self) -> None:
        self._consumption.rota.end_loop()
        await self.close()

    async def close(self) -> None:
        """Gives back messages that were not handled, uncounted; takes up to `wait`, even in a cancelled scope."""
        self._over = True
        if self._begun:
            await self._consumption.close()

    def __del__(self) -> None:
        # Left by `break` or by an error. Nothing may be awaited here, and the collector may come at any moment, so the
        # event loop is asked to begin the closing.
        if self._later is not None and not self._over:
            # If the event loop has ended, so has the client.
            with suppress(Exception):
                self._later(self._consumption.leave)

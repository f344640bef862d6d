"""`loops` in three tasks. They are shielded from cancellation, because what is held must be given back; `stop` and
`close` end them. Nothing is awaited between a look at the state and the wait for its change, so the lock is none.
"""

import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import TypeVar

from anyio import CancelScope, Event, create_task_group, move_on_after
from anyio.lowlevel import checkpoint

from .async_tasks import start
from .async_transport import AsyncTransport
from .calls import Call
from .delivery import AsyncDelivery
from .errors import TarryError
from .loops import Loops
from .stock import PATIENCE, SIGN, Terms

T = TypeVar("T")


class _Bell:
    def __init__(self) -> None:
        self._event = Event()

    def ring(self, _many: int = 1, /) -> None:
        self._event.set()
        self._event = Event()

    async def rung(self, seconds: float | None = None, /) -> None:
        event = self._event
        with CancelScope() if seconds is None else move_on_after(seconds):
            await event.wait()


class AsyncConsumption(Loops[AsyncDelivery, Event]):
    """Messages of one group, held by one client, for the tasks of one event loop."""

    _delivery = AsyncDelivery

    def __init__(self, transport: AsyncTransport, terms: Terms, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(terms, clock, nullcontext(), _Bell, Event())
        self._transport = transport
        self._closing = Event()
        self._drained = Event()
        self._ended = Event()

    async def live(self) -> None:
        """Claims, settles and renews until `close`; then gives back what is held and sends what is owed."""
        try:
            with CancelScope(shield=True):
                async with create_task_group() as tasks:
                    start(tasks, self._guard, self._settle)
                    start(tasks, self._guard, self._keep)
                    await self._guard(self._fetch)
                    await self._closing.wait()
                    await self._let_go()
                    with move_on_after(PATIENCE):
                        await self._drained.wait()
                    tasks.cancel_scope.cancel()
                if (goodbye := self._goodbye()) is not None:
                    with suppress(TarryError):
                        await self._transport.send(goodbye, deadline=SIGN / 5)
        finally:
            self._ended.set()

    async def next(self, timeout: float | None = None) -> AsyncDelivery | None:
        """The next message; None when there was none for `timeout`, after `stop`, and past the limit.

        Cancelled, it has taken none.
        """
        await checkpoint()
        until = None if timeout is None else self._clock() + timeout
        while True:
            known, delivery = self._answer(until)
            if known:
                return delivery
            await self._change(until)

    def leave(self) -> None:
        """Begins to close."""
        self.stop()
        self._closing.set()

    async def close(self) -> None:
        """Gives back what is held, sends what is owed, and ends the tasks; also where all else is cancelled."""
        self.leave()
        with CancelScope(shield=True):
            await self._ended.wait()

    async def _settle(self) -> None:
        try:
            await super()._settle()
        finally:
            self._drained.set()

    async def _send(self, call: Call[T], *, deadline: float | None = None, claiming: bool = False) -> T:
        return await self._transport.send(call, deadline=deadline, abandon=self._stopped if claiming else None)

    async def _pause(self, seconds: float) -> None:
        with move_on_after(seconds):
            await self._stopped.wait()

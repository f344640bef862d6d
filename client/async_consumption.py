"""Runs the three `loops` of a consumption as tasks, on asyncio and trio.

They are shielded from cancellation, because held messages must be given back; `stop` and `close` end them. Nothing is
awaited between reading the state and waiting for its change, so they need no lock.

When several topics are consumed together, the end does not wait for their long polls: `stop` gives each up. Messages
that the server may have given out meanwhile go back when the client deregisters.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from anyio import CancelScope, Event, create_task_group, current_time, move_on_after, sleep
from anyio.lowlevel import checkpoint

from .async_tasks import start
from .calls import Call
from .delivery import AsyncDelivery, Delivery
from .errors import Unavailable
from .loops import Bell, Loops, Sender, Together
from .pulse import Pulse
from .rota import Rota
from .stock import PATIENCE, Terms

T = TypeVar("T")
D = TypeVar("D", bound=Delivery)

_SOON = 0.4
"""Seconds in which a claim is answered, unless it is a long poll that waits. No claim is given up before: one that the
server carries out after the client has deregistered would leave its messages to their lease."""


class TaskBell:
    """A `Bell` for the tasks of one event loop."""

    def __init__(self) -> None:
        self._event = Event()

    def ring(self, _many: int = 1, /) -> None:
        self._event.set()
        self._event = Event()

    async def rung(self, seconds: float | None = None, /) -> None:
        event = self._event
        with CancelScope() if seconds is None else move_on_after(seconds):
            await event.wait()


class TaskLoops(Loops[D, Event]):
    """The three loops as tasks, from `live` to `leave`."""

    def __init__(
        self,
        transport: Sender[Event],
        terms: Terms,
        clock: Callable[[], float],
        lock: AbstractContextManager[object],
        bell: Callable[[], Bell],
        together: Together,
        delivery: type[D],
        *,
        gives_up: bool = True,
    ) -> None:
        super().__init__(transport, terms, clock, lock, bell, Event(), delivery, together)
        self._gives_up = gives_up
        """Whether the end does not wait for long polls."""
        self._poll: CancelScope | None = None
        """Around the claim that is under way, if it may be given up."""
        self._asked = 0.0
        """When that claim was sent, by anyio's clock."""
        self._but_in_hands = False
        self._closing = Event()
        self._drained = Event()

    async def live(self) -> None:
        """Claims, settles and renews until `leave`; then gives back held messages and sends pending results."""
        with CancelScope(shield=True):
            async with create_task_group() as tasks:
                start(tasks, self._guard, self._settle)
                start(tasks, self._guard, self._keep)
                if self._gives_up:
                    start(tasks, self._give_up)
                await self._guard(self._fetch)
                await self._closing.wait()
                await self._let_go(but_in_hands=self._but_in_hands)
                with move_on_after(PATIENCE):
                    await self._drained.wait()
                tasks.cancel_scope.cancel()
            await self._say_goodbye(but_in_hands=self._but_in_hands)

    async def _give_up(self) -> None:
        await self._stopped.wait()
        await sleep(max(0.0, self._asked + _SOON - current_time()))
        if self._poll is not None:
            self._poll.cancel()

    def leave(self, *, but_in_hands: bool = False) -> None:
        """Begins to close. With `but_in_hands`, messages that handlers still work on are left to their lease."""
        self.stop()
        self._but_in_hands = but_in_hands
        self._closing.set()

    async def _settle(self) -> None:
        try:
            await super()._settle()
        finally:
            self._drained.set()

    async def _send(self, call: Call[T], *, deadline: float | None = None, claiming: bool = False) -> T:
        abandon = self._stopped if claiming else None
        if not (claiming and self._gives_up):
            return await self._transport.send(call, deadline=deadline, abandon=abandon)
        self._asked = current_time()
        with CancelScope() as self._poll:
            return await self._transport.send(call, deadline=deadline, abandon=abandon)
        self._pulse.cut = True
        raise Unavailable("a long poll was given up at the end")

    async def _pause(self, seconds: float) -> None:
        with move_on_after(seconds):
            await self._stopped.wait()


class AsyncConsumption:
    """Messages of one topic or several, held by one client, for the tasks of one event loop: the loops of each topic
    side by side, and a rota."""

    def __init__(
        self,
        transport: Sender[Event],
        terms: Sequence[Terms],
        limit: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        together = Together(TaskBell(), Pulse(clock()))
        gives_up = len(terms) > 1
        self.loops = [
            TaskLoops(transport, one, clock, nullcontext(), TaskBell, together, AsyncDelivery, gives_up=gives_up)
            for one in terms
        ]
        self._clock = clock
        self.rota = Rota(self.loops, together.arrived, clock, limit)
        self._stopped = False
        self._ended = Event()

    async def live(self) -> None:
        """Claims, settles and renews until `close`; then gives back held messages and sends pending results."""
        try:
            with CancelScope(shield=True):
                async with create_task_group() as tasks:
                    for one in self.loops:
                        start(tasks, one.live)
        finally:
            self._ended.set()

    async def next(self, timeout: float | None = None) -> AsyncDelivery | None:
        """The next message; None if there was none for `timeout` seconds, after `stop`, and past the limit.

        If it is cancelled, it has taken no message.
        """
        await checkpoint()
        until = None if timeout is None else self._clock() + timeout
        while not self._stopped:
            known, delivery = self.rota.answer(until)
            if known:
                return delivery
            await self.rota.change(until)
        return None

    def stop(self) -> None:
        """Stops claiming and handing out; messages that are being handled may be finished."""
        self._stopped = True
        for one in self.loops:
            one.stop()

    def leave(self) -> None:
        """Begins to close."""
        self.stop()
        for one in self.loops:
            one.leave()

    async def close(self) -> None:
        """Gives back held messages, sends pending results, and ends the tasks, even in a cancelled scope."""
        self.leave()
        with CancelScope(shield=True):
            await self._ended.wait()

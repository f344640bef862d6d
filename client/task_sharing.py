"""Shared requests for tasks, on asyncio and trio.

A task in the client's `async with` block sends a shared request, so that cancelling one caller does not cancel others;
it ends when the last caller that waits for it gives up. Outside of the block one of the callers sends, and its
cancellation ends the request.
"""

from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext

from anyio import CancelScope, Event, move_on_after
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint
from attrs import define, field

from .async_tasks import start
from .errors import TarryError
from .gathering import Gathering
from .shares import fate
from .sharing import Sender, SharedState, Sharing, Waiter

_PASSES = 2
"""Passes of the event loop before the next request, in which callers that had an answer may come again and join it."""


@define(eq=False)
class _Caller(Waiter):
    wake: Event = field(factory=Event, init=False)
    """Set when there is an outcome, or the caller is to send."""
    request: "_Request | None" = field(default=None, init=False)
    """The request that the call is in."""

    async def woken(self, patience: float | None = None) -> bool:
        with CancelScope() if patience is None else move_on_after(patience):
            await self.wake.wait()
            return True
        return False

    def give_up(self) -> None:
        if self.request is not None and self.outcome is None:
            self.request.leave()


@define(eq=False)
class _Request:
    """A request that is under way in a task of its own."""

    scope: CancelScope
    waiting: int
    """Callers who wait for it."""

    def leave(self) -> None:
        """Notes that one of the callers gives up; the last one cancels the request."""
        self.waiting -= 1
        if not self.waiting:
            self.scope.cancel()


class TaskSharing(Sharing[_Caller]):
    """Shares requests between the tasks of one event loop."""

    _caller = _Caller

    def __init__(self, sender: Sender, room: Callable[[], TaskGroup | None]) -> None:
        # Nothing is awaited under the lock, so it is none: an eager task runs at once, within its starter.
        super().__init__(sender, nullcontext)
        self._room = room
        """The task group of the client's block, while it is open."""

    def _rouse(
        self, state: SharedState[_Caller], gathering: Gathering[_Caller], called: _Caller | None, own: _Caller | None
    ) -> None:
        if called is None or called is own:
            return
        room = self._room()
        if room is None:
            called.wake.set()
        else:
            called.sends = False
            start(room, self._go_on, state, gathering, called.share.place)

    def _wake(self, done: Sequence[_Caller], own: _Caller | None, *, last: bool) -> None:
        for caller in done:
            caller.wake.set()

    async def _go_on(self, state: SharedState[_Caller], gathering: Gathering[_Caller], place: Hashable) -> None:
        """Sends requests for callers, in the client's block, for as long as one is called to send."""
        try:
            await self._send_for(state, gathering)
            while self._room() is not None and (called := gathering.call()) is not None:
                called.sends = False
                await self._send_for(state, gathering)
        finally:
            if (left := gathering.call()) is not None:
                left.wake.set()
            state.forget(place, gathering)

    async def _send_for(self, state: SharedState[_Caller], gathering: Gathering[_Caller]) -> None:
        load = gathering.take()
        try:
            self._rouse(state, gathering, gathering.call(), None)
            if load.callers:
                with CancelScope() as scope:
                    request = _Request(scope, len(load.callers))
                    for caller in load.callers:
                        caller.request = request
                    if len(load.callers) == 1:
                        await self._send_one(load.callers[0])
                    else:
                        await self._send_together(state, gathering, load, None)
                for _ in range(_PASSES):
                    await checkpoint()
        finally:
            gathering.end(load)

    async def _send_one(self, caller: _Caller) -> None:
        """Sends a call that goes alone, for its caller."""
        try:
            caller.outcome = await self._sender.once(caller.call)
        except TarryError as error:
            caller.outcome = error
        except BaseException as error:
            caller.outcome = fate(error)
            if not isinstance(error, Exception):
                raise
        finally:
            caller.wake.set()

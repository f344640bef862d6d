"""Calls of tasks that go together in one request: `sharing` for asyncio and trio.

A shared request is sent by a task in the client's own block, so that nobody's cancellation is another's; it ends with
the last who waits for it. Without that block one of those who share it sends, and is cancelled with it.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

from anyio import CancelScope, Event, move_on_after
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint
from attrs import define, field

from .async_tasks import start
from .calls import Call, Reply, Share
from .errors import TarryError
from .gathering import Distribution, Gathering, Load, Turn, not_sent
from .processes import PerProcess
from .shares import Alone, fate

_PASSES = 2
"""Of the event loop, in which those who had an answer may have something again: they come before the next request."""


@define(eq=False)
class _Turn(Turn):
    wake: Event = field(factory=Event, init=False)
    """Set when there is an outcome, or its caller is to send."""
    request: "_Request | None" = field(default=None, init=False)
    """That it is in."""


@define(eq=False)
class _Request:
    """One that is under way in a task of its own."""

    scope: CancelScope
    waiting: int
    """Callers who wait for it."""

    def leave(self) -> None:
        """One of them gives up."""
        self.waiting -= 1
        if not self.waiting:
            self.scope.cancel()


class AsyncSender(Protocol):
    """Makes one try of a request."""

    async def once(self, call: Call[Any]) -> Reply:
        """Of a call that goes alone. Raises `TarryError`."""
        ...

    async def stream(self, share: Share, content: bytes, took: Callable[[bytes], None]) -> None:
        """Of a shared request; `took` is given the answer as it comes. Raises `TarryError`."""
        ...


class AsyncSharing:
    """Calls of the tasks of one event loop that go together."""

    def __init__(self, sender: AsyncSender, room: Callable[[], TaskGroup | None]) -> None:
        self._sender = sender
        self._room = room
        """The task group of the client's block, while it is open."""
        self._gatherings: PerProcess[dict[Hashable, Gathering[_Turn]]] = PerProcess(dict)
        """By place; none where nothing is under way."""

    async def ask(self, call: Call[Any], share: Share, patience: float) -> Reply:
        """One try of a call: alone when nothing is under way for its place, else with others.

        Raises `TarryError`; `Unavailable` when its turn has not come in `patience` seconds.
        """
        gatherings = self._gatherings.get()
        turn = _Turn(call, share)
        gathering = gatherings.get(share.place)
        if gathering is None:
            gathering = gatherings[share.place] = Gathering()
        self._rouse(gathering, gathering.enter(turn), turn)
        try:
            if not turn.sends:
                await self._await(gathering, turn, patience)
            if turn.sends:
                await self._send(gathering, turn)
        finally:
            self._rouse(gathering, gathering.leave(turn), turn)
            self._forget(gathering, share.place)
        outcome = turn.outcome
        if isinstance(outcome, Reply):
            return outcome
        if outcome is None or isinstance(outcome, Alone):
            return await self._sender.once(call)
        raise outcome

    async def _await(self, gathering: Gathering[_Turn], turn: _Turn, patience: float) -> None:
        try:
            with move_on_after(patience):
                await turn.wake.wait()
                return
            if turn.sends:
                return
            if gathering.unsent(turn):
                raise not_sent(patience)
            await turn.wake.wait()  # it was sent, and a request has time-outs of its own
        except BaseException:
            if turn.request is not None and turn.outcome is None:
                turn.request.leave()
            raise

    async def _send(self, gathering: Gathering[_Turn], own: _Turn) -> None:
        """By a caller: the error of a request that it does not share is its own."""
        own.load = load = gathering.take()
        self._rouse(gathering, gathering.call(), own)
        if len(load.turns) == 1:
            own.outcome = await self._sender.once(own.call)
        else:
            await self._send_together(gathering, load)

    async def _send_one(self, turn: _Turn) -> None:
        """For its caller."""
        try:
            turn.outcome = await self._sender.once(turn.call)
        except TarryError as error:
            turn.outcome = error
        except BaseException as error:
            turn.outcome = fate(error)
            if not isinstance(error, Exception):
                raise
        finally:
            turn.wake.set()

    async def _send_together(self, gathering: Gathering[_Turn], load: Load[_Turn]) -> None:
        distribution = Distribution(load.turns)

        def wake(done: Sequence[_Turn]) -> None:
            gathering.answered(load, len(done))
            for turn in done:
                turn.wake.set()

        with distribution.handed_out(wake):
            await self._sender.stream(
                distribution.share, distribution.content(), lambda piece: wake(distribution.feed(piece))
            )

    def _rouse(self, gathering: Gathering[_Turn], called: _Turn | None, own: _Turn | None = None) -> None:
        """Has somebody send for who is called: a task in the client's block, or the caller itself."""
        if called is None or called is own:
            return
        room = self._room()
        if room is None:
            called.wake.set()
        else:
            called.sends = False
            start(room, self._go_on, gathering, called.share.place)

    def _forget(self, gathering: Gathering[_Turn], place: Hashable) -> None:
        gatherings = self._gatherings.get()
        if not gathering.busy and gatherings.get(place) is gathering:
            del gatherings[place]

    async def _go_on(self, gathering: Gathering[_Turn], place: Hashable) -> None:
        """Sends for others, in the client's block, for as long as somebody is called."""
        try:
            await self._send_for(gathering)
            while self._room() is not None and (called := gathering.call()) is not None:
                called.sends = False
                await self._send_for(gathering)
        finally:
            if (left := gathering.call()) is not None:
                left.wake.set()
            self._forget(gathering, place)

    async def _send_for(self, gathering: Gathering[_Turn]) -> None:
        load = gathering.take()
        try:
            self._rouse(gathering, gathering.call())
            if load.turns:
                with CancelScope() as scope:
                    request = _Request(scope, len(load.turns))
                    for turn in load.turns:
                        turn.request = request
                    if len(load.turns) == 1:
                        await self._send_one(load.turns[0])
                    else:
                        await self._send_together(gathering, load)
                for _ in range(_PASSES):
                    await checkpoint()
        finally:
            gathering.end(load)

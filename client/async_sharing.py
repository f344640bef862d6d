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
from .gathering import Distribution, Gathering, Turn, not_sent
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
        """One try of a call: alone when nothing is under way for its place, else with others after that.

        Raises `TarryError`; `Unavailable` when its turn has not come in `patience` seconds.
        """
        gatherings = self._gatherings.get()
        turn = _Turn(call, share)
        gathering = gatherings.get(share.place)
        if gathering is None:
            gathering = gatherings[share.place] = Gathering()
        gathering.enter(turn)
        try:
            if not turn.sends:
                await self._await(gathering, turn, patience)
            if turn.sends:
                await self._send(gathering.take(), turn)
        finally:
            self._leave(gathering, turn)
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

    async def _send(self, turns: Sequence[_Turn], own: _Turn) -> None:
        """By a caller: the error of a request that it does not share is its own."""
        if len(turns) == 1:
            own.outcome = await self._sender.once(own.call)
        else:
            await self._send_together(turns)

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

    async def _send_together(self, turns: Sequence[_Turn]) -> None:
        distribution = Distribution(turns)
        with distribution.handed_out(_wake):
            await self._sender.stream(
                distribution.share, distribution.content(), lambda piece: _wake(distribution.feed(piece))
            )

    def _leave(self, gathering: Gathering[_Turn], turn: _Turn) -> None:
        """It is done, or gives up: somebody else sends the next."""
        successor = gathering.leave(turn)
        if successor is not None:
            room = self._room()
            if room is None:
                successor.wake.set()
            else:
                successor.sends = False
                start(room, self._go_on, gathering, turn.share.place)
        self._forget(gathering, turn.share.place)

    def _forget(self, gathering: Gathering[_Turn], place: Hashable) -> None:
        gatherings = self._gatherings.get()
        if not gathering.busy and gatherings.get(place) is gathering:
            del gatherings[place]

    async def _go_on(self, gathering: Gathering[_Turn], place: Hashable) -> None:
        """Sends for others, in the client's block, until nothing waits."""
        try:
            while turns := gathering.take():
                with CancelScope() as scope:
                    request = _Request(scope, len(turns))
                    for turn in turns:
                        turn.request = request
                    await (self._send_one(turns[0]) if len(turns) == 1 else self._send_together(turns))
                for _ in range(_PASSES):
                    await checkpoint()
                if not (gathering.go_on() and self._room() is not None):
                    break
        finally:
            successor = gathering.end()
            if successor is not None:
                successor.wake.set()
            self._forget(gathering, place)


def _wake(turns: Sequence[_Turn]) -> None:
    for turn in turns:
        turn.wake.set()

"""Combines calls into shared requests, where each caller waits for its own answer.

The first caller sends, and after that one of those that came meanwhile. The sender hands the answers out as they come.
`thread_sharing` says how a thread waits and is woken, `task_sharing` how a task is, and who sends there.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol, TypeVar

from attrs import define, field

from .calls import Call, Reply, Share
from .gathering import Caller, Distribution, Gathering, Load, not_sent
from .processes import PerProcess
from .shares import Alone


class Sender(Protocol):
    """Makes one try of a request."""

    async def once(self, call: Call[Any]) -> Reply:
        """One try of a call that goes alone. Raises `TarryError`."""
        ...

    async def stream(self, share: Share, content: bytes, took: Callable[[bytes], None]) -> None:
        """One try of a shared request; `took` is given the answer as it comes. Raises `TarryError`."""
        ...


@define(eq=False)
class Waiter(Caller, ABC):
    """A caller that waits."""

    @abstractmethod
    async def woken(self, patience: float | None = None) -> bool:
        """Waits until there is an outcome, or this caller is to send; False if `patience` seconds have passed."""

    @abstractmethod
    def give_up(self) -> None:
        """Notes that the caller was interrupted."""


T = TypeVar("T", bound=Waiter)


@define(eq=False)
class SharedState(Generic[T]):
    """What the callers of one process share."""

    lock: AbstractContextManager[object]
    gatherings: dict[Hashable, Gathering[T]] = field(factory=dict[Hashable, Gathering[T]], init=False)
    """By place; a place where nothing is under way has none."""

    def enter(self, place: Hashable) -> Gathering[T]:
        """Under the lock: the gathering of a place."""
        gathering = self.gatherings.get(place)
        if gathering is None:
            gathering = self.gatherings[place] = Gathering()
        return gathering

    def forget(self, place: Hashable, gathering: Gathering[T]) -> None:
        """Under the lock: removes the gathering of a place, if nothing is under way there any more."""
        if not gathering.busy and self.gatherings.get(place) is gathering:
            del self.gatherings[place]


class Sharing(ABC, Generic[T]):
    """Makes calls, which may share requests."""

    _caller: type[T]

    def __init__(self, sender: Sender, lock: Callable[[], AbstractContextManager[object]]) -> None:
        self._sender = sender
        self._states: PerProcess[SharedState[T]] = PerProcess(lambda: SharedState(lock()))

    @abstractmethod
    def _rouse(self, state: SharedState[T], gathering: Gathering[T], called: T | None, own: T) -> None:
        """Under the lock: has a request sent for the caller that is `called`, unless it is the one that asks."""

    @abstractmethod
    def _wake(self, done: Sequence[T], own: T | None, *, last: bool) -> None:
        """Wakes callers that have an outcome; `last`: all others of their request have one, too."""

    async def ask(self, call: Call[Any], share: Share, patience: float) -> Reply:
        """One try of a call: alone when nothing is under way for its place, else with others.

        Raises `TarryError`; `Unavailable` when its turn has not come in `patience` seconds.
        """
        state = self._states.get()
        caller = self._caller(call, share)
        with state.lock:
            gathering = state.enter(share.place)
            self._rouse(state, gathering, gathering.enter(caller), caller)
            sends = caller.sends
        try:
            if not sends:
                await self._await(state, gathering, caller, patience)
            if caller.sends:
                await self._send(state, gathering, caller)
        except BaseException:
            caller.give_up()
            self._leave(state, gathering, caller)
            raise
        outcome = caller.outcome
        if isinstance(outcome, Reply):
            return outcome
        if outcome is None or isinstance(outcome, Alone):
            return await self._sender.once(call)
        raise outcome

    async def _await(self, state: SharedState[T], gathering: Gathering[T], caller: T, patience: float) -> None:
        if await caller.woken(patience):
            return
        with state.lock:
            if gathering.unsent(caller) and not caller.sends:
                raise not_sent(patience)
        await caller.woken()  # it is to send, or its request is under way, which has time-outs of its own

    async def _send(self, state: SharedState[T], gathering: Gathering[T], own: T) -> None:
        """Sends a request as a caller: an error of a request that it does not share is raised to it."""
        with state.lock:
            own.load = load = gathering.take()
            self._rouse(state, gathering, gathering.call(), own)
        if len(load.callers) == 1:
            own.outcome = await self._sender.once(own.call)
        else:
            await self._send_together(state, gathering, load, own)
        self._leave(state, gathering, own)

    async def _send_together(
        self, state: SharedState[T], gathering: Gathering[T], load: Load[T], own: T | None
    ) -> None:
        distribution = Distribution(load.callers)

        def wake(done: Sequence[T]) -> None:
            with state.lock:
                gathering.answered(load, len(done))
            if done:
                self._wake(done, own, last=not load.unanswered)

        with distribution.handed_out(wake):
            await self._sender.stream(
                distribution.share, distribution.content(), lambda piece: wake(distribution.feed(piece))
            )

    def _leave(self, state: SharedState[T], gathering: Gathering[T], caller: T) -> None:
        """Removes a caller that is done or gives up, and rouses the caller that is to send in its place."""
        with state.lock:
            self._rouse(state, gathering, gathering.leave(caller), caller)
            state.forget(caller.share.place, gathering)

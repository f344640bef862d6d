"""Calls of threads that go together in one request: each waits for its own answer.

No thread of the client's own: the first caller sends, and after that one of those who came meanwhile. Whoever
sends hands the answers out as they come; the others sleep, each on a lock of its own.
"""

import threading
from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise
from typing import Any, Protocol

from attrs import define, field

from .calls import Call, Reply, Share
from .gathering import Distribution, Gathering, Load, Turn, not_sent
from .processes import PerProcess
from .shares import Alone

_HANDING_OUT = 0.05
"""Seconds, at most."""


def _held() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


@define(eq=False)
class _Turn(Turn):
    wake: threading.Lock = field(factory=_held, init=False)
    """Let go of when there is an outcome, or its caller is to send."""
    following: "_Turn | None" = field(default=None, init=False)
    """Whom its caller wakes, once it is awake itself."""
    gone: bool = field(default=False, init=False)
    """Its caller has given up, and wakes nobody any more."""

    def hand_on(self) -> None:
        """Wakes the next."""
        turn = self
        while (following := turn.following) is not None:
            turn.following = None
            try:  # noqa: SIM105 - `suppress` would cost a tenth of the wake
                following.wake.release()
            except RuntimeError:  # two that wake it, as one of them gives up
                pass
            if not following.gone:
                return
            turn = following


class Sender(Protocol):
    """Makes one try of a request."""

    def once(self, call: Call[Any]) -> Reply:
        """Of a call that goes alone. Raises `TarryError`."""
        ...

    def stream(self, share: Share, content: bytes, took: Callable[[bytes], None]) -> None:
        """Of a shared request; `took` is given the answer as it comes. Raises `TarryError`."""
        ...


@define(eq=False)
class _Desk:
    """What the threads of a process have in common."""

    lock: threading.Lock = field(factory=threading.Lock)
    gatherings: dict[Hashable, Gathering[_Turn]] = field(factory=dict[Hashable, Gathering[_Turn]])
    """By place; none where nothing is under way."""


class Sharing:
    """Calls of threads that go together. Safe to share between threads."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._desks = PerProcess(_Desk)

    def ask(self, call: Call[Any], share: Share, patience: float) -> Reply:
        """One try of a call: alone when nothing is under way for its place, else with others.

        Raises `TarryError`; `Unavailable` when its turn has not come in `patience` seconds.
        """
        desk = self._desks.get()
        turn = _Turn(call, share)
        with desk.lock:
            gathering = desk.gatherings.get(share.place)
            if gathering is None:
                gathering = desk.gatherings[share.place] = Gathering()
            _rouse(gathering.enter(turn), turn)
            sends = turn.sends
        try:
            if not sends:
                self._await(desk, gathering, turn, patience)
            if turn.sends:
                self._send(desk, gathering, turn)
        except BaseException:
            turn.gone = True
            turn.hand_on()
            self._leave(desk, gathering, turn)
            raise
        outcome = turn.outcome
        if isinstance(outcome, Reply):
            return outcome
        if outcome is None or isinstance(outcome, Alone):
            return self._sender.once(call)
        raise outcome

    def _await(self, desk: _Desk, gathering: Gathering[_Turn], turn: _Turn, patience: float) -> None:
        if turn.wake.acquire(timeout=min(patience, threading.TIMEOUT_MAX)):
            turn.hand_on()
            return
        with desk.lock:
            if gathering.unsent(turn) and not turn.sends:
                raise not_sent(patience)
        turn.wake.acquire()  # it sends, or was sent, and a request has time-outs of its own
        turn.hand_on()

    def _send(self, desk: _Desk, gathering: Gathering[_Turn], turn: _Turn) -> None:
        with desk.lock:
            turn.load = load = gathering.take()
            _rouse(gathering.call(), turn)
        if len(load.turns) == 1:
            turn.outcome = self._sender.once(turn.call)
        else:
            self._send_together(desk, gathering, load, turn)
        self._leave(desk, gathering, turn)

    def _send_together(self, desk: _Desk, gathering: Gathering[_Turn], load: Load[_Turn], own: _Turn) -> None:
        distribution = Distribution(load.turns)
        woken = False

        def wake(done: Sequence[_Turn]) -> None:
            nonlocal woken
            with desk.lock:
                gathering.answered(load, len(done))
            others = [turn for turn in done if turn is not own]
            if done and not load.unanswered:
                others.append(own)
                woken = True
            _wake(others)

        with distribution.handed_out(wake):
            self._sender.stream(
                distribution.share, distribution.content(), lambda piece: wake(distribution.feed(piece))
            )
        if woken:
            # The request is under way until all have their answers, and may have something again: the next has it all.
            own.wake.acquire(timeout=_HANDING_OUT)
            own.hand_on()

    def _leave(self, desk: _Desk, gathering: Gathering[_Turn], turn: _Turn) -> None:
        """It is done, or gives up: whoever sends in its place is woken."""
        with desk.lock:
            _rouse(gathering.leave(turn), turn)
            if not gathering.busy and desk.gatherings.get(turn.share.place) is gathering:
                del desk.gatherings[turn.share.place]


def _rouse(called: _Turn | None, own: _Turn) -> None:
    """Under the lock: who is called sends, once it is awake."""
    if called is not None and called is not own:
        called.wake.release()


def _wake(turns: Sequence[_Turn]) -> None:
    """Each wakes the next: hundreds that woke together would wait for Python's lock, and disturb each other there."""
    for turn, following in pairwise(turns):
        turn.following = following
    if turns:
        first = turns[0]
        first.wake.release()
        if first.gone:
            first.hand_on()

"""Shared requests for threads, without a thread of the client's own. The caller that sends hands the answers out as
they come, and the others sleep, each on a lock of its own.
"""

import threading
from collections.abc import Sequence
from itertools import pairwise

from attrs import define, field

from .gathering import Gathering, Load
from .sharing import Sender, SharedState, Sharing, Waiter

_HANDING_OUT = 0.05
"""Most seconds that a sender waits until all answers are handed out."""


def _held() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


@define(eq=False)
class _Caller(Waiter):
    wake: threading.Lock = field(factory=_held, init=False)
    """Released when there is an outcome, or the caller is to send."""
    following: "_Caller | None" = field(default=None, init=False)
    """The caller that this one wakes, once it is awake itself."""
    gone: bool = field(default=False, init=False)
    """It has given up, and wakes nobody any more."""
    is_last: bool = field(default=False, init=False)
    """It has sent a request, and is woken after all others that share it."""

    async def woken(self, patience: float | None = None) -> bool:
        woken = self.wake.acquire(timeout=-1 if patience is None else min(patience, threading.TIMEOUT_MAX))
        if woken:
            self.hand_on()
        return woken

    def give_up(self) -> None:
        self.gone = True
        self.hand_on()

    def hand_on(self) -> None:
        """Wakes the next caller that has not given up."""
        caller = self
        while (following := caller.following) is not None:
            caller.following = None
            try:  # noqa: SIM105 - `suppress` would cost a tenth of the wake
                following.wake.release()
            except RuntimeError:  # two callers wake it, as one of them gives up
                pass
            if not following.gone:
                return
            caller = following


class ThreadSharing(Sharing[_Caller]):
    """Shares requests between threads."""

    _caller = _Caller

    def __init__(self, sender: Sender) -> None:
        super().__init__(sender, threading.Lock)

    async def _send_together(
        self, state: SharedState[_Caller], gathering: Gathering[_Caller], load: Load[_Caller], own: _Caller | None
    ) -> None:
        await super()._send_together(state, gathering, load, own)
        if own is not None and own.is_last:
            # The request is under way until all have their answers and may ask again: the next one takes all of that.
            own.wake.acquire(timeout=_HANDING_OUT)
            own.hand_on()

    def _rouse(
        self, state: SharedState[_Caller], gathering: Gathering[_Caller], called: _Caller | None, own: _Caller
    ) -> None:
        if called is not None and called is not own:
            called.wake.release()

    def _wake(self, done: Sequence[_Caller], own: _Caller | None, *, last: bool) -> None:
        """Wakes the first, and each wakes the next: hundreds that wake together would contend for Python's lock."""
        callers = [caller for caller in done if caller is not own]
        if own is not None and last:
            callers.append(own)
            own.is_last = True
        for caller, following in pairwise(callers):
            caller.following = following
        if callers:
            first = callers[0]
            first.wake.release()
            if first.gone:
                first.hand_on()

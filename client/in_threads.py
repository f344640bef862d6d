"""Runs a transport for threads from tasks of an event loop, as a user's own httpx client may support only threads."""

import threading
from functools import partial
from typing import TypeVar

from anyio import CapacityLimiter, Event, to_thread

from .calls import Call
from .coroutines import drive
from .transport import Transport

T = TypeVar("T")


class InThreads:
    """Makes each call in a thread, `most` at a time. No call can be given up before its answer is there."""

    def __init__(self, transport: Transport[threading.Event], stopped: threading.Event, most: int) -> None:
        self._transport = transport
        self._stopped = stopped
        self._limiter = CapacityLimiter(most)

    async def send(self, call: Call[T], *, deadline: float | None = None, abandon: Event | None = None) -> T:
        stopped = None if abandon is None else self._stopped
        made = partial(self._transport.send, call, deadline=deadline, abandon=stopped)
        return await to_thread.run_sync(lambda: drive(made()), limiter=self._limiter)

    async def close(self) -> None:
        """Does nothing: the connections belong to the owner of the transport."""

"""A transport of threads for the tasks of an event loop: an httpx client of the user's own may know nothing else."""

import threading
from functools import partial
from typing import TypeVar

from anyio import CapacityLimiter, Event, to_thread

from .calls import Call
from .coroutines import drive
from .transport import Transport

T = TypeVar("T")


class InThreads:
    """Each call under way has a thread, of `most`. None can be given up before its answer is there."""

    def __init__(self, transport: Transport[threading.Event], stopped: threading.Event, most: int) -> None:
        self._transport = transport
        self._stopped = stopped
        self._limiter = CapacityLimiter(most)

    async def send(self, call: Call[T], *, deadline: float | None = None, abandon: Event | None = None) -> T:
        stopped = None if abandon is None else self._stopped
        made = partial(self._transport.send, call, deadline=deadline, abandon=stopped)
        return await to_thread.run_sync(lambda: drive(made()), limiter=self._limiter)

    async def close(self) -> None:
        """The connections are its owner's."""

"""Starts tasks of the client's own, and tells whether a task was cancelled, on asyncio and trio."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any, TypeVarTuple

from anyio import current_effective_deadline
from anyio.abc import TaskGroup
from anyio.lowlevel import current_token

Args = TypeVarTuple("Args")


def loop() -> Any:
    """The running event loop of asyncio, or trio's token."""
    token: Any = current_token()
    return getattr(token, "native_token", token)  # before anyio 4.11 the token was the native one


def on_trio() -> bool:
    """Whether the running event loop is trio's."""
    return hasattr(loop(), "run_sync_soon")


def own_task() -> asyncio.Task[Any] | None:
    """The running task of asyncio, whose `cancel` anybody may call; None on trio, which has only scopes."""
    return None if on_trio() else asyncio.current_task()


def is_cancelled(task: asyncio.Task[Any] | None, before: int = 0) -> bool:
    """Whether a scope around the caller was cancelled, or `task` more often than `before`.

    A CancelledError that comes while neither was is that of a task or a future that was awaited.
    """
    return current_effective_deadline() == -math.inf or (task is not None and task.cancelling() > before)


def uncancel(task: asyncio.Task[Any] | None) -> None:
    """Lets a task go on, though it was cancelled."""
    while task is not None and task.cancelling():
        task.uncancel()


def from_outside() -> Callable[[Callable[[], object]], object]:
    """A function that has the event loop call something soon: for signal handlers, other threads and the garbage
    collector."""
    token = loop()
    later: Callable[[Callable[[], object]], object] = (
        getattr(token, "run_sync_soon", None) or token.call_soon_threadsafe
    )
    return later


def start(tasks: TaskGroup, work: Callable[[*Args], Awaitable[None]], *args: *Args) -> None:
    """Starts `work`, which a Ctrl-C does not interrupt.

    Trio raises a KeyboardInterrupt in whichever task runs. From a task of the client it would come in a group of
    groups, with nothing given back; the user's own task is to be interrupted, as on asyncio.
    """

    async def task() -> None:
        await work(*args)

    if on_trio():
        from trio.lowlevel import enable_ki_protection

        enable_ki_protection(task)
    tasks.start_soon(task)

"""Tasks of the client's own, beside those of its user."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVarTuple

from anyio.abc import TaskGroup
from anyio.lowlevel import current_token

Args = TypeVarTuple("Args")


def loop() -> Any:
    """The running event loop of asyncio, or trio's token."""
    token: Any = current_token()
    return getattr(token, "native_token", token)  # before anyio 4.11 it was the thing itself


def on_trio() -> bool:
    """Whether the running event loop is trio's."""
    return hasattr(loop(), "run_sync_soon")


def from_outside() -> Callable[[Callable[[], object]], object]:
    """Has the event loop call something soon: for signal handlers, other threads and the garbage collector."""
    token = loop()
    later: Callable[[Callable[[], object]], object] = (
        getattr(token, "run_sync_soon", None) or token.call_soon_threadsafe
    )
    return later


def start(tasks: TaskGroup, work: Callable[[*Args], Awaitable[None]], *args: *Args) -> None:
    """Starts `work`, which a Ctrl-C does not interrupt.

    Trio raises a KeyboardInterrupt in whichever task runs. Out of the client's it would come in a group of groups, and
    with nothing given back; it is the user's own task that is to be interrupted, as on asyncio.
    """

    async def task() -> None:
        await work(*args)

    if on_trio():
        from trio.lowlevel import enable_ki_protection

        enable_ki_protection(task)
    tasks.start_soon(task)

"""The words between the server and the app: ASGI 3, and three keys in a request's scope that are the server's own."""

from collections.abc import Awaitable, Callable, Generator, MutableMapping
from contextlib import contextmanager
from typing import Any

from attrs import define, field
from trio import CancelScope

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

ARRIVED = "tarry.arrived"
"""In a request's scope: when it came, the event loop's time."""
PRESENCE = "tarry.presence"
"""In a request's scope: its client's `Presence`."""
TAKEN = "tarry.taken"
"""In a request's scope: its `Taken`, for an app that takes a body of any length piece by piece."""

Taken = Callable[[int], None]
"""The app keeps so many bytes of what it has received, and has done with the rest: only these count as held, and the
next piece has the time that a body has from its beginning on."""


@define(eq=False)
class Presence:
    """Whether a client is still there."""

    gone: bool = field(default=False, init=False)
    waiting: CancelScope | None = field(default=None, init=False)
    """Cancelled when it goes: what nobody would be there for."""

    @contextmanager
    def waited_for(self) -> Generator[None, None, None]:
        """What is done in the block is cancelled when the client goes, or has gone."""
        with CancelScope() as self.waiting:
            if self.gone:
                self.waiting.cancel()
            try:
                yield
            finally:
                self.waiting = None

    def leave(self) -> None:
        """It has closed its side."""
        self.gone = True
        self.let_go()

    def let_go(self) -> None:
        """What waits for it waits no longer."""
        if self.waiting is not None:
            self.waiting.cancel()

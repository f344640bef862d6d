"""The interface between the server and the app: ASGI 3, and four keys of the server's own in a request's scope."""

from collections.abc import Awaitable, Callable, Generator, MutableMapping
from contextlib import contextmanager
from typing import Any, Protocol

from attrs import define, field
from trio import CancelScope

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

ARRIVED = "tarry.arrived"
"""In a request's scope: when it arrived, in the event loop's time."""
PRESENCE = "tarry.presence"
"""In a request's scope: its client's `Presence`."""
TAKEN = "tarry.taken"
"""In a request's scope: its `Taken`, for an app that takes a body of any length in pieces."""

CREDIT = "tarry.credit"
"""In a request's scope: its client's `Credit`."""

Taken = Callable[[int], None]
"""Called by the app with the number of bytes that it keeps of the body so far; it is done with the rest. Only these
count as held, and the time limit for the body begins anew with the next piece."""


class Kept(bytes):
    """Bytes that the process keeps anyway, so that as the body of many answers they take no more memory than once."""


class Credit(Protocol):
    """How much of the server's memory a client may use. Clients that have shown no key share a small part."""

    def know(self, client: str) -> None:
        """Notes that the client has shown the key of this name; the name is empty where no key is required."""

    def check(self) -> None:
        """Raises `Overloaded` if it takes too little of its answers to be given more."""

    def hold(self, size: int) -> None:
        """Counts more bytes of its answer as held until they are sent. Raises `Overloaded`, and counts nothing then."""

    def free(self, size: int) -> None:
        """Counts bytes of its answer as no longer held."""


class Unlimited:
    """The credit of a request that came over no connection of this server: no limit."""

    def know(self, client: str) -> None:
        """Does nothing: there is no limit."""

    def check(self) -> None:
        """Does nothing: there is no limit."""

    def hold(self, size: int) -> None:
        """Does nothing: there is no limit."""

    def free(self, size: int) -> None:
        """Does nothing: there is no limit."""


@define(eq=False)
class Presence:
    """Whether a client is still there."""

    gone: bool = field(default=False, init=False)
    waiting: CancelScope | None = field(default=None, init=False)
    """The scope of work that is cancelled when the client goes, since nobody would take its result."""

    @contextmanager
    def waited_for(self) -> Generator[None, None, None]:
        """Cancels the block when the client goes, or has gone already."""
        with CancelScope() as self.waiting:
            if self.gone:
                self.waiting.cancel()
            try:
                yield
            finally:
                self.waiting = None

    def leave(self) -> None:
        """Notes that the client has closed its side."""
        self.gone = True
        self.let_go()

    def let_go(self) -> None:
        if self.waiting is not None:
            self.waiting.cancel()

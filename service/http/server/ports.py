"""The words between the server and the app: ASGI 3, and four keys in a request's scope that are the server's own."""

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
"""In a request's scope: when it came, the event loop's time."""
PRESENCE = "tarry.presence"
"""In a request's scope: its client's `Presence`."""
TAKEN = "tarry.taken"
"""In a request's scope: its `Taken`, for an app that takes a body of any length piece by piece."""

CREDIT = "tarry.credit"
"""In a request's scope: its client's `Credit`."""

Taken = Callable[[int], None]
"""The app keeps so many bytes of what it has received, and has done with the rest: only these count as held, and the
next piece has the time that a body has from its beginning on."""


class Kept(bytes):
    """What the process keeps anyway: as the body of many answers it takes no more room than as that of one."""


class Credit(Protocol):
    """How much of the server's memory a client may have. Who has not shown a key has little, with all who have not."""

    def know(self, client: str) -> None:
        """It has shown the key of this name; the name is empty where no key is asked for."""
        ...

    def check(self) -> None:
        """Raises `Overloaded` where it takes too little of its answers to be given more."""
        ...

    def hold(self, size: int) -> None:
        """So many bytes more of its answer are there, until it is sent. Raises `Overloaded`, and holds nothing."""
        ...

    def free(self, size: int) -> None:
        """So many of them are not."""
        ...


class Unlimited:
    """Of a request that came over no connection of this server."""

    def know(self, client: str) -> None:
        """It is all the same."""

    def check(self) -> None:
        """It is."""

    def hold(self, size: int) -> None:
        """It does."""

    def free(self, size: int) -> None:
        """It does."""


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

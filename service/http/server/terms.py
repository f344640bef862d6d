"""The terms under which all connections of a server are served: the app, and limits of bytes and time."""

from attrs import Factory, define, field

from ...errors import Overloaded
from .pace import Pace
from .ports import App
from .rests import Rests

KEEP_ALIVE = 75.0
"""Seconds that a connection may be idle between two requests, or take to send the head of one."""
PART = 16
"""Clients without a key together may use one part in so many of the bytes for clients with a key."""
LEAST = 1 << 20
"""But at least so many bytes."""


@define(eq=False)
class Incoming:
    """Counts the bytes of bodies that the server holds for requests not answered yet, under one limit.

    The stated length of a request is checked against the limit, but not reserved: else a few clients that send nothing
    would lock everybody out. A single request always passes; its call limits its size.
    """

    limit: int
    held: int = field(default=0, init=False)

    def check(self, own: int, more: int) -> None:
        """Raises `Overloaded` if a request that holds `own` of the bytes may not hold `more`."""
        others = self.held - own
        if others and others + own + more > self.limit:
            raise Overloaded("too many bytes of requests are on their way at once; try again in a moment")


@define(eq=False)
class Untaken:
    """Counts the bytes of answers that clients have not taken yet: under one limit for all of them, and half of it for
    each client. A single answer always passes."""

    limit: int
    held: int = field(default=0, init=False)
    _of: dict[str, int] = field(factory=dict[str, int], init=False)
    """Bytes held by each client."""

    def check(self, client: str, more: int = 0) -> None:
        """Raises `Overloaded` if the client may not hold `more` bytes."""
        own = self._of.get(client, 0)
        if own and own + more > self.limit // 2:
            raise Overloaded("answers of yours wait for you to take them; read them, and try again in a moment")
        if self.held and self.held + more > self.limit:
            raise Overloaded("too many bytes of answers wait to be taken; try again in a moment")

    def hold(self, client: str, size: int) -> None:
        self.held += size
        self._of[client] = self._of.get(client, 0) + size

    def free(self, client: str, size: int) -> None:
        self.held -= size
        if left := self._of.get(client, 0) - size:
            self._of[client] = left
        else:
            self._of.pop(client, None)


@define(eq=False)
class Limits:
    """The limits for clients that have shown a key, or for all other clients together."""

    bytes_: int
    incoming: Incoming = field(init=False, default=Factory(lambda self: Incoming(self.bytes_), takes_self=True))
    untaken: Untaken = field(init=False, default=Factory(lambda self: Untaken(self.bytes_), takes_self=True))


def _of_keyless(terms: "Terms") -> Limits:
    return Limits(max(LEAST, terms.keyed.bytes_ // PART))


@define(eq=False)
class Terms:
    app: App
    keyed: Limits
    """The limits for clients that have shown a key."""
    body_time: float
    """Seconds within which a short body must arrive."""
    keyless: Limits = field(init=False, default=Factory(_of_keyless, takes_self=True))
    """The limits for clients that have shown no key (yet): they send nothing large, and take no room from the
    others."""
    pace: Pace = field(factory=Pace)
    rests: Rests = field(factory=lambda: Rests(KEEP_ALIVE))
    closing: bool = field(default=False, init=False)
    """Whether the server is stopping: every answer is the last of its connection then."""

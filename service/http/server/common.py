"""What all connections of a server have in common."""

from attrs import Factory, define, field

from ...errors import Overloaded
from .pace import Pace
from .ports import App
from .rests import Rests

KEEP_ALIVE = 75.0
"""Seconds that a connection may rest between two requests, or take for the head of one."""
PART = 16
"""Those without a key have this part of the bytes that those with one have."""
LEAST = 1 << 20
"""Bytes, and these at least."""


@define(eq=False)
class Incoming:
    """How many bytes of bodies the server holds for requests that it has not answered: one limit for all of them.

    What a request only says that it will send is held against the limit too, but not kept for it: else a few clients
    that send nothing would shut everybody out. One alone passes always; how large it may be is for its call to say.
    """

    limit: int
    held: int = field(default=0, init=False)

    def check(self, own: int, more: int) -> None:
        """Raises `Overloaded` when a request that holds `own` bytes of all may not have `more`."""
        others = self.held - own
        if others and others + own + more > self.limit:
            raise Overloaded("too many bytes of requests are on their way at once; try again in a moment")


@define(eq=False)
class Untaken:
    """How many bytes of answers there are that clients have not taken yet: one limit for all of them, and the half of
    it for each. One answer alone passes always."""

    limit: int
    held: int = field(default=0, init=False)
    _of: dict[str, int] = field(factory=dict[str, int], init=False)
    """By client."""

    def check(self, client: str, more: int = 0) -> None:
        """Raises `Overloaded` when a client may not have so many more."""
        own = self._of.get(client, 0)
        if own and own + more > self.limit // 2:
            raise Overloaded("answers of yours wait for you to take them; read them, and try again in a moment")
        if self.held and self.held + more > self.limit:
            raise Overloaded("too many bytes of answers wait to be taken; try again in a moment")

    def hold(self, client: str, size: int) -> None:
        """So many more are there."""
        self.held += size
        self._of[client] = self._of.get(client, 0) + size

    def free(self, client: str, size: int) -> None:
        """So many are taken, or never will be."""
        self.held -= size
        if left := self._of.get(client, 0) - size:
            self._of[client] = left
        else:
            self._of.pop(client, None)


@define(eq=False)
class Limits:
    """Of clients that have shown a key, or of all the others together."""

    bytes_: int
    incoming: Incoming = field(init=False, default=Factory(lambda self: Incoming(self.bytes_), takes_self=True))
    untaken: Untaken = field(init=False, default=Factory(lambda self: Untaken(self.bytes_), takes_self=True))


def _of_strangers(common: "Common") -> Limits:
    return Limits(max(LEAST, common.known.bytes_ // PART))


@define(eq=False)
class Common:
    """The app, and the limits that it is served with."""

    app: App
    known: Limits
    """Of clients that have shown a key."""
    body_time: float
    """Seconds for a body of a few bytes."""
    strangers: Limits = field(init=False, default=Factory(_of_strangers, takes_self=True))
    """Of those who have not, or not yet: nothing of theirs is large, and they take no room from the others."""
    pace: Pace = field(factory=Pace)
    rests: Rests = field(factory=lambda: Rests(KEEP_ALIVE))
    closing: bool = field(default=False, init=False)
    """The server stops: every answer is the last of its connection."""

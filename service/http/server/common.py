"""What all connections of a server have in common."""

from attrs import define, field

from ...errors import Overloaded
from .pace import Pace
from .ports import App
from .rests import Rests

KEEP_ALIVE = 75.0
"""Seconds that a connection may rest between two requests, or take for the head of one."""


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
class Common:
    """The app, and the limits that it is served with."""

    app: App
    incoming: Incoming
    body_time: float
    """Seconds for a body of a few bytes."""
    pace: Pace = field(factory=Pace)
    rests: Rests = field(factory=lambda: Rests(KEEP_ALIVE))
    closing: bool = field(default=False, init=False)
    """The server stops: every answer is the last of its connection."""

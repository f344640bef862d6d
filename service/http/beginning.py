"""Decides when an answer begins that is made while its request is still being sent.

Some proxies, nginx among them, stop sending a request once its answer has begun, and the rest of it is lost. So if a
request states its length, its answer is held back until the whole request has come, or more would be held back than may
be. A client that sends nothing for a while is waiting for the answer, and gets it. A chunked request is answered as it
comes.
"""

import trio
from attrs import define, field

MOST = 4 << 20
"""The most bytes that are held back."""
_PATIENCE = 1.0
"""Seconds without any of the request: after at most two such periods the answer begins."""


@define(eq=False)
class Beginning:
    """The beginning of one answer. The maker of the answer calls `hold`, its sender `wait`, and the reader of the
    request the other methods."""

    most: int
    """The most bytes that are held back; with 0 the answer begins at once."""
    _held: int = field(default=0, init=False)
    _asked: int = field(default=0, init=False)
    """How often the reader has begun to wait for more of the request."""
    _waits: bool = field(default=False, init=False)
    """Whether the reader is waiting for more of the request."""
    _now: trio.Event = field(factory=trio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        if not self.most:
            self.begin()

    @property
    def begun(self) -> bool:
        """Whether the answer may begin, so that nothing is held back any more."""
        return self._now.is_set()

    def begin(self) -> None:
        """Lets the answer begin: the whole request has come, or enough is held back."""
        self._now.set()

    def hold(self, size: int) -> None:
        """Counts bytes of the answer that are held back; too many of them let it begin."""
        self._held += size
        if self._held > self.most:
            self.begin()

    def ask(self) -> None:
        self._asked += 1
        self._waits = True

    def come(self) -> None:
        self._waits = False

    async def wait(self) -> None:
        while not self.begun:
            before = self._asked
            with trio.move_on_after(_PATIENCE):
                await self._now.wait()
            if self._waits and self._asked == before:
                self.begin()

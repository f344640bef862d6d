"""When an answer begins that is made while its request is still being sent.

Proxies stop sending a request once its answer has begun, nginx does, and what they had not sent is lost. So where a
request says how long it is, its answer waits until all has come, or more is held back than may be. Whoever sends
nothing for a while waits for the answer himself, and has it. What comes in chunks is answered as it comes.
"""

import trio
from attrs import define, field

MOST = 4 << 20
"""Bytes that are held back."""
_PATIENCE = 1.0
"""Seconds in which nothing came and nothing was there to be read: after two of them at most the answer begins."""


@define(eq=False)
class Beginning:
    """Of one answer. `hold` is for who makes it, `wait` for who sends it, the others for who reads the request."""

    most: int
    """Bytes that are held back; none are with 0."""
    _held: int = field(default=0, init=False)
    _asked: int = field(default=0, init=False)
    """How often something was waited for of the request."""
    _waits: bool = field(default=False, init=False)
    """Something is."""
    _now: trio.Event = field(factory=trio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        if not self.most:
            self.begin()

    @property
    def begun(self) -> bool:
        """Whether nothing is held back any more."""
        return self._now.is_set()

    def begin(self) -> None:
        """The request has come whole, or what is held back is to go."""
        self._now.set()

    def hold(self, size: int) -> None:
        """So many bytes of the answer are there."""
        self._held += size
        if self._held > self.most:
            self.begin()

    def ask(self) -> None:
        """The request is waited for."""
        self._asked += 1
        self._waits = True

    def come(self) -> None:
        """Some of it has come."""
        self._waits = False

    async def wait(self) -> None:
        """Until the answer may begin."""
        while not self.begun:
            before = self._asked
            with trio.move_on_after(_PATIENCE):
                await self._now.wait()
            if self._waits and self._asked == before:
                self.begin()

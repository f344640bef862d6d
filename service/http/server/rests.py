"""Connections at rest: each is let go in its time.

A deadline of its own, set and lifted with each request, would cost a twentieth of a publish. All may rest equally long,
so they are kept in the order in which their rest began, and one task looks at the first.
"""

import trio
from attrs import define, field


@define(eq=False)
class Rests:
    """`run` is a task of the server's; the others are for connections, which are known by their scopes."""

    time: float
    """Seconds that one may rest."""
    _since: dict[trio.CancelScope, float] = field(factory=dict[trio.CancelScope, float], init=False)
    """The loop's time at which each began; the longest at rest is the first."""
    _begun: trio.Event = field(factory=trio.Event, init=False)
    """Somebody rests."""

    def begin(self, scope: trio.CancelScope) -> None:
        """The scope is cancelled in its time, unless the rest ends before."""
        if not self._since:
            self._begun.set()
        self._since[scope] = trio.current_time()

    def end(self, scope: trio.CancelScope) -> None:
        """It rests no more, if it did."""
        self._since.pop(scope, None)

    async def run(self) -> None:
        """Ends what has rested long enough, for ever."""
        while True:
            if not self._since:
                self._begun = trio.Event()
                await self._begun.wait()
                continue
            scope, since = next(iter(self._since.items()))
            if trio.current_time() < since + self.time:
                await trio.sleep_until(since + self.time)
            else:
                self.end(scope)
                scope.cancel()

"""Closes connections that have been idle for too long.

A deadline for each, set and lifted with each request, would cost a twentieth of a publish. All may be idle for the same
time, so they are kept in the order in which they became idle, and one task watches the first.
"""

import trio
from attrs import define, field


@define(eq=False)
class Rests:
    """`run` is a task of the server; connections, identified by their scopes, call the other methods."""

    time: float
    """Seconds that a connection may be idle."""
    _since: dict[trio.CancelScope, float] = field(factory=dict[trio.CancelScope, float], init=False)
    """When each became idle, in the event loop's time; the one idle for longest is the first."""
    _begun: trio.Event = field(factory=trio.Event, init=False)
    """Set when a connection becomes idle."""

    def begin(self, scope: trio.CancelScope) -> None:
        """Notes that the connection is idle; its scope is cancelled in time unless `end` is called before."""
        if not self._since:
            self._begun.set()
        self._since[scope] = trio.current_time()

    def end(self, scope: trio.CancelScope) -> None:
        self._since.pop(scope, None)

    async def run(self) -> None:
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

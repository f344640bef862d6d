"""Another server has the database: what is in memory was read from the one before, and is read again.

The new one may lack what was committed last, where replicas follow behind, and give its numbers to others; and its
clock is its own. Until a sample of that is taken nothing is promoted (see `clock`), and until the topics are read
nothing is written: it would be written by what the one before had.
"""

from collections.abc import Awaitable, Callable, Sequence

from attrs import define, field


@define(eq=False)
class HostWatch:
    """`before` and `behind` are the steps that are taken, in order, when the `server` is another, and in between it is
    told by `admit` that there may be writes to it. `look` every so often."""

    _server: Callable[[], str]
    _admit: Callable[[str], None]
    _before: Sequence[Callable[[], Awaitable[object]]]
    _behind: Sequence[Callable[[], Awaitable[object]]]
    _known: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._known = self._server()
        self._admit(self._known)

    async def look(self) -> None:
        """Costs nothing where nothing has changed. Raises `StoreError`: then all steps are taken again."""
        server = self._server()
        if server == self._known:
            return
        for step in self._before:
            await step()
        self._admit(server)
        for step in self._behind:
            await step()
        self._known = server

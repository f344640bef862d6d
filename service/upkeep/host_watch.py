"""Another server has the database: what is in memory was read from the one before, and is read again.

The new one may lack what was committed last, where replicas follow behind; and its clock is its own. Until a sample of
that is taken nothing is promoted (see `clock`).
"""

from collections.abc import Awaitable, Callable, Sequence

from attrs import define, field


@define(eq=False)
class HostWatch:
    """`read_anew` are the steps that are taken, in order, when the `server` is another. `look` every so often."""

    _server: Callable[[], str]
    _read_anew: Sequence[Callable[[], Awaitable[object]]]
    _known: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._known = self._server()

    async def look(self) -> None:
        """Costs nothing where nothing has changed. Raises `StoreError`: then all steps are taken again."""
        server = self._server()
        if server == self._known:
            return
        for step in self._read_anew:
            await step()
        self._known = server

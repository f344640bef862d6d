"""Another server has the database: what is in memory was read from the one before, and is read again.

The new one may lack what was committed last, where replicas follow behind, and give its numbers to others; and its
clock is its own. Until a sample of that is taken nothing is promoted (see `clock`), and until the topics are read
nothing is written: it would be written by what the one before had.
"""

from collections.abc import Awaitable, Callable, Sequence

from attrs import define, field

from ...store.errors import StoreError
from ...store.ports import Backend


@define(eq=False)
class HostWatch:
    """`before` and `behind` are the steps that are taken, in order, when the backend's server is another, and in
    between the backend admits writes to it. `look` every so often."""

    _backend: Backend
    _before: Sequence[Callable[[], Awaitable[object]]]
    _behind: Sequence[Callable[[], Awaitable[object]]]
    _known: str = field(init=False)
    _admitted: str = field(init=False)
    _failed: str = field(default="", init=False)
    """What went wrong at the last try."""

    def __attrs_post_init__(self) -> None:
        self._known = self._admitted = self._backend.server
        self._backend.admit(self._known)

    @property
    def wrong(self) -> str | None:
        """Why nothing is written yet; None: it may be."""
        if self._backend.server == self._admitted:
            return None
        why = "another server of the database takes the writes now: what is in memory is read again, and then written"
        return f"{why}; the last try: {self._failed}" if self._failed else why

    async def look(self) -> None:
        """Costs nothing where nothing has changed. After a `StoreError` all steps are taken again; it is raised, and
        once if it is the same each time."""
        server = self._backend.server
        if server == self._known:
            return
        try:
            await self._follow(server)
        except StoreError as error:
            before, self._failed = self._failed, str(error)
            if self._failed != before:
                raise
        else:
            self._known, self._failed = server, ""

    async def _follow(self, server: str) -> None:
        for step in self._before:
            await step()
        self._backend.admit(server)
        self._admitted = server
        for step in self._behind:
            await step()

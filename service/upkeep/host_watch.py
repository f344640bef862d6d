"""Watches whether another server takes over the database, and then has everything in memory read again.

Where replicas lag behind, the new server may lack the last commits, and reuse their ids; and it has its own clock.
Until a sample of that clock is taken nothing is promoted (see `clock`). Until the topics are read nothing is written,
since it would be written according to the old server's data.
"""

from collections.abc import Awaitable, Callable, Sequence

from attrs import define, field

from ...store.errors import StoreError
from ...store.ports import Backend


@define(eq=False)
class HostWatch:
    """When the backend's server has changed, runs the steps of `before`, in order, then lets the backend admit writes
    to the new server, then runs those of `behind`. Call `look` regularly."""

    _backend: Backend
    _before: Sequence[Callable[[], Awaitable[object]]]
    _behind: Sequence[Callable[[], Awaitable[object]]]
    _known: str = field(init=False)
    _admitted: str = field(init=False)
    _failed: str = field(default="", init=False)
    """The error of the last try."""

    def __attrs_post_init__(self) -> None:
        self._known = self._admitted = self._backend.server
        self._backend.admit(self._known)

    @property
    def wrong(self) -> str | None:
        """Why nothing may be written yet; None if it may."""
        if self._backend.server == self._admitted:
            return None
        why = "another server of the database takes the writes now: what is in memory is read again, and then written"
        return f"{why}; the last try: {self._failed}" if self._failed else why

    async def look(self) -> None:
        """Runs the steps if the server has changed; costs nothing otherwise. After a `StoreError` the next call runs
        all steps again; the error is raised, but only once if it is the same each time."""
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

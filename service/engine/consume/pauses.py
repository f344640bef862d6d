"""Pauses: finds out which groups other nodes have paused or resumed.

The directory is read anew every ten seconds, and of very many topics in turns. But a group that is paused is to rest at
every node within a second. So the ids of paused groups, which are few, are read each second while somebody claims here,
and before the first claim after a while: a node that nobody asks does not look.
"""

from contextlib import suppress
from math import inf

import trio
from attrs import define, field

from ....store import catalogue
from ....store.store import Store
from ...errors import UnknownGroup
from ..signals import Signals
from ..state.directory import Directory

_EVERY = 1.0
"""Seconds between two looks, when no other node tells of a change."""
_FRESH = 1.5
"""Seconds for which a look is good enough for a claim."""
_ASKED = 30.0
"""Seconds for which the looks go on after a claim."""


@define(eq=False)
class Pauses:
    _store: Store
    _directory: Directory
    _signals: Signals
    _asked_at: float = field(default=-inf, init=False)
    """When somebody last claimed something here: trio's time, as `_looked_at`."""
    _looked_at: float = field(default=-inf, init=False)
    _looking: trio.Lock = field(factory=trio.Lock, init=False)
    _changed: trio.Event = field(factory=trio.Event, init=False)
    _seen: set[int] = field(factory=set[int], init=False)
    """The groups that were paused at the last look."""

    def note_change(self, _: int) -> None:
        """Has a look taken at once, since another node has changed something."""
        self._changed.set()

    async def asked(self) -> None:
        """Called before a claim: from here on it is known what was paused more than a second or so ago."""
        self._asked_at = trio.current_time()
        if self._store.backend.shared and self._looked_at + _FRESH < self._asked_at:
            async with self._looking:
                if self._looked_at + _FRESH < self._asked_at:  # or others have looked meanwhile
                    await self.look()

    async def look_in_time(self) -> None:
        """Looks a second from now, or when another node tells of a change, if somebody claims here."""
        with trio.move_on_after(_EVERY):
            await self._changed.wait()
        self._changed = trio.Event()
        if self._signals.doorbells.awaited or trio.current_time() < self._asked_at + _ASKED:
            await self.look()

    async def look(self) -> None:
        """Reads anew each group that is paused in the store and not in the directory, or the other way round."""
        began = trio.current_time()
        paused = set(await self._store.read(catalogue.paused_groups))
        self._looked_at = began
        for id_ in paused ^ self._directory.paused:
            if (group := self._directory.group_by_id(id_)) is None:
                continue  # it is read with its pause later
            with suppress(UnknownGroup):  # the directory forgets it at its next refresh
                await self._directory.read_group(group)
        changed, self._seen = paused ^ self._seen, paused  # a refresh of the directory may have seen the change first
        for id_ in changed:
            self._signals.group_freed(id_)

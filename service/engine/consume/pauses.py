"""Pauses: which groups are paused, as another node may have set it.

The directory is read anew every ten seconds, and of very many topics in turns. Who pauses a group wants it to rest at
every node within a second. So the ids of the paused ones, which are few, are read each second while somebody claims
here, and before the first claim after a while: a node that nobody asks does not look.
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
"""Seconds between two looks, when nobody tells of a change."""
_FRESH = 1.5
"""Seconds for which a look is good for who claims."""
_ASKED = 30.0
"""Seconds for which a claim has the looks go on."""


@define(eq=False)
class Pauses:
    """Looks for groups that were paused or resumed elsewhere."""

    _store: Store
    _directory: Directory
    _signals: Signals
    _asked_at: float = field(default=-inf, init=False)
    """When somebody last claimed something here: trio's time, as `_looked_at`."""
    _looked_at: float = field(default=-inf, init=False)
    _looking: trio.Lock = field(factory=trio.Lock, init=False)
    _changed: trio.Event = field(factory=trio.Event, init=False)
    _seen: set[int] = field(factory=set[int], init=False)
    """Which were paused at the last look."""

    def note_change(self, _: int) -> None:
        """Another node has changed something."""
        self._changed.set()

    async def asked(self) -> None:
        """Somebody claims: what was paused more than a second or so ago is known from here on."""
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
        """Reads anew the groups that are paused, and were not when they were read, or the other way round."""
        began = trio.current_time()
        paused = set(await self._store.read(catalogue.paused_groups))
        self._looked_at = began
        for id_ in paused ^ self._directory.paused:
            if (group := self._directory.group_by_id(id_)) is None:
                continue  # it is paused when it is read
            with suppress(UnknownGroup):  # the directory forgets it at its next refresh
                await self._directory.read_group(group)
        changed, self._seen = paused ^ self._seen, paused  # the directory may have known before, by a refresh
        for id_ in changed:
            self._signals.group_freed(id_)

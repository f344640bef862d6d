"""Whose a client is: a key must not claim, renew or deregister by the name that another key's client has."""

from collections import OrderedDict

import trio
from attrs import define, field

from ...store.groups import client_owners
from ...store.store import Store
from ..clock import Clock
from .keyring import Holder, Keyring

_MOST = 50_000
"""Clients that are remembered."""
_LINES = 4
"""Clients that are written at a time: thousands that come at once wait for each other, and not everybody for them."""
_AGAIN = 600.0
"""Seconds after which it is written that a client is still used."""


@define(eq=False)
class ClientOwners:
    """`take` is asked before anything is done in a client's name. Where no key is asked for, nothing is written."""

    _store: Store
    _clock: Clock
    _keyring: Keyring
    _known: OrderedDict[str, tuple[str, float]] = field(factory=OrderedDict[str, tuple[str, float]], init=False)
    """By client: the key whose it is, and when that was written."""
    _line: trio.CapacityLimiter = field(factory=lambda: trio.CapacityLimiter(_LINES), init=False)

    async def take(self, client: str, holder: Holder) -> str:
        """The name of the key whose the client is: this one's, where it was nobody's."""
        if not holder.name:
            return holder.name
        owner, noted = self._known.get(client, ("", 0.0))
        now = trio.current_time()
        if owner == holder.name and now - noted < _AGAIN:
            return owner
        keys = self._keyring.names
        async with self._line:
            owner = await self._store.write(client_owners.take, client, holder.name, keys, self._clock.now())
        if owner == holder.name:
            self._known[client] = owner, now
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
        return owner

    async def leave(self, client: str, holder: Holder) -> None:
        """It has deregistered."""
        if holder.name:
            self._known.pop(client, None)
            await self._store.write(client_owners.leave, client)

    async def forget_unused(self) -> int:
        """Takes away a batch of those that nobody uses any more; returns how many."""
        if not self._keyring.there:
            return 0
        return await self._store.write(client_owners.forget_unused, self._clock.now())

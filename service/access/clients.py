"""Whose a client is: a key must not claim, renew or deregister by the name that another key's client has.

The names of a server's own clients have a form that is nobody's: no key's, and not everybody's where none is asked for,
whether there is such a client or not, here or at another server.
"""

import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import trio
from attrs import define, field

from ...store.groups import client_owners
from ...store.records import Group
from ...store.store import Store
from ..clock import Clock
from .keyring import Holder, Keyring

_MOST = 50_000
"""Clients that are remembered."""
_LINES = 4
"""Clients that are written at a time: thousands that come at once wait for each other, and not everybody for them."""
_AGAIN = 600.0
"""Seconds after which it is written that a client is still used."""
_OWN = re.compile(r"push-.*-[0-9a-f]{8}-[0-9]+", re.ASCII | re.DOTALL)
"""The names of the clients that post for a server, as `own_name` makes them."""


def own_name(node: str, boot: str, number: int) -> str:
    """Of a client of a server's own, which no other ever has; in lives and on pages it tells which server posts."""
    return f"push-{node}-{boot[:8]}-{number}"


def is_own(client: str) -> bool:
    """Whether only a server's own client may have this name."""
    return _OWN.fullmatch(client) is not None


@define(eq=False)
class ClientOwners:
    """Asked before anything is done in a client's name. Where no key is asked for, nothing is written."""

    _store: Store
    _clock: Clock
    _keyring: Keyring
    _group_of: Callable[[int], Awaitable[Group | None]]
    _known: OrderedDict[str, tuple[str, float]] = field(factory=OrderedDict[str, tuple[str, float]], init=False)
    """By client: the key whose it is, and when that was written."""
    _line: trio.CapacityLimiter = field(factory=lambda: trio.CapacityLimiter(_LINES), init=False)

    async def may_use(self, client: str, holder: Holder) -> bool:
        """Whether the client is this key's; it is from now on, where it was nobody's."""
        if is_own(client):
            return False
        if not holder.name:
            return True
        owner, noted = self._known.get(client, ("", 0.0))
        now = trio.current_time()
        if owner == holder.name and now - noted < _AGAIN:
            return True
        if owner != holder.name and not await self.may_end(client, holder):
            return False
        keys = self._keyring.names
        async with self._line:
            owner = await self._store.write(client_owners.take, client, holder.name, keys, self._clock.now())
        if owner == holder.name:
            self._known[client] = owner, now
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
        return owner == holder.name

    async def may_end(self, client: str, holder: Holder) -> bool:
        """Whether the client is this key's, or nobody's, and the key reaches all that would end with it then."""
        if is_own(client):
            return False
        if not holder.name:
            return True
        owner = await self._store.read(client_owners.owner_of, client, self._keyring.names, self._clock.now())
        return owner == holder.name or (owner is None and await self._reaches(client, holder))

    async def _reaches(self, client: str, holder: Holder) -> bool:
        """Whether the key reaches every group of which the client holds something: a name that is nobody's may be that
        of one which came before there were keys."""
        if holder.scopes.reach_all("consume"):
            return True
        for group_id in await self._store.read(client_owners.groups_held, client):
            group = await self._group_of(group_id)
            if group is not None and not holder.scopes.reach("consume", group.topic.name, group.name):
                return False
        return True

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

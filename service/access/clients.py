"""Which key owns a client: a key must not claim, renew or deregister in the name of another key's client.

Names of a server's own clients have a reserved form that no key may use, nor anybody where no key is required, whether
such a client exists or not, here or at another server.
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
"""The most clients that are kept in memory."""
_LINES = 4
"""Clients that are written at the same time: thousands that come at once wait for each other, and do not delay other
writes."""
_AGAIN = 600.0
"""Seconds after which it is written again that a client is still used."""
_OWN = re.compile(r"push-.*-[0-9a-f]{8}-[0-9]+", re.ASCII | re.DOTALL)
"""Matches names of the clients by which a server pushes, as `own_name` makes them."""


def own_name(node: str, boot: str, number: int) -> str:
    """A unique name for a client of the server's own; in lives of messages and on pages it shows which server posts."""
    return f"push-{node}-{boot[:8]}-{number}"


def is_own(client: str) -> bool:
    """Whether only a server's own client may have this name."""
    return _OWN.fullmatch(client) is not None


@define(eq=False)
class ClientOwners:
    """Checked before anything is done in a client's name. Where no key is required, nothing is written."""

    _store: Store
    _clock: Clock
    _keyring: Keyring
    _group_of: Callable[[int], Awaitable[Group | None]]
    _known: OrderedDict[str, tuple[str, float]] = field(factory=OrderedDict[str, tuple[str, float]], init=False)
    """By client: the key that owns it, and when that was written."""
    _line: trio.CapacityLimiter = field(factory=lambda: trio.CapacityLimiter(_LINES), init=False)

    async def may_use(self, client: str, holder: Holder) -> bool:
        """Whether this key owns the client; if nobody does, the key owns it from now on."""
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
        """Whether this key owns the client, or nobody does and the key's scopes cover everything that the client
        holds."""
        if is_own(client):
            return False
        if not holder.name:
            return True
        owner = await self._store.read(client_owners.owner_of, client, self._keyring.names, self._clock.now())
        return owner == holder.name or (owner is None and await self._reaches(client, holder))

    async def _reaches(self, client: str, holder: Holder) -> bool:
        """Whether the key's scopes cover every group of which the client holds something: a client without an owner may
        be from before there were keys."""
        if holder.scopes.reach_all("consume"):
            return True
        for group_id in await self._store.read(client_owners.groups_held, client):
            group = await self._group_of(group_id)
            if group is not None and not holder.scopes.reach("consume", group.topic.name, group.name):
                return False
        return True

    async def leave(self, client: str, holder: Holder) -> None:
        if holder.name:
            self._known.pop(client, None)
            await self._store.write(client_owners.leave, client)

    async def forget_unused(self) -> int:
        """Removes a batch of owners of clients that are not used any more; returns how many."""
        if not self._keyring.there:
            return 0
        return await self._store.write(client_owners.forget_unused, self._clock.now())

"""Whose a client is: its name belongs to the key that used it first, for as long as it is used and the key holds."""

from collections.abc import Collection
from typing import NamedTuple

from ..ports import Transaction
from ..rows import encode
from .holdings import of_clients, open_claims

UNUSED = 3600 * 1000
"""Milliseconds after which a client that was not used is nobody's any more."""
_BATCH = 100


class _Owner(NamedTuple):
    access_key: str
    used_at: int


async def take(tx: Transaction, client: str, key: str, keys: Collection[str], now: int) -> str:
    """The name of the key whose the client is; this one's where it was nobody's. `keys` are those that hold."""
    name = encode(client)
    if not await tx.execute_many("client_owner.add", [(name, encode(key), now)]):
        for owner in await tx.fetch("client_owner.lock", _Owner, name):
            if owner.access_key != key and await _holds(tx, client, owner, keys, now):
                return owner.access_key
        await tx.execute("client_owner.take", encode(key), now, name)
    return key


async def owner_of(tx: Transaction, client: str, keys: Collection[str], now: int) -> str | None:
    """The name of the key whose the client is; None where it is nobody's."""
    for owner in await tx.fetch("client_owner.find", _Owner, encode(client)):
        if await _holds(tx, client, owner, keys, now):
            return owner.access_key
    return None


async def _holds(tx: Transaction, client: str, owner: _Owner, keys: Collection[str], now: int) -> bool:
    """Whether a client is its owner's still. Who works on a long claim may not have asked for one for hours."""
    if owner.access_key not in keys:
        return False
    return owner.used_at > now - UNUSED or bool(await open_claims(tx, [client]))


async def groups_held(tx: Transaction, client: str) -> set[int]:
    """The groups of which the client holds something that would go with it: claims, queues, or an offset."""
    held = await of_clients(tx, [client])
    return {one.group_id for one in held} | set(await tx.fetch("reader.groups_of", int, encode(client)))


async def leave(tx: Transaction, client: str) -> None:
    """A client that has deregistered is nobody's any more."""
    await tx.execute("client_owner.leave", encode(client))


async def forget_unused(tx: Transaction, now: int) -> int:
    """Takes away a batch of those that were not used for long; returns how many."""
    names = await tx.fetch("client_owner.unused", str, now - UNUSED, _BATCH)
    busy = {one.client for one in await of_clients(tx, names) if one.claims} if names else set[str]()
    for name in names:
        if name in busy:  # it works on a long claim: that is use
            await tx.execute("client_owner.use", now, encode(name))
        else:
            await tx.execute("client_owner.expunge", encode(name), now - UNUSED)
    return len(names) - len(busy)

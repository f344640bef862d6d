"""Owners of clients: a client's name belongs to the access key that used it first, while it is used and the key is
valid."""

from collections.abc import Collection
from typing import NamedTuple

from ..ports import Transaction
from ..rows import encode
from .holdings import of_clients, open_claims

UNUSED = 3600 * 1000
"""Milliseconds after which an unused client has no owner any more."""
_BATCH = 100


class _Owner(NamedTuple):
    access_key: str
    used_at: int


async def take(tx: Transaction, client: str, key: str, keys: Collection[str], now: int) -> str:
    """The name of the key that owns the client; `key` itself if the client had no owner. `keys` are the valid ones."""
    name = encode(client)
    if not await tx.execute_many("client_owner.add", [(name, encode(key), now)]):
        for owner in await tx.fetch("client_owner.lock", _Owner, name):
            if owner.access_key != key and await _holds(tx, client, owner, keys, now):
                return owner.access_key
        await tx.execute("client_owner.take", encode(key), now, name)
    return key


async def owner_of(tx: Transaction, client: str, keys: Collection[str], now: int) -> str | None:
    """The name of the key that owns the client; None if it has no owner."""
    for owner in await tx.fetch("client_owner.find", _Owner, encode(client)):
        if await _holds(tx, client, owner, keys, now):
            return owner.access_key
    return None


async def _holds(tx: Transaction, client: str, owner: _Owner, keys: Collection[str], now: int) -> bool:
    """Whether a client still belongs to its owner: it was used lately, or holds claims. A client that works on a long
    claim may not ask for another for hours."""
    if owner.access_key not in keys:
        return False
    return owner.used_at > now - UNUSED or bool(await open_claims(tx, [client]))


async def groups_held(tx: Transaction, client: str) -> set[int]:
    """The groups in which the client holds something that would be lost with it: claims, queues, or an offset."""
    held = await of_clients(tx, [client])
    return {one.group_id for one in held} | set(await tx.fetch("reader.groups_of", int, encode(client)))


async def leave(tx: Transaction, client: str) -> None:
    """Removes the owner of a client that has deregistered."""
    await tx.execute("client_owner.leave", encode(client))


async def forget_unused(tx: Transaction, now: int) -> int:
    """Removes a batch of owners whose clients were not used for long; returns how many."""
    names = await tx.fetch("client_owner.unused", str, now - UNUSED, _BATCH)
    busy = {one.client for one in await of_clients(tx, names) if one.claims} if names else set[str]()
    for name in names:
        if name in busy:  # working on a long claim counts as use
            await tx.execute("client_owner.use", now, encode(name))
        else:
            await tx.execute("client_owner.expunge", encode(name), now - UNUSED)
    return len(names) - len(busy)

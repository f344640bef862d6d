"""Whose a client is: its name belongs to the key that used it first, for as long as it is used and the key holds."""

from collections.abc import Collection
from typing import NamedTuple

from ..ports import Transaction
from ..rows import encode

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
        owners = await tx.fetch("client_owner.lock", _Owner, name)
        for owner in owners:
            if owner.access_key != key and owner.access_key in keys and owner.used_at > now - UNUSED:
                return owner.access_key
        await tx.execute("client_owner.take", encode(key), now, name)
    return key


async def leave(tx: Transaction, client: str) -> None:
    """A client that has deregistered is nobody's any more."""
    await tx.execute("client_owner.leave", encode(client))


async def forget_unused(tx: Transaction, now: int) -> int:
    """Takes away a batch of those that were not used for long; returns how many."""
    names = await tx.fetch("client_owner.unused", bytes, now - UNUSED, _BATCH)
    for name in names:
        await tx.execute("client_owner.expunge", name, now - UNUSED)
    return len(names)

"""Leases of processes: a name that one process at a time holds, until a time. An epoch counts the holders.

Work that a locked row decides does not depend on a lease: a holder that was paused goes on for a moment when it wakes.
"""

from attrs import frozen

from .ports import Transaction
from .rows import encode

LAKE = "lake"
"""The name of the lease on archiving the store to its lake."""


@frozen
class Lease:
    """The holder of a lease; `until` is in Unix milliseconds, and 0 when the lease was given back."""

    holder: str
    epoch: int
    until: int


async def find(tx: Transaction, name: str) -> Lease | None:
    """The lease of this name; None when nobody has ever held it."""
    rows = await tx.fetch("lease.of", Lease, encode(name))
    return rows[0] if rows else None


async def hold(tx: Transaction, name: str, holder: str, now: int, until: int) -> bool:
    """Renews the lease, or takes it when it is free. Returns whether this holder has it now."""
    key, who = encode(name), encode(holder)
    if await tx.execute("lease.extend", until, key, who):
        return True
    if await tx.execute("lease.acquire", who, until, key, now):
        return True
    return await tx.execute_many("lease.add", [(key, who, 1, until)]) > 0


async def give_back(tx: Transaction, name: str, holder: str) -> None:
    """Frees the lease, if this holder has it."""
    await tx.execute("lease.extend", 0, encode(name), encode(holder))

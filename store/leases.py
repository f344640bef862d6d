"""Leases: what one process holds at a time, by a name, until a time. An epoch counts its holders.

Nobody's work depends on it that a row arbitrates: a holder that was stopped goes on for a moment when it wakes.
"""

from attrs import frozen

from .ports import Transaction
from .rows import encode

LAKE = "lake"
"""Under this name is the lake that the store is archived to."""


@frozen
class Lease:
    """Who holds it; `until` is Unix milliseconds, and 0 when it was given back."""

    holder: str
    epoch: int
    until: int


async def find(tx: Transaction, name: str) -> Lease | None:
    """None when nobody has ever held it."""
    rows = await tx.fetch("lease.of", Lease, encode(name))
    return rows[0] if rows else None


async def hold(tx: Transaction, name: str, holder: str, now: int, until: int) -> bool:
    """Keeps it, or takes it when it is free; whether it is this holder's now."""
    key, who = encode(name), encode(holder)
    if await tx.execute("lease.extend", until, key, who):
        return True
    if await tx.execute("lease.acquire", who, until, key, now):
        return True
    return await tx.execute_many("lease.add", [(key, who, 1, until)]) > 0


async def give_back(tx: Transaction, name: str, holder: str) -> None:
    """It is free, if it was this holder's."""
    await tx.execute("lease.extend", 0, encode(name), encode(holder))

"""Keys by which clients get in: what each may do, and its SHA-256. The text of a key is nowhere.

A revoked key stays as a row: its name is in logs, and is never given to another; and a store that had keys once is not
open to everybody when none is left.
"""

from typing import Literal, NamedTuple

from attrs import field, frozen

from ..ports import Transaction
from ..rows import encode

MAX_SCOPES = 8192
"""Bytes of all scopes of a key, with a space between them."""


class KeyRow(NamedTuple):
    """A key as it lies there."""

    name: str
    digest: bytes
    scopes: str
    created_at: int
    revoked_at: int | None


@frozen
class Key:
    """A key, and what it may do."""

    name: str
    digest: bytes = field(repr=False)
    scopes: tuple[str, ...]
    created_at: int
    revoked_at: int | None = None


async def add(tx: Transaction, key: Key) -> None:
    """Raises `DuplicateKey` when there is one of this name, or was."""
    scopes = encode(" ".join(key.scopes))
    await tx.execute_many("access_key.add", [(encode(key.name), key.digest, scopes, key.created_at)])


async def revoke(tx: Transaction, name: str, now: int) -> Literal["revoked", "before", "unknown"]:
    """Ends a key; `before` when that was done already."""
    if await tx.execute("access_key.revoke", now, encode(name)):
        return "revoked"
    return "before" if any(key.name == name for key in await all_keys(tx)) else "unknown"


async def all_keys(tx: Transaction) -> list[Key]:
    """All that there ever were, by name."""
    rows = await tx.fetch("access_key.all", KeyRow)
    return [Key(row.name, row.digest, tuple(row.scopes.split()), row.created_at, row.revoked_at) for row in rows]

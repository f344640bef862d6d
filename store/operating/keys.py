"""Access keys of clients: the scopes of each, and its SHA-256. The text of a key is never stored.

A revoked key stays as a row: its name is in logs, and is never given to another key; and a store that once had keys
does not become open to everybody when none is left.
"""

from typing import Literal

from attrs import field, frozen

from ..ports import Transaction
from ..rows import encode

MAX_SCOPES = 8192
"""The most bytes of all scopes of a key, with a space between them."""


@frozen
class Key:
    """An access key, and what it may do."""

    name: str
    digest: bytes = field(repr=False)
    scopes: tuple[str, ...]
    created_at: int
    revoked_at: int | None = None


async def add(tx: Transaction, key: Key) -> None:
    """Adds a key. Raises `DuplicateKey` when there is or was one with this name."""
    scopes = encode(" ".join(key.scopes))
    await tx.execute_many("access_key.add", [(encode(key.name), key.digest, scopes, key.created_at)])


async def revoke(tx: Transaction, name: str, now: int) -> Literal["revoked", "before", "unknown"]:
    """Revokes a key; `before`: it was revoked already."""
    if await tx.execute("access_key.revoke", now, encode(name)):
        return "revoked"
    return "before" if any(key.name == name for key in await all_keys(tx)) else "unknown"


async def all_keys(tx: Transaction) -> list[Key]:
    """All keys that there ever were, in order of their names."""
    rows = await tx.fetch("access_key.all", tuple[str, bytes, str, int, int | None])
    return [Key(name, digest, tuple(scopes.split()), made, revoked) for name, digest, scopes, made, revoked in rows]

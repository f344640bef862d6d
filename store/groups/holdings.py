"""What clients hold: open claims, and queues of ordered topics."""

from collections.abc import Sequence

from attrs import frozen

from ..ports import Transaction
from ..records import ClaimKey
from ..rows import encode


@frozen
class Holding:
    """What a client holds of a queue, which is the topic's own or the group's retry queue."""

    client: str
    group_id: int
    queue_id: int
    claims: int
    """Open ones."""
    owner: bool = False
    """Of an ordered topic: it alone may claim from the queue."""


async def holders(tx: Transaction, after: str, limit: int) -> list[str]:
    """Names of clients that hold open claims, by name from behind `after`."""
    return await tx.fetch("claim.clients", str, encode(after), limit)


async def open_claims(tx: Transaction, clients: Sequence[str]) -> list[ClaimKey]:
    """The open claims of these clients."""
    return await tx.fetch("claim.of_clients", ClaimKey, [encode(client) for client in clients])


async def over(tx: Transaction, now: int, limit: int) -> list[tuple[ClaimKey, int]]:
    """Claims whose lease has run out, each with the end of its lease, oldest first."""
    rows = await tx.fetch("claim.over", tuple[int, int, int, int, int, int], now, limit)
    return [(ClaimKey(*key), lease_until) for *key, lease_until in rows]


async def of_clients(tx: Transaction, clients: Sequence[str]) -> list[Holding]:
    """What these clients hold."""
    names = [encode(client) for client in clients]
    claims = await tx.fetch("claim.counts_of_clients", tuple[str, int, int, int], names)
    owned = await tx.fetch("queue_owner.of_clients", tuple[str, int, int], names)
    return [*(Holding(*row) for row in claims), *(Holding(*row, 0, owner=True) for row in owned)]

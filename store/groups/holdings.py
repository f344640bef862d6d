"""What clients hold: open claims, and queues of ordered topics. For an operator's look; nothing is decided by it."""

from collections.abc import Sequence

from attrs import frozen

from ..ports import Transaction
from ..text import encode


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
    return [name.decode() for (name,) in await tx.fetch("claim.clients", encode(after), limit)]


async def of_clients(tx: Transaction, clients: Sequence[str]) -> list[Holding]:
    """What these clients hold."""
    names = [encode(client) for client in clients]
    claims = await tx.fetch("claim.held_by", names)
    owned = await tx.fetch("queue_owner.of_clients", names)
    return [
        *(Holding(client.decode(), group_id, queue_id, int(count)) for client, group_id, queue_id, count in claims),
        *(Holding(client.decode(), group_id, queue_id, 0, owner=True) for client, group_id, queue_id in owned),
    ]

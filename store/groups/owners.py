"""Owners of the queues of an ordered topic in a group: each queue belongs to one client, until it is shared out anew.

Ownership is a row with an epoch, read and changed under a lock in the same transaction that claims. A queue with an
open claim keeps its owner until the claim is settled or its lease is over. So no two clients have messages of one key.
"""

from collections.abc import Collection, Mapping, Sequence

from ..ports import Transaction
from ..records import Group
from ..rows import encode


async def share_out(
    tx: Transaction, group: Group, busy: Mapping[int, str], members: Collection[str], now: int
) -> dict[int, str]:
    """Shares a group's queues among the members; returns the client that may claim from each queue that is not busy.

    `busy` are the queues with an open claim, and the clients that hold it.
    """
    owners: dict[int, str] = {}
    epochs: dict[int, int] = {}  # they count how often a queue changed hands
    for queue_id, client, epoch in await tx.fetch("queue_owner.lock", tuple[int, str, int], group.id):
        owners[queue_id], epochs[queue_id] = client, epoch
    wished = share([queue.id for queue in group.topic.queues], owners, busy, members)
    changed = [
        (group.id, queue_id, encode(client), epochs.get(queue_id, 0) + 1, now)
        for queue_id, client in sorted(wished.items())
        if owners.get(queue_id) != client
    ]
    if changed:
        await tx.execute_many("queue_owner.put", changed)
    return {queue_id: client for queue_id, client in wished.items() if queue_id not in busy}


def share(
    queues: Sequence[int], owners: Mapping[int, str], busy: Mapping[int, str], members: Collection[str]
) -> dict[int, str]:
    """Chooses an owner for each queue: shares differ by one at most, and as few queues as possible change owners.

    A busy queue belongs to the client that holds it. If that client's share is too large, the queue changes owners when
    its claim is settled.
    """
    if not members:
        return dict(busy)
    present = {queue_id: busy.get(queue_id, owners.get(queue_id, "")) for queue_id in queues}
    held = {client: [queue_id for queue_id in queues if present[queue_id] == client] for client in members}
    ranked = sorted(members, key=lambda client: (-len(held[client]), client))  # the larger shares stay where they are
    least, more = divmod(len(queues), len(members))
    shares = {client: least + (rank < more) for rank, client in enumerate(ranked)}
    wished: dict[int, str] = {}
    for client in ranked:
        for queue_id in sorted(held[client], key=lambda queue_id: queue_id not in busy)[: shares[client]]:
            wished[queue_id] = client
    # Queues that can change owners at once go first.
    free = sorted((queue_id for queue_id in queues if queue_id not in wished), key=lambda queue_id: queue_id in busy)
    for client in reversed(ranked):
        room = shares[client] - sum(1 for owner in wished.values() if owner == client)
        for queue_id in free[:room]:
            wished[queue_id] = client
        free = free[room:]
    return wished | dict(busy)

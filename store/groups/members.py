"""Members: the clients that share the queues of a group of an ordered topic, at whichever server they ask.

Each server knows those that ask at itself. It writes them down from time to time and reads what the others have
written, so that all of them share out the same queues among the same clients.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from ..ports import Transaction
from ..rows import encode

_BATCH = 100

Member = tuple[int, str]
"""A group's id, and a client's name."""


async def see(tx: Transaction, members: Iterable[tuple[Member, int]]) -> None:
    """Notes when these were last there, Unix milliseconds."""
    rows = [(group_id, encode(client), at) for (group_id, client), at in sorted(members)]
    await tx.execute_many("member.put", rows)


async def of_groups(tx: Transaction, group_ids: Sequence[int], since: int) -> dict[int, set[str]]:
    """By group: the clients that were there after `since`."""
    found: defaultdict[int, set[str]] = defaultdict(set)
    for group_id, client in await tx.fetch("member.of_groups", tuple[int, str], group_ids, since):
        found[group_id].add(client)
    return dict(found)


async def leave(tx: Transaction, clients: Collection[str]) -> None:
    """They are gone, and share in nothing any more."""
    await tx.execute("member.leave", [encode(client) for client in sorted(clients)])


async def forget(tx: Transaction, before: int) -> int:
    """Takes away a batch of those that were not there since; returns how many."""
    past = await tx.fetch("member.past", tuple[int, str], before, _BATCH)
    for group_id, client in past:
        await tx.execute("member.forget", group_id, encode(client), before)
    return len(past)

"""Members: the clients that share the queues of a group of an ordered topic, whichever node they ask.

Each node knows the clients that ask it. It writes them down from time to time and reads those of the other nodes, so
that all nodes share out the same queues among the same clients.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from ..ports import Transaction
from ..rows import encode

_BATCH = 100

Member = tuple[int, str]
"""A group's id, and a client's name."""


async def see(tx: Transaction, members: Iterable[tuple[Member, int]]) -> None:
    """Records when these members were last seen, Unix milliseconds."""
    rows = [(group_id, encode(client), at) for (group_id, client), at in sorted(members)]
    await tx.execute_many("member.put", rows)


async def of_groups(tx: Transaction, group_ids: Sequence[int], since: int) -> dict[int, set[str]]:
    """By group: the clients that were seen after `since`."""
    found: defaultdict[int, set[str]] = defaultdict(set)
    for group_id, client in await tx.fetch("member.of_groups", tuple[int, str], group_ids, since):
        found[group_id].add(client)
    return dict(found)


async def leave(tx: Transaction, clients: Collection[str]) -> None:
    """Removes clients that are gone from all groups."""
    await tx.execute("member.leave", [encode(client) for client in sorted(clients)])


async def forget(tx: Transaction, before: int) -> int:
    """Removes a batch of members that were last seen before this time; returns how many."""
    past = await tx.fetch("member.past", tuple[int, str], before, _BATCH)
    for group_id, client in past:
        await tx.execute("member.forget", group_id, encode(client), before)
    return len(past)

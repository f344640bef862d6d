"""Finds where there may be something to clean, for many topics in few queries.

Most of very many topics have nothing to clean, nor have shards in which nothing was cancelled or rescheduled, and
trying each of them would cost a transaction. The answer may be a moment old: what one round misses, the next finds.
"""

from collections.abc import Mapping, Sequence

from attrs import frozen

from ..ports import Transaction
from ..records import Group, Topic
from .retention import floors

_KEYS = 1000
"""How many ids a statement has."""


@frozen
class Leftovers:
    """The queues, logs and groups that may have rows to be removed."""

    queues: frozenset[int]
    """Queues, retry queues included, that are not empty."""
    logs: Mapping[tuple[int, int], int]
    """By group and queue: the number at which the log of deliveries and seeks ends; 0: there is no log."""
    letters: frozenset[int]
    """Groups with dead letters."""


@frozen
class LeftShards:
    """The shards of waiting messages that may have rows to be removed."""

    cancelled: frozenset[int]
    """Shards with cancelled or suppressed messages."""
    moved: frozenset[int]
    """Shards with pointers to rescheduled messages."""


async def find_leftovers(tx: Transaction, topics: Sequence[Topic], groups: Sequence[Group]) -> Leftovers:
    """Finds what there may be to clean in these topics and these groups of theirs."""
    queues = [queue.id for topic in topics for queue in topic.queues]
    queues += [queue.id for group in groups for queue in group.retry_queues]
    filled: set[int] = set()
    for at in range(0, len(queues), _KEYS):
        begins = await floors(tx, queues[at : at + _KEYS])
        filled |= {id_ for id_, end in await tx.fetch("queue.ends", tuple[int, int], list(begins)) if begins[id_] < end}
    logs: dict[tuple[int, int], int] = {}
    letters: set[int] = set()
    for at in range(0, len(groups), _KEYS):
        some = [group.id for group in groups[at : at + _KEYS]]
        for group_id, queue_id, end, dead in await tx.fetch("cursor.leftovers", tuple[int, int, int, int], some):
            logs[group_id, queue_id] = end
            if dead:
                letters.add(group_id)
    return Leftovers(frozenset(filled), logs, frozenset(letters))


async def find_shards(tx: Transaction) -> LeftShards:
    """Finds the shards in which there may be something to clean."""
    cancelled = await tx.fetch("cancelled.shards", int)
    return LeftShards(frozenset(cancelled), frozenset(await tx.fetch("moved.shards", int)))

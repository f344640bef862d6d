"""Where there may be something to clean, of many topics in one look.

Most of very many topics have nothing, and of the shards of the wheel those where nobody cancels or moves anything. One
that is opened for nothing costs a transaction. What is told may be late
by a moment: a round that misses something finds it in the next.
"""

from collections.abc import Mapping, Sequence

from attrs import frozen

from ..ports import Transaction
from ..records import Group, Topic
from .retention import floors

_KEYS = 1000
"""Ids to a statement."""


@frozen
class Leftovers:
    """What may have rows to be removed."""

    queues: frozenset[int]
    """Queues, retry queues among them, that do not end where they begin."""
    logs: Mapping[tuple[int, int], int]
    """By group and queue: the number at which its log of deliveries and seeks ends; no log is ended at 0."""
    letters: frozenset[int]
    """Groups with dead letters."""


@frozen
class LeftShards:
    """What may have rows to be removed, of the shards of the wheel."""

    cancelled: frozenset[int]
    """Those with messages that were cancelled or suppressed."""
    moved: frozenset[int]
    """Those with pointers to messages that were rescheduled."""


async def find_leftovers(tx: Transaction, topics: Sequence[Topic], groups: Sequence[Group]) -> Leftovers:
    """What there may be to clean in these topics and these groups of theirs."""
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
    """In which shards there may be something to clean."""
    cancelled = await tx.fetch("cancelled.shards", int)
    return LeftShards(frozenset(cancelled), frozenset(await tx.fetch("moved.shards", int)))

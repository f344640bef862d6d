"""Tallies: count how many messages of a topic were scheduled, cancelled, replaced and suppressed, in a row per
shard."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from ..ports import Asked, Queries, Transaction


class Tallies(NamedTuple):
    """Topics in which nothing can be counted now, by their ids."""

    locked: AbstractSet[int] = frozenset()
    """Another transaction holds the tally; or, if the tally does not exist yet, the topic's row."""
    gone: AbstractSet[int] = frozenset()
    """The topic has been removed."""


async def lock_tallies(
    tx: Transaction, topic_ids: Iterable[int], tally_shard: int, *, before: Sequence[Asked[Any]] = ()
) -> Tallies:
    """Locks the tallies that no other transaction holds, so that their topics are not removed. The queries `before` are
    run first, in the same flight."""
    ids = sorted(topic_ids)
    if not ids:
        return Tallies()
    free = Asked("tally.free", tuple[int, int], ids, tally_shard)
    await tx.fetch_all([*before, free])
    if len(free.rows) == len(ids):
        return Tallies()
    missing = sorted(set(ids) - dict(free.rows).keys())
    locked = set(dict(await tx.fetch("tally.there", tuple[int, int], missing, tally_shard)))
    new = sorted(set(missing) - locked)
    if not new:
        return Tallies(locked)
    unlocked, named = Asked("topic.free", tuple[int, str], new), Asked("topic.names", tuple[int, str], new)
    await tx.fetch_all([unlocked, named])
    there = dict(named.rows).keys()
    return Tallies(locked | (there - dict(unlocked.rows).keys()), set(new) - there)


async def locked_tallies(tx: Transaction, topic_ids: Iterable[int], tally_shard: int) -> AbstractSet[int]:
    """The topics whose tally another transaction holds, so that nothing can be counted there now. The tallies of the
    other topics are locked from here on."""
    return (await lock_tallies(tx, topic_ids, tally_shard)).locked


async def count(
    tx: Queries,
    topic_id: int,
    tally_shard: int,
    *,
    scheduled: int = 0,
    cancelled: int = 0,
    replaced: int = 0,
    suppressed: int = 0,
) -> bool:
    """Adds to a topic's tally, in the row of this shard. Returns False if the topic has been removed with its tally."""
    counted = (scheduled, cancelled, replaced, suppressed, topic_id, tally_shard)
    if not await tx.execute("tally.count", *counted):
        if not await tx.fetch("topic.lock", int, topic_id):
            return False
        await tx.execute_many("tally.add", [(topic_id, tally_shard, 0, 0)])  # another may have added it meanwhile
        await tx.execute("tally.count", *counted)
    return True

"""Tallies: how many messages of a topic were scheduled, cancelled, replaced and suppressed. Each maker counts in rows
of its own."""

from collections.abc import Iterable, Sequence
from typing import Any

from ..ports import Asked, Queries, Transaction
from .offsets import held


async def locked_tallies(
    tx: Transaction,
    topic_ids: Iterable[int],
    maker: int,
    *,
    before: Sequence[Asked[Any]] = (),
    behind: Sequence[Asked[Any]] = (),
) -> set[int]:
    """The topics in whose tally nothing can be counted now; those of the others are locked from here on.

    With a tally that is yet to be made goes the topic's own row. What else is to be asked just `before` and `behind`
    goes along.
    """
    ids = sorted(topic_ids)
    if not ids:
        return set()
    free = Asked("tally.free", tuple[int, int], ids, maker)
    there = Asked("tally.there", tuple[int, int], ids, maker)
    await tx.fetch_all([*before, free, there, *behind])
    locked = held(free, there)
    counted = {topic_id for topic_id, _ in there.rows}
    if new := [topic_id for topic_id in ids if topic_id not in counted]:
        unlocked, named = Asked("topic.free", tuple[int, str], new), Asked("topic.names", tuple[int, str], new)
        await tx.fetch_all([unlocked, named])
        locked |= held(unlocked, named)
    return locked


async def count(
    tx: Queries,
    topic_id: int,
    maker: int,
    *,
    scheduled: int = 0,
    cancelled: int = 0,
    replaced: int = 0,
    suppressed: int = 0,
) -> bool:
    """Adds to a topic's tally under this maker's own row. False: the topic has been removed, and its tally with it."""
    counted = (scheduled, cancelled, replaced, suppressed, topic_id, maker)
    if not await tx.execute("tally.count", *counted):
        if not await tx.fetch("topic.lock", int, topic_id):
            return False
        await tx.execute_many("tally.add", [(topic_id, maker, 0, 0)])  # two may come first at once
        await tx.execute("tally.count", *counted)
    return True

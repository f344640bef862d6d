"""Erasing: removes the content of a message for good, its body and its headers, but keeps the record that it existed.

This answers a data-protection request. The body becomes empty in every place of the message, the dead letters of all
groups included. The reasons of its failed attempts are removed as well, since reasons may quote the message. Its life
stays: times, states, attempts, clients; and key, ordering key and tag, by which it is found, ordered and chosen.

An erased message is marked by its content type (see `store.erased`). The table `erased` remembers it for good: for the
lake, which is told later, and for callers who ask.

Locks: the row of `erased`, then the cursors of all groups where the message lies, under which failures are written and
letters come and go; then retries, which promotion locks without waiting. So no content that was read before is written
back afterwards.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from attrs import frozen

from .. import leases
from ..erased import content_type_of, without_reasons
from ..groups.locked_rows import CursorRow
from ..ids import places_of, shard_of
from ..ports import Transaction
from ..rows import Cancelled, ErasedRow, GroupRow, QueueRow, Return

_GROUPS = 1000
"""How many groups a statement asks about at most."""


@frozen
class Erasure:
    """The erasure of a message."""

    id: int
    erased_at: int
    """When it was erased for the first time."""
    lake: Literal["none", "pending", "erased"]
    """Whether the message is also erased in the lake, which the next run of the archive does. `none`: there is no
    lake."""
    lake_at: int | None
    known: bool
    """The store knows the message, or knew it when it was erased."""


class _Lying(NamedTuple):
    """The place of a message in the stream."""

    topic_id: int
    queue_id: int
    number: int
    content_type: str | None


class _Letter(NamedTuple):
    """A copy of a message among the dead letters."""

    group_id: int
    queue_id: int
    content_type: str | None
    history: bytes


class _Parked(NamedTuple):
    """A parked message."""

    group_id: int
    queue_id: int
    ordering_key: bytes
    message_offset: int
    history: bytes


async def topic_of(tx: Transaction, id_: int) -> str | None:
    """The name of the topic of a message that may be erased, or was; None if the store does not know the message."""
    topic_id = await _topic_id(tx, id_)
    names = await tx.fetch("topic.names", tuple[int, str], [topic_id]) if topic_id else []
    return names[0][1] if names else None


async def erase(tx: Transaction, id_: int, now: int) -> Erasure | Literal["waiting", "unknown"]:
    """Erases a message. Called again, it erases only what was added since.

    `waiting`: the message waits for its time, and has to be cancelled first. `unknown`: the store does not know it, and
    there is no lake that may have it. If there is a lake, the erasure is recorded all the same.
    """
    if await tx.fetch("delay.queues", tuple[int, int], places_of([id_])):
        return "waiting"
    topic_id = await _topic_id(tx, id_)
    has_lake = await leases.find(tx, leases.LAKE) is not None
    if topic_id is None and not has_lake:
        return "unknown"
    await tx.execute_many("erased.add", [(id_, topic_id or 0, now)])
    (row,) = await tx.fetch("erased.find", ErasedRow, [id_])
    changed = False
    if topic_id:
        changed = await _erase_copies(tx, id_, topic_id, content_type_of(row.erased_at))
    if changed and row.lake_at is not None:
        await tx.execute("erased.again", topic_id or 0, id_)
        row = row._replace(lake_at=None)
    lake: Literal["none", "pending", "erased"] = "erased" if row.lake_at is not None else "pending"
    return Erasure(id_, row.erased_at, lake if has_lake else "none", row.lake_at, bool(row.topic_id))


async def _topic_id(tx: Transaction, id_: int) -> int | None:
    """The message's topic. Reads the tables in the order in which a message moves, so that it is not missed."""
    cancelled = await tx.fetch("cancelled.find", Cancelled, [id_])
    if cancelled:
        return cancelled[0].topic_id
    lying = await tx.fetch("message.kept", _Lying, [id_])
    if lying:
        return lying[0].topic_id
    groups = sorted(group_id for group_id, *_ in await tx.fetch("consumer_group.names", tuple[int, int, str]))
    if letters := await _letters(tx, id_, groups):
        topics = dict(await tx.fetch("consumer_group.topics_of", tuple[int, int], [letters[0].group_id]))
        return topics.get(letters[0].group_id)
    return next((row.topic_id for row in await tx.fetch("erased.find", ErasedRow, [id_]) if row.topic_id), None)


async def _letters(tx: Transaction, id_: int, group_ids: Sequence[int]) -> list[_Letter]:
    """The message's copies among the dead letters of these groups; they outlive it in the stream."""
    found: list[_Letter] = []
    for at in range(0, len(group_ids), _GROUPS):
        found += await tx.fetch("dead.kept", _Letter, [id_], list(group_ids[at : at + _GROUPS]))
    return found


async def _erase_copies(tx: Transaction, id_: int, topic_id: int, mark: str) -> bool:
    """Erases all copies of a message; returns whether there was something to erase."""
    group_ids = sorted(group.id for group in await tx.fetch("consumer_group.of_topics", GroupRow, [topic_id]))
    queues = await tx.fetch("queue.of_topics", QueueRow, [topic_id])
    numbers = {lying.number for lying in await tx.fetch("message.kept", _Lying, [id_])}
    its = {letter.queue_id for letter in await _letters(tx, id_, group_ids)}
    numbers |= {queue.number for queue in queues if queue.id in its}
    for group_id in group_ids:
        of_group = sorted(q.id for q in queues if q.number in numbers and q.group_id in (0, group_id))
        if of_group:
            await tx.fetch("cursor.lock", CursorRow, group_id, of_group)
    changed = await _erase_content(tx, id_, group_ids, mark)
    return await _forget_reasons(tx, id_) or changed


async def _erase_content(tx: Transaction, id_: int, group_ids: Sequence[int], mark: str) -> bool:
    changed = False
    for queue_id, offset, _ in await tx.fetch("message.place", tuple[int, int, int], id_):
        lying = await tx.fetch("message.kept", _Lying, [id_])
        if any(one.content_type != mark for one in lying):
            changed = True
            await tx.execute("message.erase", mark.encode(), queue_id, offset)
    for letter in await _letters(tx, id_, group_ids):
        history = without_reasons(letter.history)
        if letter.content_type != mark or history != letter.history:
            changed = True
            await tx.execute("dead.erase", mark.encode(), history, letter.group_id, id_)
    return changed


async def _forget_reasons(tx: Transaction, id_: int) -> bool:
    """Removes the reasons of its failed attempts in all groups. Retries first, since promotion makes returns of
    them."""
    resting = await tx.fetch("retry.of_messages", tuple[int, int, int, int, bytes], [id_])
    changed = await _rewrite(tx, "retry.rewrite", ((h, (shard_of(i), i)) for _, _, i, _, h in resting))
    back = await tx.fetch("redelivery.of_messages", Return, [id_])
    changed |= await _rewrite(tx, "redelivery.rewrite", ((one.history, (one.queue_id, one.offset)) for one in back))
    parked = await tx.fetch("parked.kept", _Parked, [id_])
    return changed | await _rewrite(tx, "parked.rewrite", ((one.history, one[:-1]) for one in parked))


async def _rewrite(tx: Transaction, query: str, rows: Iterable[tuple[bytes, tuple[int | bytes, ...]]]) -> bool:
    changed = False
    for history, key in rows:
        if (bare := without_reasons(history)) != history:
            changed = True
            await tx.execute(query, bare, *key)
    return changed

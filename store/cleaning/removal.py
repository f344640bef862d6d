"""Removes topics and groups: they are gone at once for everybody; all rows that belong to them go later, in batches.

One transaction removes the rows by which others know them: the topic, the group, their cursors, queues and tallies. For
each of these it adds a tombstone to `removed`. A transaction that writes for a group locks its cursors, one that writes
to the stream locks the queue, and one that schedules counts in the tally. So each of them is either committed before
the removal, or finds nothing and raises `TopicGone` or `GroupGone`. The name is free from the commit on; ids are never
used again.

Rows with those ids are removed afterwards, tombstone by tombstone; a tombstone goes when none of its rows is left. A
crash in between leaves tombstones, and the next node goes on with them. Tombstones of topics and queues stay for
`GRACE`, and then their rows are removed once more: an outbox, a sequencer elsewhere and a running cleaner lock none of
the rows above. If an outbox commits even later, promotion finds its messages and removes them, since they have no
queue.

Locks: topic, groups, tally, cursors, queues; then the removed rows. The later batches remove rows that nobody reads any
more, and skip rows that a user's own transaction holds.
"""

from collections.abc import Awaitable, Callable, Sequence

from attrs import frozen

from ..errors import Unsettled
from ..groups.locked_rows import ClaimRow, CursorRow
from ..ids import SHARDS, SHARDS_OF_DELAY
from ..ports import Transaction
from ..records import Group, Outcome, Topic
from ..rows import Aged, AgedMessage, CursorState, GroupRow, OpenClaim, QueueRow, Resting, Scanned
from ..stream.sealing import last_end
from ..timers import forecast
from ..timers.timers import lock_waiting, remove_waiting
from .retention import remove_labels

GRACE = 60_000
"""Milliseconds after which a removed topic is cleared once more: nodes remember it for ten seconds at most."""

_SCHEDULES = 20
"""How many schedules one transaction removes, with the records of their fire times."""
_EVER = 1 << 62

Step = tuple[int, int, int]
"""Where the clearing of a tombstone goes on: the step, the shard, and an id, offset or number in that."""
BEGIN: Step = (0, 0, 0)


@frozen
class Tombstone:
    """Stands for a removed topic (no group, no queue), queue (no group), group (no queue), or cursor of a group."""

    topic_id: int
    group_id: int
    queue_id: int
    removed_at: int


@frozen
class Cleared:
    """The result of one batch of clearing."""

    rows: int
    next: Step | None
    """None: the tombstone is cleared."""
    held: bool = False
    """Rows were left because a user's own transaction holds them."""


async def remove_group(tx: Transaction, group: Group, now: int) -> bool:
    """Removes the group; returns False when there was none."""
    topic_id, group_id = group.topic.id, group.id
    await tx.fetch("topic.lock", int, topic_id)
    if not await tx.execute("consumer_group.remove", [group_id]):
        return await _removed_by_us(tx, (topic_id, group_id, 0), now)
    await tx.execute("push.remove", [group_id])
    queues = await tx.fetch("queue.of_topics", QueueRow, [topic_id])
    backs = sorted(queue.id for queue in queues if queue.group_id == group_id)
    held = await tx.fetch(
        "cursor.lock", CursorRow, group_id, sorted(queue.id for queue in queues if queue.group_id in (0, group_id))
    )
    await tx.execute("cursor.remove", [group_id])
    await _remove_queues(tx, backs)
    rows = [(topic_id, group_id, 0, now)]
    rows += [(topic_id, group_id, cursor.queue_id, now) for cursor in held]
    rows += [(topic_id, 0, queue_id, now) for queue_id in backs]
    await tx.execute_many("removed.add", rows)
    return True


async def remove_topic(tx: Transaction, topic: Topic, now: int, *, force: bool) -> bool:
    """Removes the topic and its groups; returns False when there was none.

    Raises `Unsettled`, unless by `force`, when messages of it wait or are unsettled.
    """
    if not await tx.execute("topic.remove", topic.id):
        return await _removed_by_us(tx, (topic.id, 0, 0), now)
    await tx.fetch("tally.lock", tuple[int, int], topic.id)
    groups = await tx.fetch("consumer_group.of_topics", GroupRow, [topic.id])
    queues = await tx.fetch("queue.of_topics", QueueRow, [topic.id])
    rows = [(topic.id, 0, 0, now), *((topic.id, 0, queue.id, now) for queue in queues)]
    for group_id in sorted(group.id for group in groups):
        its = sorted(queue.id for queue in queues if queue.group_id in (0, group_id))
        cursors = await tx.fetch("cursor.lock", CursorRow, group_id, its)
        rows += [(topic.id, group_id, cursor.queue_id, now) for cursor in cursors]
        rows.append((topic.id, group_id, 0, now))
    ids = sorted(queue.id for queue in queues)
    await tx.fetch("queue.lock", tuple[int, int, int], ids)
    if not force:
        await refuse_unsettled(tx, topic)
    if groups:
        group_ids = sorted(group.id for group in groups)
        await tx.execute("consumer_group.remove", group_ids)
        await tx.execute("push.remove", group_ids)
        await tx.execute("cursor.remove", group_ids)
    await _remove_queues(tx, ids)
    await tx.execute("tally.remove", topic.id)
    await tx.execute_many("removed.add", rows)
    return True


async def _removed_by_us(tx: Transaction, place: tuple[int, int, int], now: int) -> bool:
    """Whether an earlier run of the same removal was committed, and only its answer was lost."""
    return now in await tx.fetch("removed.find", int, *place)


async def _remove_queues(tx: Transaction, ids: Sequence[int]) -> None:
    if ids:
        await tx.fetch("queue.lock", tuple[int, int, int], ids)
        await tx.execute("queue.remove", ids)


async def refuse_unsettled(tx: Transaction, topic: Topic) -> None:
    """Raises `Unsettled` when messages of a topic wait or are unsettled, by its counters."""
    facts: list[str] = []
    if waiting := await _waiting(tx, topic.id):
        facts.append(f"{waiting} that wait for their time")
    if topic.kind == "cluster":  # clients of a broadcast topic settle nothing
        facts += await _unsettled(tx, topic)
    _refuse(topic, facts)


def refuse_waiting(topic: Topic, waiting: int) -> None:
    """Raises `Unsettled` if `waiting` is not 0."""
    _refuse(topic, [f"{waiting} that wait for their time"] if waiting else [])


def _refuse(topic: Topic, facts: Sequence[str]) -> None:
    if facts:
        raise Unsettled(
            f"topic {topic.name!r} still has messages: {', and '.join(facts)}; settle or cancel them first,"
            " or force the removal, and they are dropped"
        )


async def _waiting(tx: Transaction, topic_id: int) -> int:
    scheduled = streamed = 0
    for _, made, *gone in await tx.fetch("tally.of_topics", tuple[int, int, int, int, int], [topic_id]):
        scheduled += made - sum(gone)
    for _, there, straight in await tx.fetch("queue.streamed", tuple[int, int, int], [topic_id]):
        streamed += there - straight
    return max(0, scheduled - streamed)


async def _unsettled(tx: Transaction, topic: Topic) -> list[str]:
    queues = await tx.fetch("queue.of_topics", QueueRow, [topic.id])
    ends = dict(await tx.fetch("queue.ends", tuple[int, int], [queue.id for queue in queues]))
    own = [queue.id for queue in queues if queue.group_id == 0]
    if topic.sequencer != "store":  # messages that are committed but not sealed yet count, too
        for queue_id in own:
            ends[queue_id] = max(ends[queue_id], await last_end(tx, queue_id=queue_id))
    groups = await tx.fetch("consumer_group.of_topics", GroupRow, [topic.id])
    if not groups:
        floors = dict(await tx.fetch("cleaned.find", tuple[int, int], own))
        unread = sum(ends[queue_id] - floors.get(queue_id, 0) for queue_id in own)
        return [f"{unread} that no group has read"] if unread else []
    each: list[tuple[int, str]] = []
    for group in groups:
        cursors = await tx.fetch("cursor.of_group", CursorState, group.id)
        unclaimed = sum(ends[cursor.queue_id] - cursor.position for cursor in cursors)
        claimed = sum(outcome.count(Outcome.OPEN) for outcome in await tx.fetch("claim.outcomes", bytes, group.id))
        retrying = sum(many for _, many in await tx.fetch("retry.of_group", tuple[int, int], group.id))
        (parked,) = await tx.fetch("parked.count", int, group.id)
        each.append((unclaimed + claimed + retrying + parked, group.name))
    total = sum(many for many, _ in each)
    told = ", ".join(f"{name}: {many}" for many, name in sorted(each, reverse=True)[:5] if many)
    return [f"{total} unsettled ({told})"] if total else []


async def count_waiting(tx: Transaction, topic_id: int, shard: int, after: int, limit: int) -> tuple[int, int | None]:
    """How many messages of a topic are in a page of `delay`, and where the next page begins. No counter has the
    messages of an outbox before they are promoted."""
    page = await tx.fetch("delay.scan", Scanned, shard, after, limit)
    return sum(1 for row in page if row.topic_id == topic_id), page[-1].id if len(page) == limit else None


async def tombstones(tx: Transaction) -> list[Tombstone]:
    """All tombstones: of everything of which rows may be left."""
    return await tx.fetch("removed.all", Tombstone)


async def clear(tx: Transaction, stone: Tombstone, place: Step, limit: int) -> Cleared:
    """Removes one batch of the rows that are left of a tombstone."""
    steps = _steps(stone)
    step, shard, after = place
    rows, go_on, held = await steps[step](tx, stone, shard, after, limit)
    if go_on is not None:
        return Cleared(rows, (step, *go_on), held)
    return Cleared(rows, (step + 1, 0, 0) if step + 1 < len(steps) else None, held)


async def drop_tombstone(tx: Transaction, stone: Tombstone) -> None:
    """Removes a tombstone of which no rows are left."""
    await tx.execute("removed.remove", stone.topic_id, stone.group_id, stone.queue_id)


_Went = tuple[int, tuple[int, int] | None, bool]
"""Rows removed; the shard and the place to go on at, or None; whether rows were left because they are locked."""
_Step = Callable[[Transaction, Tombstone, int, int, int], Awaitable[_Went]]


def _steps(stone: Tombstone) -> tuple[_Step, ...]:
    if stone.group_id and stone.queue_id:
        deliveries = _aged("delivery.oldest", Aged, "delivery.expunge")
        seeks = _aged("seek.oldest", Aged, "seek.expunge")
        return (_claims, deliveries, seeks, _chains, _parked, _marks_of_cursor)
    if stone.group_id:
        return (_retries, _dead, _readers, _owners)
    if stone.queue_id:
        messages = _aged("message.oldest", AgedMessage, "message.remove")
        return (messages, _aged("redelivery.oldest", Aged, "redelivery.expunge"), _marks_of_queue)
    return (_schedules, _delays, _cancelled, _labels, _timers, _requests)


def _on(page: Sequence[object], limit: int, shard: int, after: int) -> tuple[int, int] | None:
    return (shard, after) if len(page) == limit else None


async def _claims(tx: Transaction, stone: Tombstone, _shard: int, after: int, limit: int) -> _Went:
    of = (stone.group_id, stone.queue_id)
    page = await tx.fetch("claim.page", OpenClaim, *of, after, limit)
    if not page:
        return 0, None, False
    locked = [row.number for row in await tx.fetch("claim.lock", ClaimRow, *of, [row.number for row in page])]
    if locked:
        await tx.execute("claim.remove", *of, locked)
    return len(locked), _on(page, limit, 0, page[-1].number + 1), len(locked) < len(page)


def _aged(oldest: str, row: type[Aged] | type[AgedMessage], remove: str) -> _Step:
    """A step that removes rows in the order of their numbers or offsets, from the oldest on."""

    async def step(tx: Transaction, stone: Tombstone, _shard: int, after: int, limit: int) -> _Went:
        of = (stone.group_id, stone.queue_id) if stone.group_id else (stone.queue_id,)
        page = await tx.fetch(oldest, row, *of, after, limit)
        if not page:
            return 0, None, False
        end = page[-1].place + 1
        return await tx.execute(remove, *of, page[0].place, end), _on(page, limit, 0, end), False

    return step


async def _chains(tx: Transaction, stone: Tombstone, _shard: int, _after: int, limit: int) -> _Went:
    of = (stone.group_id, stone.queue_id)
    page = await tx.fetch("chain.some", bytes, *of, limit)
    for key in page:
        await tx.later("chain.remove", *of, key)
    return len(page), _on(page, limit, 0, 0), False


async def _parked(tx: Transaction, stone: Tombstone, _shard: int, _after: int, limit: int) -> _Went:
    of = (stone.group_id, stone.queue_id)
    page = await tx.fetch("parked.some", tuple[bytes, int], *of, limit)
    for key, offset in dict(page).items():
        await tx.later("parked.remove", *of, key, offset)
    return len(page), _on(page, limit, 0, 0), False


async def _marks_of_cursor(tx: Transaction, stone: Tombstone, _shard: int, _after: int, _limit: int) -> _Went:
    await tx.execute("archived.forget", stone.queue_id, stone.group_id)
    await tx.execute("replay.remove", stone.group_id, stone.queue_id)
    return 0, None, False


async def _retries(tx: Transaction, stone: Tombstone, _shard: int, _after: int, limit: int) -> _Went:
    page = await tx.fetch("retry.some", tuple[int, int], stone.group_id, limit)
    if not page:
        return 0, None, False
    locked = [row.id for row in await tx.fetch("retry.lock", Resting, [id_ for id_, _ in page])]
    if locked:
        await tx.execute("retry.remove", locked)
    held = len(locked) < len(page)
    return len(locked), None if held else _on(page, limit, 0, 0), held


async def _dead(tx: Transaction, stone: Tombstone, _shard: int, _after: int, limit: int) -> _Went:
    page = await tx.fetch("dead.oldest", tuple[int, int, int], stone.group_id, _EVER, limit)
    if not page:
        return 0, None, False
    rows = await tx.execute("dead.remove_all", stone.group_id, sorted(id_ for id_, *_ in page))
    return rows, _on(page, limit, 0, 0), False


async def _readers(tx: Transaction, stone: Tombstone, _shard: int, _after: int, limit: int) -> _Went:
    page = await tx.fetch("reader.silent", tuple[bytes, int, int], stone.group_id, _EVER, limit)
    if not page:
        return 0, None, False
    rows = await tx.execute("reader.expunge", stone.group_id, sorted({client for client, *_ in page}), _EVER)
    return rows, _on(page, limit, 0, 0), False


async def _owners(tx: Transaction, stone: Tombstone, _shard: int, _after: int, _limit: int) -> _Went:
    return await tx.execute("queue_owner.forget", stone.group_id), None, False  # one for each queue at most


async def _marks_of_queue(tx: Transaction, stone: Tombstone, _shard: int, _after: int, _limit: int) -> _Went:
    await tx.execute("cleaned.remove", stone.queue_id)
    await tx.execute("archived.remove", stone.queue_id)
    return 0, None, False


async def _delays(tx: Transaction, stone: Tombstone, shard: int, after: int, limit: int) -> _Went:
    """Reads a page of a shard with the messages of all topics: there is no index by topic, since nothing else needs
    one."""
    page = await tx.fetch("delay.scan", Scanned, shard, after, limit)
    ours = [row.id for row in page if row.topic_id == stone.topic_id]
    locked = await lock_waiting(tx, ours)
    if locked:
        await remove_waiting(tx, locked)
        await forecast.tell(tx, 0, gone=[(row.topic_id, row.due) for row in locked])
    return len(locked), _next_shard(page, limit, shard, SHARDS_OF_DELAY), len(locked) < len(ours)


async def _cancelled(tx: Transaction, stone: Tombstone, shard: int, after: int, limit: int) -> _Went:
    page = await tx.fetch("cancelled.scan", Scanned, shard, after, limit)
    ours = [row.id for row in page if row.topic_id == stone.topic_id]
    if ours:
        await tx.execute("cancelled.expunge", ours)
    return len(ours), _next_shard(page, limit, shard), False


def _next_shard(page: Sequence[Scanned], limit: int, shard: int, shards: int = SHARDS) -> tuple[int, int] | None:
    if len(page) == limit:
        return shard, page[-1].id
    return (shard + 1, 0) if shard + 1 < shards else None


async def _labels(tx: Transaction, stone: Tombstone, _shard: int, _after: int, limit: int) -> _Went:
    page = await tx.fetch("label.some", tuple[int, bytes, int], stone.topic_id, limit)
    await remove_labels(tx, page)
    return len(page), _on(page, limit, 0, 0), False


async def _schedules(tx: Transaction, stone: Tombstone, _shard: int, _after: int, limit: int) -> _Went:
    page = await tx.fetch("schedule.of_topic", tuple[int, str], stone.topic_id, min(limit, _SCHEDULES))
    for id_, _ in page:
        await tx.execute("schedule.remove", id_)
        await tx.execute("fire.remove_all", id_)
    return len(page), (0, 0) if page else None, False


async def _timers(tx: Transaction, stone: Tombstone, _shard: int, _after: int, limit: int) -> _Went:
    page = await tx.fetch("timer.some", tuple[bytes, int], stone.topic_id, limit)
    keys = [(stone.topic_id, key) for key, _ in page]
    if keys:
        await tx.execute("timer.remove", keys)
    return len(page), _on(page, limit, 0, 0), False


async def _requests(tx: Transaction, stone: Tombstone, _shard: int, _after: int, limit: int) -> _Went:
    page = await tx.fetch("idempotency.some", bytes, stone.topic_id, limit)
    if page:
        await tx.execute("idempotency.remove", stone.topic_id, page, _EVER)
    return len(page), _on(page, limit, 0, 0), False

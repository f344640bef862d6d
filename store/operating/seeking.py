"""Seek: an operator moves a group to another position, in one transaction.

The claims of the moved queues and of their retry queues are closed first; a client that acks one of them afterwards is
told that its lease is lost. Open messages of a claim of the topic's own queue are left to the new position. Those of a
claim of a retry queue go back onto the ladder, uncounted and due at once, since a seek does not bring them again.
Messages that rest on the ladder, and dead letters, stay where they are.

For a seek in all queues of a topic, the queues are read here, under the topic's lock: another node may have added some
that the caller does not know.

Locks: claims by key, the topic, then cursors. Claims that were made before the last cursor was locked are locked at the
end, when no more can come. A turn that is settling one of them may deadlock with the seek; then one of the two runs
again.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

from attrs import frozen

from ..catalogue import as_it_is, queues_now
from ..errors import GroupGone
from ..groups.chains import Chains
from ..groups.locked_rows import ClaimRow, CursorRow
from ..ports import Transaction, Value
from ..records import ClaimKey, Group, Outcome, Queue
from ..rows import Source
from ..stream.positions import Position, offset_of
from .redriving import set_retries


@frozen
class Sought:
    """The result of a seek."""

    queues: tuple[tuple[int, int], ...]
    """(number, offset) of each queue that was moved."""
    closed: tuple[ClaimKey, ...] = ()
    timers: tuple[tuple[int, int], ...] = ()
    """(due, entry) of the retries that were put back onto the ladder."""
    acked: int = 0
    """How many messages of those claims users' own transactions had acked, counted now."""


async def seek(
    tx: Transaction,
    group: Group,
    queues: Sequence[Queue] | None,
    position: Position,
    now: int,
    make_id: Callable[[int], int],
) -> Sought:
    """Moves the group in these queues of its topic; None: in all that it has now. `make_id` makes the id of a retry
    from its due time. Raises `GroupGone` and `TopicGone`."""
    known = group.topic.queues if queues is None else queues
    places = sorted(id_ for queue in known for id_ in (queue.id, group.retry_queue_of[queue.id].id))
    await tx.fetch("claim.lock_all", ClaimRow, group.id, places)
    if queues is None:
        group = await as_it_is(tx, group)
        queues = group.topic.queues
    targets = {queue.id: await offset_of(tx, queue.id, position) for queue in queues}
    backs = {group.retry_queue_of[queue.id].id for queue in queues}
    places = sorted([*targets, *backs])
    cursors = {row.queue_id: row for row in await tx.fetch("cursor.lock", CursorRow, group.id, places)}
    if not cursors:
        raise GroupGone("the group has been removed meanwhile")
    held = await tx.fetch("claim.lock_all", ClaimRow, group.id, places)
    timers = await _back(tx, group, [claim for claim in held if claim.queue_id in backs], now, make_id)
    released, acked = Counter[int](), Counter[int]()
    through: dict[int, list[int]] = defaultdict(list)
    for claim in held:
        for place, outcome in enumerate(claim.outcome):
            if outcome == Outcome.ACKED_OUTSIDE:
                claim.outcome[place] = Outcome.ACKED
                acked[claim.queue_id] += 1
                through[claim.queue_id].append(claim.first + place)
            if outcome == Outcome.OPEN:
                claim.settle(place, Outcome.RELEASED, now)
                released[claim.queue_id] += 1
    await _close(tx, group, held, cursors, now)
    for queue_id in places:
        cursor, out = cursors[queue_id], released[queue_id]
        target = targets.get(queue_id, cursor.position)
        if queue_id in targets:
            number = cursor.take_delivery_number()
            entry = (group.id, queue_id, number, now, cursor.position, target, out)
            await tx.execute_many("seek.add", [entry])
        sought, retried = (target - cursor.position + out, 0) if queue_id in targets else (0, out)
        moved = (target, sought, retried, acked[queue_id], cursor.next_delivery)
        await tx.execute("cursor.seek", *moved, group.id, queue_id)
    if group.topic.ordered:
        await _let_through(tx, group, {queue_id: through[queue_id] for queue_id in backs if through[queue_id]}, now)
    closed = [ClaimKey(group.id, claim.queue_id, claim.number, claim.first, claim.token) for claim in held]
    moved_to = tuple((queue.number, targets[queue.id]) for queue in queues)
    return Sought(moved_to, tuple(closed), timers, acked.total())


async def targets(
    tx: Transaction, group: Group, queues: Sequence[Queue] | None, position: Position
) -> list[tuple[int, int]]:
    """(number, offset) of each of these queues: where a seek would move the group. Raises `TopicGone`."""
    some = await queues_now(tx, group.topic) if queues is None else queues
    return [(queue.number, await offset_of(tx, queue.id, position)) for queue in some]


async def _back(
    tx: Transaction, group: Group, held: Sequence[ClaimRow], now: int, make_id: Callable[[int], int]
) -> tuple[tuple[int, int], ...]:
    """Puts open messages of claims of retry queues back onto the ladder: due now, with the attempt that they had."""
    offsets: dict[int, list[int]] = defaultdict(list)
    for claim in held:
        offsets[claim.queue_id] += [claim.first + i for i, o in enumerate(claim.outcome) if o == Outcome.OPEN]
    places: list[Sequence[Value]] = []
    for queue_id, some in offsets.items():
        sources = await tx.fetch("redelivery.sources", Source, queue_id, some) if some else []
        places += [
            (queue_id, one.message_queue_id, one.message_offset, one.message_id, one.attempt, one.history)
            for one in sources
        ]
    return await set_retries(tx, group, places, now, make_id)


async def _let_through(tx: Transaction, group: Group, acked: Mapping[int, Sequence[int]], now: int) -> None:
    """Ordered topics: takes messages of retry queues that users' own transactions have acked out of their chains."""
    chains = Chains(group, now)
    for own, back in group.retry_queue_of.items():
        if back.id in acked:
            sources = await tx.fetch("redelivery.sources", Source, back.id, acked[back.id])
            await chains.forget(tx, own, {source.message_offset for source in sources})
    await chains.write(tx)


async def _close(
    tx: Transaction, group: Group, held: Sequence[ClaimRow], cursors: Mapping[int, CursorRow], now: int
) -> None:
    log: list[Sequence[Value]] = []
    numbers: dict[int, list[int]] = defaultdict(list)
    for claim in held:
        number = cursors[claim.queue_id].take_delivery_number()
        log.append(claim.log_row(group.id, number, now))
        numbers[claim.queue_id].append(claim.number)
    if log:
        await tx.execute_many("delivery.add", log)
    for queue_id, some in numbers.items():
        await tx.execute("claim.remove", group.id, queue_id, some)

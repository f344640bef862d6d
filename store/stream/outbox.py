"""What a user's own transaction does to the store: publish, cancel, ack, beside the user's own rows.

Such a transaction may stay open for an hour, and at any isolation level, so what it locks is counted on one hand: the
rows it inserts into `delay`, `label`, `cancelled` and `outbox_cancel`, the row of `delay` (with its `moved`) that it
cancels, the claim that it acks. Never a queue, a cursor or a tally. Offsets are drawn at promotion, and whoever takes
what it wrote further counts it: promotion, a cancel, the next turn of the group.

A row that may be missing is never looked for with a locking read: at REPEATABLE READ, the default of MySQL, that locks
the gap where it is not, and everybody who wants to insert there waits. `lock_or_add` inserts and gives way instead.

Like all of the store these are functions that await nothing but their transaction, so that a plain cursor can drive
them as well as an asynchronous one.
"""

import random
from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from attrs import frozen

from ..catalogue import find_topics
from ..content import Attributes, columns
from ..errors import DuplicateKey, StoreError
from ..expiry import is_past
from ..ids import MAX_MS, SHARDS, IdMaker, apart, due_of, places_of, random_nonce, shard_of
from ..ports import Queries, Value
from ..records import ClaimKey, Outcome, Queue, Topic, Verdict
from ..rows import Cancelled, Return, Waiting, encode
from ..timers import forecast
from .placing import named_queue, queue_of_key, shard_of_order

_LATEST = MAX_MS - 2000
_KEY_TRIES = 6
_ROWS, _BYTES = 500, 2 << 20
"""Of one INSERT."""


class OutboxTransaction(Queries, Protocol):
    """A transaction of the user's."""

    async def now(self) -> int:
        """The database's clock at this moment, Unix milliseconds."""
        ...


class TopicMissing(StoreError):
    """There is no such topic, as far as the transaction sees. Making one would lock what others need."""


class TooFar(StoreError):
    """The time is further ahead than a message may wait."""


class Expired(StoreError):
    """It would be past its time before it could be handed out."""


class Entry(Attributes, frozen=True, kw_only=True):
    """A message to be published, checked."""

    body: bytes
    delay: int = 0
    """Milliseconds from now."""
    deliver_at: int | None = None
    queue: int | None = None


@frozen
class Accepted:
    """A message that is published when the user's transaction is committed."""

    id: int
    deliver_at: int
    waits: bool
    """It was not due when it was written."""


async def publish(
    tx: OutboxTransaction, ids: IdMaker, topic_name: str, entries: Sequence[Entry], max_delay: int
) -> list[Accepted]:
    """Writes the messages into `delay`, those that are due as well: they are found there once this is committed.

    Raises `TopicMissing`, `WrongQueue`, `TooFar` and `Expired` before anything is written.
    """
    topic = await named_topic(tx, topic_name)
    now = await tx.now()
    times = [deliver_at(entry, now, max_delay) for entry in entries]
    queues = [queue_for(topic, entry) for entry in entries]
    accepted: list[Accepted] = []
    for begin, end in _pieces(entries):
        piece = list(zip(entries[begin:end], queues[begin:end], times[begin:end], strict=True))
        made = await add(tx, ids, topic, piece, now)
        accepted += [Accepted(id_, at, at > now) for (_, _, at), id_ in zip(piece, made, strict=True)]
    return accepted


async def named_topic(tx: Queries, name: str) -> Topic:
    """Raises `TopicMissing`."""
    topics = await find_topics(tx, [name])
    if not topics:
        raise TopicMissing(f"there is no topic {name!r}")
    return topics[0]


def deliver_at(entry: Entry, now: int, max_delay: int) -> int:
    """When it is to be delivered, Unix milliseconds. Raises `TooFar` and `Expired`."""
    at = now + entry.delay if entry.deliver_at is None else entry.deliver_at
    if at > min(now + max_delay, _LATEST):
        raise TooFar("it is further ahead than a message may wait")
    if is_past(entry.expires_at, max(at, now)):
        raise Expired("it is past, or not after the time it is to be delivered")
    return at


def queue_for(topic: Topic, entry: Entry) -> Queue:
    """Where it goes. Raises `WrongQueue`."""
    if entry.queue is not None:
        return named_queue(topic, entry.queue, entry.ordering_key)
    if entry.ordering_key is not None:
        return queue_of_key(topic, entry.ordering_key)
    return random.choice(topic.queues)  # noqa: S311  # it spreads messages, it guards nothing


def _pieces(entries: Sequence[Entry]) -> list[tuple[int, int]]:
    """Stretches of the entries that fit into one INSERT: it is run again as a whole when an id was taken."""
    pieces: list[tuple[int, int]] = []
    begin = weight = 0
    for index, entry in enumerate(entries):
        size = len(entry.body) + 200 + len(entry.headers or b"")
        if index > begin and (index - begin == _ROWS or weight + size > _BYTES):
            pieces.append((begin, index))
            begin, weight = index, 0
        weight += size
    return [*pieces, (begin, len(entries))] if entries else []


async def add(
    tx: Queries, ids: IdMaker, topic: Topic, piece: Sequence[tuple[Entry, Queue, int]], now: int
) -> list[int]:
    """Writes messages and their labels; their ids.

    A duplicate key rolls back the statement and not the user's transaction: new ids, another try.
    """
    for tried in range(_KEY_TRIES):
        spread = 0 if topic.ordered else min(4**tried - 1, 1000)
        if tried:
            ids.anew()
        made = [_id(ids, topic, entry, queue, max(at, now), spread) for entry, queue, at in piece]
        if await _taken(tx, made):
            continue
        rows = [_row(topic, *one, id_, now) for one, id_ in zip(piece, made, strict=True)]
        try:
            await tx.execute_many("delay.add_uncounted", rows)
        except DuplicateKey:
            continue
        await _foretell(tx, forecast.changes(now, [(topic.id, due_of(id_)) for id_ in made]))
        labels = [(topic.id, encode(entry.key), id_) for (entry, *_), id_ in zip(piece, made, strict=True) if entry.key]
        if labels:
            await tx.execute_many("label.add", labels)
        return made
    raise DuplicateKey("no free id was found for a message; try again")


def _id(ids: IdMaker, topic: Topic, entry: Entry, queue: Queue, due: int, spread: int) -> int:
    shard = shard_of_order(topic.id, entry.ordering_key, queue.id, ordered=topic.ordered)
    return ids.make(due, shard=shard, spread=spread)


async def _taken(tx: Queries, ids: Sequence[int]) -> bool:
    """Whether a message has or had one of these ids.

    It is asked before, although the key would tell: a duplicate key leaves a lock on the other's row, and its message
    would wait for this transaction. (At REPEATABLE READ what left since the transaction began is not seen. That takes
    another outbox's message of the very same number that was rescheduled or cancelled meanwhile.)
    """
    if await tx.fetch("delay.queues", tuple[int, int], ids):
        return True
    return bool(await tx.fetch("delay.used", tuple[int, int], apart(ids), ids, ids))


def _row(topic: Topic, entry: Entry, queue: Queue, at: int, id_: int, now: int) -> Sequence[Value]:
    place = (shard_of(id_), id_, due_of(id_), random_nonce(), topic.id, queue.id)
    return (*place, *columns(entry), entry.body, now, at, 1)


async def cancel(tx: OutboxTransaction, ids: Sequence[int]) -> list[Verdict]:
    """Cancels what waits, when the user's transaction is committed; the verdicts are as true as those of HTTP."""
    verdicts: dict[int, Verdict] = {}
    for id_ in sorted(set(ids), key=lambda i: (shard_of(i), i)):  # the order of locks
        verdicts[id_] = await _cancel(tx, id_)
    return [verdicts[id_] for id_ in ids]


async def _cancel(tx: OutboxTransaction, id_: int) -> Verdict:
    shard = shard_of(id_)
    # What is read plainly may be of the time when the transaction began; a row that is locked is of now.
    seen = bool(await tx.fetch("delay.seen", tuple[int, int, int], places_of([id_])))
    if not seen and (elsewhere := await _elsewhere(tx, id_)) is not None:
        return elsewhere
    now = await tx.now()
    row = await lock_waiting(tx, id_)
    if row is not None:
        await remove_waiting(tx, row)
        times = (row.accepted_at, row.deliver_at, now)
        await tx.execute_many("cancelled.add", [(shard, id_, row.nonce, row.topic_id, row.key, *times)])
        await tx.execute_many("outbox_cancel.add", [(shard, id_, row.topic_id, row.uncounted)])
        return Verdict("cancelled", topic=row.topic_id, due_before=row.due)
    if (elsewhere := await _elsewhere(tx, id_)) is not None:
        return elsewhere
    if not seen:
        return Verdict("not_found")
    # It has left since this transaction began, which does not see where to; a row put in its place meets the other.
    try:
        await tx.execute_many("cancelled.add", [(shard, id_, 0, 0, None, 0, 0, now)])
    except DuplicateKey:
        return Verdict("cancelled", fresh=False)
    await tx.execute("cancelled.remove", shard, id_)
    return Verdict("too_late")


async def lock_waiting(tx: Queries, id_: int) -> Waiting | None:
    """The row of a message that waits, locked as soon as nobody else holds it; None where there is none."""
    # In its own place first: while that is ours, nobody can move it back to there.
    for place in (shard_of(id_), shard_of(id_) + SHARDS):
        await tx.execute("delay.lock_or_add", place, id_)
        (row,) = await tx.fetch("delay.locked", Waiting, place, id_)
        if row.topic_id:
            return row
        await tx.execute("delay.remove_locked", place, id_)
    return None


async def remove_waiting(tx: Queries, row: Waiting) -> None:
    """Removes a row that is locked."""
    await tx.execute("delay.remove_locked", row.shard, row.id)
    if row.due != due_of(row.id):
        await tx.execute("moved.remove", shard_of(row.id), row.due, row.id)
    await _foretell(tx, forecast.changes(0, gone=[(row.topic_id, row.due)]))


async def _foretell(tx: Queries, rows: Sequence[Sequence[Value]]) -> None:
    if rows:
        await tx.execute_many("forecast_change.add", rows)


async def _elsewhere(tx: Queries, id_: int) -> Verdict | None:
    if await tx.fetch("cancelled.find", Cancelled, [id_]):
        return Verdict("cancelled", fresh=False)
    if await tx.fetch("message.place", tuple[int, int, int], id_):
        return Verdict("too_late")
    return None


async def labelled(tx: Queries, topic_name: str, key: str) -> list[int]:
    """The messages of a key that wait, as far as the transaction sees."""
    topic = await named_topic(tx, topic_name)
    waiting: list[int] = []
    after = -1
    while True:
        page = await tx.fetch("label.find", int, topic.id, key.encode(), after, 1000)
        for id_ in page:
            if await tx.fetch("delay.seen", tuple[int, int, int], places_of([id_])):
                waiting.append(id_)
        if len(page) < 1000:
            return waiting
        after = page[-1]


Acked = Literal["acked", "lost", "not_in_claim"]


class _LockedClaim(NamedTuple):
    """Of size 0 when there was none, and it was put in its place."""

    token: int
    first: int
    size: int
    lease_until: int
    outcome: bytes
    settled_at: bytes


async def ack(tx: OutboxTransaction, keys: Sequence[ClaimKey], message_id: int) -> Acked:
    """Acks a message of a claim, when the user's transaction is committed. It holds the row of its range until then.

    `keys` are those of the claim's ranges.
    """
    key = keys[0] if len(keys) == 1 else await _holding(tx, keys, message_id)
    if key is None:
        return "not_in_claim"
    place = (key.group_id, key.queue_id, key.number)
    await tx.execute("claim.lock_or_add", *place)
    (claim,) = await tx.fetch("claim.locked", _LockedClaim, *place)
    if not claim.size:
        await tx.execute("claim.remove_locked", *place)
        return await _acked_before(tx, key, message_id)
    if claim.token != key.token:
        return "lost"
    now = await tx.now()  # the lock may have been waited for
    if claim.lease_until <= now:
        return "lost"
    at = await _position(tx, key.queue_id, message_id, claim.first, claim.size)
    if at is None:
        return "not_in_claim"
    if claim.outcome[at] in (Outcome.ACKED, Outcome.ACKED_OUTSIDE):
        return "acked"
    if claim.outcome[at] != Outcome.OPEN:
        return "lost"
    outcomes, times = bytearray(claim.outcome), bytearray(claim.settled_at)
    outcomes[at] = Outcome.ACKED_OUTSIDE
    times[8 * at : 8 * at + 8] = now.to_bytes(8, "big")
    await tx.execute("claim.note", bytes(outcomes), bytes(times), *place)
    return "acked"


async def _acked_before(tx: Queries, key: ClaimKey, message_id: int) -> Acked:
    """The claim has ended: what it acked stays acked, and acking it once more is harmless."""
    place = (key.group_id, key.queue_id, key.first, key.number)
    for token, first, size, outcome in await tx.fetch("delivery.find", tuple[int, int, int, bytes], *place):
        at = await _position(tx, key.queue_id, message_id, first, size) if token == key.token else None
        if at is not None and outcome[at] == Outcome.ACKED:
            return "acked"
    return "lost"


async def _holding(tx: Queries, keys: Sequence[ClaimKey], message_id: int) -> ClaimKey | None:
    """The range of a claim in which the message may lie: none of the others can hold it."""
    places = [*await _places(tx, message_id), *await _return_places(tx, message_id)]
    found = (key for key in keys for queue, offset in places if queue == key.queue_id and offset >= key.first)
    return next(found, None)


async def _position(tx: Queries, queue_id: int, message_id: int, first: int, size: int) -> int | None:
    """Where in a claim of this queue, the topic's own or a retry queue, the message lies."""
    places = await _places(tx, message_id)
    if not any(queue == queue_id for queue, _ in places):
        places = await _return_places(tx, message_id)
    for queue, offset in places:
        if queue == queue_id and first <= offset < first + size:
            return offset - first
    return None


async def _places(tx: Queries, message_id: int) -> list[tuple[int, int]]:
    """The queue of the topic's own and the offset there, if it is in the stream."""
    found = await tx.fetch("message.place", tuple[int, int, int], message_id)
    return [(queue_id, offset) for queue_id, offset, _ in found]


async def _return_places(tx: Queries, message_id: int) -> list[tuple[int, int]]:
    """The retry queues that it came back into, and the offsets there."""
    return [(row.queue_id, row.offset) for row in await tx.fetch("redelivery.of_messages", Return, [message_id])]

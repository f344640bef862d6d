"""The outbox: publishes, cancels and acks in a user's own transaction, beside the user's own rows.

Such a transaction may stay open for an hour, at any isolation level. So it locks only a few rows: those that it inserts
into `delay`, `label`, `cancelled` and `outbox_cancel`, the row of `delay` (with its `moved`) that it cancels, and the
claim that it acks; never a queue, a cursor or a tally. Offsets are drawn at promotion. The transaction that processes
such a row next also counts it: promotion, a cancel, or the next turn of the group.

A row that may be missing is never read with a lock: at REPEATABLE READ, the default of MySQL, that would lock the gap
in its place, and every insert there would wait. Instead, `lock_or_add` inserts the row, or locks the existing one.

Like everywhere in the store the functions await nothing but their transaction, so that a synchronous cursor can run
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
"""The most rows and bytes of one INSERT."""


class OutboxTransaction(Queries, Protocol):
    """A user's own transaction."""

    async def now(self) -> int:
        """The database's clock at this moment, Unix milliseconds."""
        ...


class TopicMissing(StoreError):
    """There is no such topic, as far as the transaction sees. It is not made, since that would lock rows that others
    need."""


class TooFar(StoreError):
    """The time is further ahead than a message may wait."""


class Expired(StoreError):
    """The message would be expired before it could be handed out."""


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
    """The message was not due yet when it was written."""


async def publish(
    tx: OutboxTransaction, ids: IdMaker, topic_name: str, entries: Sequence[Entry], max_delay: int
) -> list[Accepted]:
    """Writes the messages into `delay`, also those that are due: a node finds them there after the commit.

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
    """The topic of this name. Raises `TopicMissing`."""
    topics = await find_topics(tx, [name])
    if not topics:
        raise TopicMissing(f"there is no topic {name!r}")
    return topics[0]


def deliver_at(entry: Entry, now: int, max_delay: int) -> int:
    """The delivery time of an entry, Unix milliseconds. Raises `TooFar` and `Expired`."""
    at = now + entry.delay if entry.deliver_at is None else entry.deliver_at
    if at > min(now + max_delay, _LATEST):
        raise TooFar("it is further ahead than a message may wait")
    if is_past(entry.expires_at, max(at, now)):
        raise Expired("it is past, or not after the time it is to be delivered")
    return at


def queue_for(topic: Topic, entry: Entry) -> Queue:
    """The queue that an entry goes to. Raises `WrongQueue`."""
    if entry.queue is not None:
        return named_queue(topic, entry.queue, entry.ordering_key)
    if entry.ordering_key is not None:
        return queue_of_key(topic, entry.ordering_key)
    return random.choice(topic.queues)  # noqa: S311  # it spreads messages, it guards nothing


def _pieces(entries: Sequence[Entry]) -> list[tuple[int, int]]:
    """Slices of the entries, each for one INSERT, which is tried again as a whole when an id was taken."""
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
    """Writes messages and their labels; returns the ids.

    A duplicate key rolls back the statement only, not the user's transaction: then new ids are tried.
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

    This is asked before the insert, although that would fail: a duplicate key leaves a lock on the other row, whose
    message would wait for this transaction. (At REPEATABLE READ, messages that left `delay` since the transaction began
    are not seen. For a collision, another outbox's message must have had the same id, and have been rescheduled or
    cancelled meanwhile.)
    """
    if await tx.fetch("delay.queues", tuple[int, int], ids):
        return True
    return bool(await tx.fetch("delay.used", tuple[int, int], apart(ids), ids, ids))


def _row(topic: Topic, entry: Entry, queue: Queue, at: int, id_: int, now: int) -> Sequence[Value]:
    place = (shard_of(id_), id_, due_of(id_), random_nonce(), topic.id, queue.id)
    return (*place, *columns(entry), entry.body, now, at, 1)


async def cancel(tx: OutboxTransaction, ids: Sequence[int]) -> list[Verdict]:
    """Cancels waiting messages when the user's transaction is committed. The verdicts are as exact as over HTTP."""
    verdicts: dict[int, Verdict] = {}
    for id_ in sorted(set(ids), key=lambda i: (shard_of(i), i)):  # the order of locks
        verdicts[id_] = await _cancel(tx, id_)
    return [verdicts[id_] for id_ in ids]


async def _cancel(tx: OutboxTransaction, id_: int) -> Verdict:
    shard = shard_of(id_)
    # A read without a lock may show the rows as of the transaction's beginning; a locked row is current.
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
    # It has left since this transaction began, so its new place is not visible here; an insert into `cancelled` fails
    # if the message is there.
    try:
        await tx.execute_many("cancelled.add", [(shard, id_, 0, 0, None, 0, 0, now)])
    except DuplicateKey:
        return Verdict("cancelled", fresh=False)
    await tx.execute("cancelled.remove", shard, id_)
    return Verdict("too_late")


async def lock_waiting(tx: Queries, id_: int) -> Waiting | None:
    """Waits for the row of a waiting message and locks it; None if there is none."""
    # In its own place first: while that is locked here, the message cannot be moved back to it.
    for place in (shard_of(id_), shard_of(id_) + SHARDS):
        await tx.execute("delay.lock_or_add", place, id_)
        (row,) = await tx.fetch("delay.locked", Waiting, place, id_)
        if row.topic_id:
            return row
        await tx.execute("delay.remove_locked", place, id_)
    return None


async def remove_waiting(tx: Queries, row: Waiting) -> None:
    """Removes a locked row."""
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
    """The waiting messages of a key, as far as the transaction sees."""
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
    """A locked claim; its size is 0 when there was none, and the row was inserted in its place."""

    token: int
    first: int
    size: int
    lease_until: int
    outcome: bytes
    settled_at: bytes


async def ack(tx: OutboxTransaction, keys: Sequence[ClaimKey], message_id: int) -> Acked:
    """Acks a message of a claim when the user's transaction is committed, which holds the range's claim row until then.

    `keys` are the keys of the claim's ranges.
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
    now = await tx.now()  # asked only now, since the lock may have taken a while
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
    """The answer when the claim has ended: acking a message again that it has acked is harmless."""
    place = (key.group_id, key.queue_id, key.first, key.number)
    for token, first, size, outcome in await tx.fetch("delivery.find", tuple[int, int, int, bytes], *place):
        at = await _position(tx, key.queue_id, message_id, first, size) if token == key.token else None
        if at is not None and outcome[at] == Outcome.ACKED:
            return "acked"
    return "lost"


async def _holding(tx: Queries, keys: Sequence[ClaimKey], message_id: int) -> ClaimKey | None:
    """The one range of the claim that may contain the message."""
    places = [*await _places(tx, message_id), *await _return_places(tx, message_id)]
    found = (key for key in keys for queue, offset in places if queue == key.queue_id and offset >= key.first)
    return next(found, None)


async def _position(tx: Queries, queue_id: int, message_id: int, first: int, size: int) -> int | None:
    """The position of the message in a claim of this queue, which may be the topic's own or a retry queue."""
    places = await _places(tx, message_id)
    if not any(queue == queue_id for queue, _ in places):
        places = await _return_places(tx, message_id)
    for queue, offset in places:
        if queue == queue_id and first <= offset < first + size:
            return offset - first
    return None


async def _places(tx: Queries, message_id: int) -> list[tuple[int, int]]:
    """The topic's queue and the offset of the message, if it is in the stream."""
    found = await tx.fetch("message.place", tuple[int, int, int], message_id)
    return [(queue_id, offset) for queue_id, offset, _ in found]


async def _return_places(tx: Queries, message_id: int) -> list[tuple[int, int]]:
    """The retry queues that the message came back into, and its offsets there."""
    return [(row.queue_id, row.offset) for row in await tx.fetch("redelivery.of_messages", Return, [message_id])]

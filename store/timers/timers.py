"""What waits for its time: promotion, cancel, reschedule and the due scans over `delay` and `retry`.

One row arbitrates fire, cancel and reschedule: whoever locks it decides. Promotion locks the due rows first and copies
exactly those; a copy without the lock can deliver a message whose cancel was answered `cancelled`, because under
READ COMMITTED an INSERT ... SELECT does not lock its source.

In the wheel a message goes by its id and a retry by `~id`, which is negative, so that one wheel drives both.
"""

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeVar

from ..ids import SHARDS, apart, due_of, first_id, place_of, places_of, shard_in_delay, shard_of
from ..ports import Transaction, Value
from ..records import Promoted, Verdict
from ..rows import Cancelled, Due, Resting, Scheduled, Streamed, Waiting
from ..stream.offsets import draw_free, draw_offsets
from ..stream.tallies import count, locked_tallies

L = TypeVar("L", Waiting, Due)

Timer = tuple[int, int]
"""(due, entry): entry is the id of a message, or `~id` of a retry."""

Scan = tuple[int, int]
"""(id, due). Of a due scan: a start reads hundreds of thousands of them, and makes columns of them again."""

ByQueue = dict[int, list[int]]
"""Entries by the id of the queue that they are to go to."""


async def promote(
    tx: Transaction, entries: Sequence[int], now: int, maker: int = 0, *, behind: Collection[int] | None = None
) -> tuple[list[Promoted], ByQueue]:
    """Hands what is due among these entries to the stream, in one transaction.

    Messages of an outbox are counted here, in this maker's tally: their publish must lock no counter.

    Rows that are gone, locked by somebody else or not yet due at `now` are left alone. With `behind` nothing is waited
    for: what goes to a queue that somebody holds is held back and told, and so is what goes to these queues, since
    something for them is held back already.
    """
    messages = [entry for entry in entries if entry >= 0]
    retries = [~entry for entry in entries if entry < 0]
    due = [row for row in await _lock_due(tx, messages) if row.due <= now]
    resting = await tx.fetch("retry.lock", Resting, retries) if retries else []
    back = [row for row in resting if due_of(row.id) <= now]
    back.sort(key=_time_and_source)  # they were locked shard by shard
    held_back: ByQueue = {}
    if behind is not None:
        due, back = _hold_back(due, back, set(behind), held_back)
        topics = await locked_tallies(tx, {row.topic_id for row in due if row.uncounted}, maker)
        due, back = _hold_back(due, back, {r.queue_id for r in due if r.uncounted and r.topic_id in topics}, held_back)
    uncounted = Counter([row.topic_id for row in due if row.uncounted])
    for topic_id in sorted(uncounted):
        await count(tx, topic_id, maker, scheduled=uncounted[topic_id])
    # Sequence rows come last in the order of locks, all of them in one statement.
    wanted = Counter([row.queue_id for row in due] + [row.return_queue_id for row in back])
    if behind is None:
        begins = await draw_offsets(tx, wanted) if wanted else {}
    else:
        begins, locked = await draw_free(tx, wanted)
        due, back = _hold_back(due, back, locked, held_back)
        # What is held back is counted when it goes. (The tallies are locked already, and come before the queues.)
        too_early = uncounted - Counter([row.topic_id for row in due if row.uncounted])
        for topic_id in sorted(too_early):
            await count(tx, topic_id, maker, scheduled=-too_early[topic_id])
    await _drop(tx, [row for row in due if row.queue_id not in begins])
    due = [row for row in due if row.queue_id in begins]
    back = [row for row in back if row.return_queue_id in begins]  # those of a removed group go with it
    if due:
        await _stream_messages(tx, due, begins, now)
    if back:
        await stream_retries(tx, back, begins, now)
    promoted = [Promoted(id_, queue_id, at, bool(uncounted)) for id_, at, _, queue_id, uncounted in due]
    return promoted + [Promoted(~row.id, row.return_queue_id, due_of(row.id)) for row in back], held_back


async def queues_of(tx: Transaction, entries: Sequence[int]) -> ByQueue:
    """Where these entries go, whoever holds what; without those that are gone."""
    messages = [entry for entry in entries if entry >= 0]
    retries = [~entry for entry in entries if entry < 0]
    queues = dict(await tx.fetch("delay.queues", tuple[int, int], places_of(messages))) if messages else {}
    found = await tx.fetch("retry.queues", tuple[int, int], retries) if retries else []
    queues |= {~id_: queue_id for id_, queue_id in found}
    by_queue: ByQueue = {}
    for entry in entries:
        if entry in queues:
            by_queue.setdefault(queues[entry], []).append(entry)
    return by_queue


async def lock_waiting(tx: Transaction, ids: Collection[int]) -> list[Waiting]:
    """The rows of waiting messages that nobody else is working on, locked."""
    return await _lock(ids, lambda places: tx.fetch("delay.lock", Waiting, places))


async def _lock_due(tx: Transaction, ids: Collection[int]) -> list[Due]:
    return await _lock(ids, lambda places: tx.fetch("delay.lock_due", Due, places))


async def _lock(ids: Collection[int], ask: Callable[[list[int]], Awaitable[list[L]]]) -> list[L]:
    """Few have been moved. So each is looked for in its own place first; only what is not there is looked for apart."""
    if not ids:
        return []
    rows = await ask(list(ids))
    if len(rows) < len(ids) and (missing := set(ids).difference([row.id for row in rows])):
        rows += await ask(apart(missing))
    return rows


async def remove_waiting(tx: Transaction, rows: Collection[Waiting | Due]) -> None:
    """Removes rows that are locked, and what points to those that were moved."""
    places = [place_of(row.id, row.due) for row in rows]
    for place, row in zip(places, rows, strict=True):
        if place < 0:
            await tx.later("moved.remove", shard_of(row.id), row.due, row.id)
    await tx.later_exactly(len(rows), "delay.remove", places)


def _hold_back(
    due: list[Due], back: list[Resting], queues: Collection[int], held_back: ByQueue
) -> tuple[list[Due], list[Resting]]:
    """Those messages and retries that go to other queues than these; the entries of the rest go to `held_back`."""
    if not queues:
        return due, back
    for queue_id, entry in [(row.queue_id, row.id) for row in due] + [(row.return_queue_id, ~row.id) for row in back]:
        if queue_id in queues:
            held_back.setdefault(queue_id, []).append(entry)
    return (
        [row for row in due if row.queue_id not in queues],
        [row for row in back if row.return_queue_id not in queues],
    )


def _time_and_source(retry: Resting) -> tuple[int, int, int]:
    """The order in which retries return: by due time, those of one millisecond as they lie in the stream."""
    return due_of(retry.id), retry.message_queue_id, retry.message_offset


async def _stream_messages(tx: Transaction, due: Sequence[Due], begins: dict[int, int], now: int) -> None:
    by_queue: dict[int, list[int]] = defaultdict(list)
    for id_, at, _, queue_id, _ in due:
        by_queue[queue_id].append(place_of(id_, at))
    for queue_id, places in by_queue.items():
        await tx.later_exactly(len(places), "message.promote", begins[queue_id], now, places)
    await remove_waiting(tx, due)


async def stream_retries(tx: Transaction, back: Sequence[Resting], begins: dict[int, int], now: int) -> None:
    """Puts locked retries into their retry queues, from these offsets on."""
    ends = dict(begins)
    rows: list[Sequence[Value]] = []
    for row in back:
        source = (row.message_queue_id, row.message_offset, row.message_id, row.attempt, row.history)
        rows.append((row.return_queue_id, ends[row.return_queue_id], row.id, *source, now))
        ends[row.return_queue_id] += 1
    await tx.later_many("redelivery.add", rows)
    ids = [row.id for row in back]
    await tx.later_exactly(len(ids), "retry.remove", ids)


async def _drop(tx: Transaction, orphans: Sequence[Due]) -> None:
    """Messages whose topic has been removed, from an outbox that was committed only then: there is nobody to hear."""
    if not orphans:
        return
    rows = await lock_waiting(tx, [row.id for row in orphans])  # once more, with their keys
    await remove_waiting(tx, rows)
    for row in rows:
        if row.key is not None:
            await tx.execute("label.remove", [(row.topic_id, row.key, row.id)] * 2)


async def cancel(tx: Transaction, ids: Sequence[int], now: int, maker: int) -> list[Verdict]:
    """Cancels what still waits; the verdict of each is final once this is committed.

    What cannot be counted, because somebody holds its topic's tally, is `locked`, as if its own row were.
    """
    rows = {row.id: row for row in await lock_waiting(tx, ids)}
    locked = await locked_tallies(tx, {row.topic_id for row in rows.values()}, maker)
    rows = {id_: row for id_, row in rows.items() if row.topic_id not in locked}
    if rows:
        await remove_waiting(tx, rows.values())
        taken: list[Sequence[Value]] = []
        cancelled: dict[int, int] = defaultdict(int)
        scheduled: dict[int, int] = defaultdict(int)
        for id_, row in rows.items():
            times = (row.accepted_at, row.deliver_at, now)
            taken.append((shard_of(id_), id_, row.nonce, row.topic_id, row.key, *times))
            cancelled[row.topic_id] += 1
            scheduled[row.topic_id] += row.uncounted
        await tx.execute_many("cancelled.add", taken)
        for topic_id in sorted(cancelled):
            await count(tx, topic_id, maker, scheduled=scheduled[topic_id], cancelled=cancelled[topic_id])
    others = await _elsewhere(tx, [id_ for id_ in ids if id_ not in rows])
    verdicts: list[Verdict] = []
    for id_ in ids:
        taken_now = rows.pop(id_, None)
        if taken_now is not None:
            topic, due, uncounted = taken_now.topic_id, taken_now.due, bool(taken_now.uncounted)
            verdicts.append(Verdict("cancelled", topic=topic, due_before=due, first_heard=uncounted))
            others[id_] = Verdict("cancelled", fresh=False, topic=topic)  # the same id twice in one batch
        else:
            verdicts.append(others[id_])
    return verdicts


async def count_outbox(tx: Transaction, maker: int, limit: int) -> dict[int, tuple[int, int]]:
    """Counts a batch of what outboxes have cancelled; by topic id how many, and of how many the publish as well."""
    rows: list[tuple[int, int, int]] = []
    locked = {0}  # which is no topic
    while not rows and (some := await tx.fetch("outbox_cancel.lock", tuple[int, int, int], sorted(locked), limit)):
        locked |= await locked_tallies(tx, {topic_id for _, topic_id, _ in some}, maker)
        rows = [(id_, topic_id, s) for id_, topic_id, s in some if topic_id not in locked]  # or others lie behind these
    cancelled = Counter([topic_id for _, topic_id, _ in rows])
    scheduled = Counter([topic_id for _, topic_id, uncounted in rows if uncounted])
    for topic_id in sorted(cancelled):
        await count(tx, topic_id, maker, scheduled=scheduled[topic_id], cancelled=cancelled[topic_id])
    if rows:
        ids = [id_ for id_, *_ in rows]
        await tx.later_exactly(len(ids), "outbox_cancel.remove", ids)
    return {topic_id: (many, scheduled[topic_id]) for topic_id, many in cancelled.items()}


async def reschedule(tx: Transaction, moves: Sequence[tuple[int, int]], now: int) -> list[Verdict]:
    """Gives waiting messages another time, each an (id, deliver_at); ids and rows stay.

    A row whose time is not that of its id moves to a shard apart, and a pointer in `moved` stands for it: left where it
    was, each sweep of what is due would read it, and pass on.
    """
    rows = {row.id: row for row in await lock_waiting(tx, [id_ for id_, _ in moves])}
    others = await _elsewhere(tx, [id_ for id_, _ in moves if id_ not in rows])
    dues = {id_: row.due for id_, row in rows.items()}
    verdicts: list[Verdict] = []
    for id_, deliver_at in moves:
        if id_ not in rows:
            verdicts.append(others[id_])
            continue
        before, due = dues[id_], max(deliver_at, now)
        if before != due_of(id_):
            await tx.execute("moved.remove", shard_of(id_), before, id_)
        if due != due_of(id_):
            await tx.execute_many("moved.add", [(shard_of(id_), due, id_)])
        shard = shard_in_delay(place_of(id_, due))
        await tx.execute("delay.move", shard, due, deliver_at, [place_of(id_, before)])
        dues[id_] = due
        topic = rows[id_].topic_id
        verdicts.append(Verdict("rescheduled", topic=topic, due_before=before, due=due, deliver_at=deliver_at))
    return verdicts


async def _elsewhere(tx: Transaction, ids: Sequence[int]) -> dict[int, Verdict]:
    """What became of messages whose waiting row could not be locked."""
    if not ids:
        return {}
    verdicts = {id_: Verdict("not_found") for id_ in ids}
    # In the order in which a row can move: one that leaves `delay` meanwhile is found where it went.
    for waiting in await tx.fetch("delay.find", Scheduled, places_of(ids)):
        verdicts[waiting.id] = Verdict("locked", topic=waiting.topic_id)
    for cancelled in await tx.fetch("cancelled.find", Cancelled, ids):
        verdicts[cancelled.id] = Verdict("cancelled", fresh=False, topic=cancelled.topic_id)
    for streamed in await tx.fetch("message.find", Streamed, ids):
        verdicts[streamed.id] = Verdict("too_late", topic=streamed.topic_id)
    return verdicts


async def due_messages(tx: Transaction, shard: int, after: int, until: int, limit: int) -> list[Scan]:
    """Messages of a shard with ids from `after` up to the millisecond `until`, without those that were moved."""
    return await tx.fetch("delay.due", tuple[int, int], shard, after, first_id(until), limit)


async def due_moved(tx: Transaction, shard: int, after: Timer, until: int, limit: int) -> list[Scan]:
    """Rescheduled messages of a shard, due after `after` and before `until`."""
    return await tx.fetch("moved.due", tuple[int, int], shard, after[0], after[0], after[1], until, limit)


async def due_retries(tx: Transaction, shard: int, after: int, until: int, limit: int) -> list[int]:
    """The ids of retries of a shard, from `after` up to the millisecond `until`."""
    return await tx.fetch("retry.due", int, shard, after, first_id(until), limit)


async def near(
    tx: Transaction, since: int, until: int, limit: int, untils: Mapping[int, int] | None = None
) -> list[Timer]:
    """What waits between two milliseconds, for the sweeps; at most `limit` of each kind. Some shards may have an end of
    their own."""
    ends = dict.fromkeys(range(SHARDS), until) | dict(untils or {})
    by_due = [(shard, since, end) for shard, end in ends.items()]
    by_id = [(shard, first_id(since), first_id(end)) for shard, end in ends.items()]
    rows = await tx.fetch("delay.near", tuple[int, int, int, int], by_id, limit, by_due, limit, by_id, limit)
    return [(due, ~id_ if of_a_retry else id_) for id_, due, of_a_retry, _ in rows]

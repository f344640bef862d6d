"""What waits for its time: promotion, cancel, reschedule and the due scans over `delay` and `retry`.

One row arbitrates fire, cancel and reschedule: whoever locks it decides. Promotion locks the due rows first and copies
exactly those; a copy without the lock can deliver a message whose cancel was answered `cancelled`, because under
READ COMMITTED an INSERT ... SELECT does not lock its source.

In the wheel a message goes by its id and a retry by `~id`, which is negative, so that one wheel drives both.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from typing import cast

from ..errors import StoreError
from ..ids import apart, due_of, first_id, place_of, places_of, shard_in_delay, shard_of
from ..ports import Row, Transaction, Value
from ..records import Promoted, Verdict
from ..stream.publishing import count, draw_free, draw_offsets, locked_tallies

Timer = tuple[int, int]
"""(due, entry): entry is the id of a message, or `~id` of a retry."""


Held = dict[int, list[int]]
"""By queue id: entries that are due and cannot go there now."""


async def promote(
    tx: Transaction, entries: Sequence[int], now: int, maker: int = 0, *, behind: Collection[int] | None = None
) -> tuple[list[Promoted], Held]:
    """Hands what is due among these entries to the stream, in one transaction.

    Messages of an outbox are counted here, in this maker's tally: their publish must lock no counter.

    Rows that are gone, locked by somebody else or not yet due at `now` are left alone. With `behind` nothing is waited
    for: what goes to a queue that somebody holds is held back and told, and so is what goes to these queues, since
    something for them is held back already.
    """
    messages = [entry for entry in entries if entry >= 0]
    retries = [~entry for entry in entries if entry < 0]
    due = [row for row in await lock_waiting(tx, messages) if row[1] <= now]
    back = [row for row in await tx.fetch("retry.lock", retries) if due_of(row[0]) <= now] if retries else []
    back.sort(key=_time_and_source)  # they were locked shard by shard
    held: Held = {}
    if behind is not None:
        due, back = _hold_back(due, back, set(behind), held)
        topics = await locked_tallies(tx, {row[2] for row in due if row[8]}, maker)
        due, back = _hold_back(due, back, {row[3] for row in due if row[8] and row[2] in topics}, held)
    uncounted = Counter([row[2] for row in due if row[8]])
    for topic_id in sorted(uncounted):
        await count(tx, topic_id, maker, scheduled=uncounted[topic_id])
    # Sequence rows come last in the order of locks, all of them in one statement.
    wanted = Counter([row[3] for row in due] + [row[1] for row in back])
    if behind is None:
        begins = await draw_offsets(tx, wanted) if wanted else {}
    else:
        begins, locked = await draw_free(tx, wanted)
        due, back = _hold_back(due, back, locked, held)
        # What is held back is counted when it goes. (The tallies are locked already, and come before the queues.)
        too_early = uncounted - Counter([row[2] for row in due if row[8]])
        for topic_id in sorted(too_early):
            await count(tx, topic_id, maker, scheduled=-too_early[topic_id])
    await _drop(tx, [row for row in due if row[3] not in begins])
    due = [row for row in due if row[3] in begins]
    back = [row for row in back if row[1] in begins]  # those of a removed group go with it
    if due:
        await _stream_messages(tx, due, begins, now)
    if back:
        await stream_retries(tx, back, begins, now)
    promoted = [Promoted(row[0], row[3], row[1], bool(row[8])) for row in due]
    return promoted + [Promoted(~row[0], row[1], due_of(row[0])) for row in back], held


async def queues_of(tx: Transaction, entries: Sequence[int]) -> Held:
    """Where these entries go, whoever holds what; without those that are gone."""
    messages = [entry for entry in entries if entry >= 0]
    retries = [~entry for entry in entries if entry < 0]
    queues: dict[int, int] = dict(await tx.fetch("delay.queues", places_of(messages))) if messages else {}
    queues |= {~id_: queue_id for id_, queue_id in await tx.fetch("retry.queues", retries)} if retries else {}
    held: Held = {}
    for entry in entries:
        if entry in queues:
            held.setdefault(queues[entry], []).append(entry)
    return held


async def lock_waiting(tx: Transaction, ids: Collection[int]) -> list[Row]:
    """The rows of waiting messages that nobody else is working on, locked: `delay.lock`.

    Few have been moved. So each is looked for in its own place first; only what is not there is looked for apart.
    """
    if not ids:
        return []
    rows = await tx.fetch("delay.lock", list(ids))
    if len(rows) < len(ids) and (missing := set(ids).difference([row[0] for row in rows])):
        rows += await tx.fetch("delay.lock", apart(missing))
    return rows


async def remove_waiting(tx: Transaction, rows: Collection[Row]) -> int:
    """Removes rows that `lock_waiting` has locked, and what points to those that were moved; how many were there."""
    removed = await tx.execute("delay.remove", [place_of(row[0], row[1]) for row in rows])
    for id_, due, *_ in rows:
        if due != due_of(id_):
            await tx.later("moved.remove", shard_of(id_), due, id_)
    return removed


def _hold_back(due: list[Row], back: list[Row], queues: Collection[int], held: Held) -> tuple[list[Row], list[Row]]:
    """Those messages and retries that go to other queues than these; the entries of the rest are noted in `held`."""
    if not queues:
        return due, back
    for queue_id, entry in [(row[3], row[0]) for row in due] + [(row[1], ~row[0]) for row in back]:
        if queue_id in queues:
            held.setdefault(queue_id, []).append(entry)
    return [row for row in due if row[3] not in queues], [row for row in back if row[1] not in queues]


def _time_and_source(retry: Row) -> tuple[int, int, int]:
    """The order in which retries return: by due time, those of one millisecond as they lie in the stream."""
    id_, _return_queue, message_queue, message_offset, *_ = retry
    return due_of(id_), message_queue, message_offset


async def _stream_messages(tx: Transaction, due: Sequence[Row], begins: dict[int, int], now: int) -> None:
    by_queue: dict[int, list[int]] = defaultdict(list)
    for row in due:
        by_queue[row[3]].append(place_of(row[0], row[1]))
    for queue_id, places in by_queue.items():
        streamed = await tx.execute("message.promote", begins[queue_id], now, places)
        _exactly(len(places), streamed, "streamed")
    _exactly(len(due), await remove_waiting(tx, due), "taken from delay")


async def stream_retries(tx: Transaction, back: Sequence[Row], begins: dict[int, int], now: int) -> None:
    """Puts locked retries into their retry queues, from these offsets on."""
    ends = dict(begins)
    rows: list[Row] = []
    for id_, queue_id, *source in back:
        rows.append((queue_id, ends[queue_id], id_, *source, now))
        ends[queue_id] += 1
    await tx.execute_many("redelivery.add", rows)
    ids = [row[0] for row in back]
    _exactly(len(ids), await tx.execute("retry.remove", ids), "taken from retry")


async def _drop(tx: Transaction, orphans: Sequence[Row]) -> None:
    """Messages whose topic has been removed, from an outbox that was committed only then: there is nobody to hear."""
    if not orphans:
        return
    await remove_waiting(tx, orphans)
    for id_, _due, topic_id, _queue_id, _nonce, key, *_ in orphans:
        if key is not None:
            await tx.execute("label.remove", cast("list[Value]", [(topic_id, key, id_)] * 2))


def _exactly(expected: int, got: int, what: str) -> None:
    if got != expected:
        raise StoreError(f"{got} of {expected} locked rows were {what}; the transaction is rolled back")


async def cancel(tx: Transaction, ids: Sequence[int], now: int, maker: int) -> list[Verdict]:
    """Cancels what still waits; the verdict of each is final once this is committed.

    What cannot be counted, because somebody holds its topic's tally, is `locked`, as if its own row were.
    """
    rows = {row[0]: row for row in await lock_waiting(tx, ids)}
    locked = await locked_tallies(tx, {row[2] for row in rows.values()}, maker)
    rows = {id_: row for id_, row in rows.items() if row[2] not in locked}
    if rows:
        await remove_waiting(tx, rows.values())
        taken: list[Row] = []
        cancelled: dict[int, int] = defaultdict(int)
        scheduled: dict[int, int] = defaultdict(int)
        for id_, _due, topic_id, _queue_id, nonce, key, accepted_at, deliver_at, uncounted in rows.values():
            taken.append((shard_of(id_), id_, nonce, topic_id, key, accepted_at, deliver_at, now))
            cancelled[topic_id] += 1
            scheduled[topic_id] += uncounted
        await tx.execute_many("cancelled.add", taken)
        for topic_id in sorted(cancelled):
            await count(tx, topic_id, maker, scheduled=scheduled[topic_id], cancelled=cancelled[topic_id])
    others = await _elsewhere(tx, [id_ for id_ in ids if id_ not in rows])
    verdicts: list[Verdict] = []
    for id_ in ids:
        row = rows.pop(id_, None)
        if row is not None:
            verdicts.append(Verdict("cancelled", topic=row[2], due_before=row[1], first_heard=bool(row[8])))
            others[id_] = Verdict("cancelled", fresh=False, topic=row[2])  # the same id twice in one batch
        else:
            verdicts.append(others[id_])
    return verdicts


async def count_outbox(tx: Transaction, maker: int, limit: int) -> dict[int, tuple[int, int]]:
    """Counts a batch of what outboxes have cancelled; by topic id how many, and of how many the publish as well."""
    rows: list[Row] = []
    locked = {0}  # which is no topic
    while not rows and (some := await tx.fetch("outbox_cancel.lock", sorted(locked), limit)):
        locked |= await locked_tallies(tx, {row[1] for row in some}, maker)
        rows = [row for row in some if row[1] not in locked]  # or else others lie behind these
    cancelled = Counter([row[1] for row in rows])
    scheduled = Counter([row[1] for row in rows if row[2]])
    for topic_id in sorted(cancelled):
        await count(tx, topic_id, maker, scheduled=scheduled[topic_id], cancelled=cancelled[topic_id])
    if rows:
        ids = [row[0] for row in rows]
        _exactly(len(ids), await tx.execute("outbox_cancel.remove", ids), "counted as cancelled")
    return {topic_id: (many, scheduled[topic_id]) for topic_id, many in cancelled.items()}


async def reschedule(tx: Transaction, moves: Sequence[tuple[int, int]], now: int) -> list[Verdict]:
    """Gives waiting messages another time, each an (id, deliver_at); ids and rows stay.

    A row whose time is not that of its id moves to a shard apart, and a pointer in `moved` stands for it: left where it
    was, each sweep of what is due would read it, and pass on.
    """
    rows = {row[0]: row for row in await lock_waiting(tx, [id_ for id_, _ in moves])}
    others = await _elsewhere(tx, [id_ for id_, _ in moves if id_ not in rows])
    dues = {id_: row[1] for id_, row in rows.items()}
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
        verdicts.append(Verdict("rescheduled", topic=rows[id_][2], due_before=before, due=due, deliver_at=deliver_at))
    return verdicts


async def _elsewhere(tx: Transaction, ids: Sequence[int]) -> dict[int, Verdict]:
    """What became of messages whose waiting row could not be locked."""
    if not ids:
        return {}
    verdicts = {id_: Verdict("not_found") for id_ in ids}
    # In the order in which a row can move: one that leaves `delay` meanwhile is found where it went.
    for row in await tx.fetch("delay.find", places_of(ids)):
        verdicts[row[0]] = Verdict("locked", topic=row[2])
    for row in await tx.fetch("cancelled.find", ids):
        verdicts[row[0]] = Verdict("cancelled", fresh=False, topic=row[1])
    for row in await tx.fetch("message.find", ids):
        verdicts[row[0]] = Verdict("too_late", topic=row[1])
    return verdicts


async def due_messages(tx: Transaction, shard: int, after: int, until: int, limit: int) -> list[Row]:
    """(id, due) of messages of a shard with ids from `after` up to the millisecond `until`, without those that were
    moved."""
    return await tx.fetch("delay.due", shard, after, first_id(until), limit)


async def due_moved(tx: Transaction, shard: int, after: Timer, until: int, limit: int) -> list[Row]:
    """(id, due) of rescheduled messages of a shard, due after `after` = (due, id) and before `until`."""
    return await tx.fetch("moved.due", shard, after[0], after[0], after[1], until, limit)


async def due_retries(tx: Transaction, shard: int, after: int, until: int, limit: int) -> list[Row]:
    """(id,) of retries of a shard with ids from `after` up to the millisecond `until`."""
    return await tx.fetch("retry.due", shard, after, first_id(until), limit)


async def near(tx: Transaction, since: int, until: int, limit: int) -> list[Timer]:
    """What waits in any shard between two milliseconds, for the sweeps; at most `limit` of each kind."""
    first, end = first_id(since), first_id(until)
    rows = await tx.fetch("delay.near", first, end, limit, since, until, limit, first, end, limit)
    return [(due, ~id_ if of_a_retry else id_) for id_, due, of_a_retry, _ in rows]

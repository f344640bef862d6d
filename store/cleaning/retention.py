"""Retention: removes messages that every group has settled, and rows of the logs, when their time is over, in batches.

A settled message stays settled: only an operator's seek, replay or redrive takes it up again. So a message that one
statement saw settled in every group may be removed at any later time, and consumers wait for no lock meanwhile. (Two
statements would not do: between reading the claims and the retries a message may move from one to the other, and back.)

The hard limit removes messages that nobody settles. It counts from when a group could have had the message, so that no
promised delay is cut short: from when it came into the stream, when its rung was over, or when it came back. A message
with a later `expires_at` is kept until then; one in an open claim, or parked, as long as it is there.

A batch may run again, or twice at once: it removes what there is. Publishers never wait for it: they insert at the end
of a queue, and the removed ranges lie before it.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from attrs import define, field, frozen

from ..expiry import is_past
from ..groups.claims import WIDEST
from ..groups.locked_rows import CursorRow
from ..ids import due_of, first_id, shard_of
from ..ports import Transaction
from ..records import Group, Queue, Topic
from ..rows import Aged, AgedMessage, LockedDead, Resting
from ..stream.offsets import draw_offsets
from ..stream.positions import hold_floors
from ..timers.timers import stream_retries

Row = TypeVar("Row", Aged, AgedMessage)

_CURSOR, _CLAIM, _RETRY, _RETURN, _PARKED = range(5)
_LABELS = 200
"""How many keys a statement has."""
_NO_END = 1 << 62
FIRES = (1, 0)
"""The key of the mark for fires in `archived`, as (group, queue): no group has a log of queue 0."""


@frozen
class Limits:
    """How long rows are kept, in milliseconds."""

    retention: int
    """For messages that every group has settled, in topics without a retention of their own."""
    hard: int
    """For messages, settled or not. A group that nobody has asked for in this time counts as away."""
    history: int
    """For ended claims, seeks, returns from the ladder and cancelled messages."""
    dead: int
    """For dead letters."""

    def of(self, topic: Topic) -> tuple[int, int]:
        """How long settled messages of the topic are kept, and all others: a retention of the topic's own is never cut
        short."""
        keep = self.retention if topic.retention is None else topic.retention
        return keep, max(keep, self.hard)


@frozen
class Removed:
    """The result of a batch, and where the next one begins."""

    rows: int
    next: int
    done: bool
    """There is nothing more to remove for now."""
    expired: Mapping[int, int] = field(factory=dict[int, int])
    """By group id: how many messages expired that the group had not settled."""


@define
class _Wanted:
    """The messages of a span of a queue that groups still need, as of one moment."""

    queue: Queue
    positions: dict[tuple[int, int], int] = field(factory=dict[tuple[int, int], int])
    """The positions of the cursors by group and queue."""
    claims: dict[int, list[range]] = field(factory=lambda: defaultdict[int, list[range]](list))
    """Offsets of this queue whose messages are in open claims, by group."""
    retries: list[tuple[int, int, int]] = field(factory=list[tuple[int, int, int]])
    """(group, retry, offset). The retry's id contains the time at which its rung is over."""
    parked: set[int] = field(factory=set[int])
    """Offsets of messages parked behind one of their key, in an ordered topic. They stay, however old."""
    returns: list[tuple[int, int, int]] = field(factory=list[tuple[int, int, int]])
    """(group, since when, offset) of messages that came back from the ladder and are not settled since."""

    @classmethod
    async def read(cls, tx: Transaction, queue: Queue, groups: Sequence[int], rows: Sequence[AgedMessage]) -> "_Wanted":
        of = list(groups) or [0]
        stretch = (queue.id, rows[0].place, rows[-1].place + 1)
        wanted = cls(queue)
        owners: dict[int, int] = {}
        back: list[tuple[int, int, int, int]] = []
        claimed: dict[int, list[range]] = defaultdict(list)
        asked = (of, of, *stretch, [row.id for row in rows], *stretch)
        for kind, group_id, a, b, c in await tx.fetch("message.wanted", tuple[int, int, int, int, int], *asked):
            if kind == _CURSOR:
                wanted.positions[group_id, a] = b
                owners[a] = group_id  # for the topic's own queue any group, which does no harm: it has no returns
            elif kind == _CLAIM and a == queue.id:
                wanted.claims[group_id].append(range(b, b + c))
            elif kind == _CLAIM:
                claimed[a].append(range(b, b + c))
            elif kind == _RETRY:
                wanted.retries.append((group_id, a, b))
            elif kind == _PARKED:
                wanted.parked.add(b)
            else:
                back.append((group_id, a, b, c))
        for since, queue_id, offset, source in back:
            group = owners.get(queue_id)
            if group is None:
                continue  # the group is gone
            if any(offset in some for some in claimed[queue_id]):
                wanted.claims[group].append(range(source, source + 1))
            elif offset >= wanted.positions[group, queue_id]:
                wanted.returns.append((group, since, source))
        return wanted

    def lost(self, groups: Collection[int], since: int, end: int) -> list[int]:
        """The retries of messages below `end` whose rung was over by `since`."""
        return [id_ for group, id_, o in self.retries if group in groups and o < end and due_of(id_) <= since]

    def offsets(self, since: int) -> set[int]:
        """The offsets that must stay, whatever becomes of retries: claimed, parked, or come back after `since`."""
        stay = {offset for some in self.claims.values() for one in some for offset in one}
        return stay | self.parked | {offset for _, at, offset in self.returns if at > since}


async def clean_messages(
    tx: Transaction, *, topic: Topic, queue: Queue, limits: Limits, now: int, start: int, limit: int
) -> Removed:
    """Removes those messages of one batch of a topic's own queue that may go, from an offset on (0: from its floor)."""
    keep, hard = limits.of(topic)
    end = await _archived(tx, 0, queue.id)
    first = max(start, (await floors(tx, [queue.id]))[queue.id])
    if not _old(await tx.fetch("message.oldest", AgedMessage, queue.id, first, 1), now - keep, end):
        return Removed(0, first, True)  # the usual case, which locks nothing
    # From here on no group can be made unseen: it would begin among the removed messages, and count them as expired.
    floor = (await hold_floors(tx, [queue.id]))[queue.id]
    start = max(start, floor)
    groups = dict(await tx.fetch("consumer_group.seen", tuple[int, int], topic.id))
    if not groups or topic.kind == "broadcast":
        # A first group would begin at the earliest message; and clients of a broadcast topic hold nothing back.
        keep = max(keep, limits.retention)
    page = await tx.fetch("message.oldest", AgedMessage, queue.id, start, limit)
    old = _old(page, now - keep, end)
    if not old:
        return Removed(0, start, True)  # another node has removed them meanwhile
    end = old[-1].place + 1
    since = now - hard
    wanted = await _Wanted.read(tx, queue, sorted(groups), old)
    lagging = {g: wanted.positions[g, queue.id] for g in groups if wanted.positions.get((g, queue.id), end) < end}
    kept_since = now - limits.retention
    end = min([end, *(_stop(old, at, end, since, groups[g] + hard, kept_since) for g, at in lagging.items())])
    rows = [row for row in old if row.place < end]
    lasting = [row for row in rows if row.expires_at is not None and not is_past(row.expires_at, now)]
    kept = {
        group: [row.place for row in lasting if row.place >= position and row.accepted_at < groups[group] + hard]
        for group, position in lagging.items()
    }
    # If a message behind `start` is kept for a group, the group's cursor stays at it.
    ends = {group: min([end, *kept[group]]) for group, position in lagging.items() if position >= start}
    # Locks in the general order: retries, cursors, sequences; then the rows that are written.
    lost = wanted.lost(groups, since, end)
    back = await tx.fetch("retry.lock", Resting, lost) if lost else []
    expired = await _pass_over(tx, queue.id, {g: stop for g, stop in ends.items() if lagging[g] < stop})
    begins: dict[int, int] = {}
    if back:
        # Such a retry has no message any more. It comes back all the same, and counts as expired when it is claimed: so
        # the counters stay correct without any other read.
        begins = await draw_offsets(tx, Counter(row.return_queue_id for row in back))
        back = [row for row in back if row.return_queue_id in begins]  # the groups of the others have been removed
    if back:
        await stream_retries(tx, back, begins, now)
    gone = {row.id for row in back}  # the others still rest, or are locked: they are left for the next time
    stay = wanted.offsets(since) | {offset for _, id_, offset in wanted.retries if id_ not in gone}
    stay |= {offset for some in kept.values() for offset in some}
    removed = await _remove_messages(tx, topic, queue, rows, stay)
    if start == floor and rows:
        await _raise_floor(tx, queue.id, min((offset for offset in stay if start <= offset < end), default=end))
    return Removed(removed, max(start, end), len(old) < limit or end <= old[-1].place, expired)


def _stop(old: Sequence[AgedMessage], position: int, end: int, since: int, away_at: int, kept_since: int) -> int:
    """The first offset that must be kept for a group at this position: of a message that came into the stream after
    `since`. If it was published when nobody had asked for the group for very long, it is kept only if it came after
    `kept_since`."""
    for row in old:
        if row.place >= position and row.at > since and (row.accepted_at < away_at or row.at > kept_since):
            return row.place
    return end


async def _pass_over(tx: Transaction, queue_id: int, ends: Mapping[int, int]) -> dict[int, int]:
    """Moves the cursors of groups up to their `ends`; counts the messages that they pass over as expired."""
    expired: dict[int, int] = {}
    for group_id, end in sorted(ends.items()):
        for cursor in await tx.fetch("cursor.lock", CursorRow, group_id, [queue_id]):
            if cursor.position < end:  # the group may have moved on by itself
                expired[group_id] = end - cursor.position
                await tx.execute("cursor.expire", end, cursor.expired + expired[group_id], group_id, queue_id)
    return expired


async def _remove_messages(
    tx: Transaction, topic: Topic, queue: Queue, rows: Sequence[AgedMessage], stay: set[int]
) -> int:
    removed = 0
    for first, last in _runs(rows, stay):
        removed += await tx.execute("message.remove", queue.id, first, last + 1)
    gone = [row for row in rows if row.place not in stay]
    await remove_labels(tx, [(topic.id, row.key, row.id) for row in gone if row.key is not None])
    return removed


def _runs(rows: Sequence[Row], stay: set[int]) -> list[tuple[int, int]]:
    """The first and the last offset of each run of rows between those that stay."""
    runs: list[tuple[int, int]] = []
    going_on = False
    for row in rows:
        if row.place in stay:
            going_on = False
            continue
        first = runs.pop()[0] if going_on else row.place
        runs.append((first, row.place))
        going_on = True
    return runs


async def remove_labels(tx: Transaction, labels: Iterable[tuple[int, bytes, int]]) -> None:
    """Removes the labels (keys) of these messages, each as (topic, key, id)."""
    rows = sorted(labels)
    for at in range(0, len(rows), _LABELS):
        await tx.execute("label.remove", rows[at : at + _LABELS])


async def clean_returns(
    tx: Transaction, *, group: Group, queue: Queue, limits: Limits, now: int, start: int, limit: int
) -> Removed:
    """Removes settled returns from a group's retry queue. Past the hard limit, the group's cursor passes over unsettled
    ones."""
    _, hard = limits.of(group.topic)
    cursor = await tx.fetch("cursor.position", int, group.id, queue.id)
    if not cursor:
        return Removed(0, start, True)  # the group is gone
    (position,) = cursor
    # The position is read first: all returns below it are in a claim, or settled.
    spans = await tx.fetch("claim.spans", tuple[int, int], group.id, queue.id)
    claims = [range(first, first + size) for first, size in spans]
    floor = (await floors(tx, [queue.id]))[queue.id]
    start = max(start, floor)
    if not _old(await tx.fetch("redelivery.oldest", Aged, queue.id, start, 1), now - limits.history, _NO_END):
        return Removed(0, start, True)
    page = await tx.fetch("redelivery.oldest", Aged, queue.id, start, limit)
    old = _old(page, now - limits.history, _NO_END)
    overdue = _old(page, now - max(hard, limits.history), _NO_END)
    expired: dict[int, int] = {}
    if overdue and overdue[-1].place >= position:
        position = overdue[-1].place + 1
        expired = await _pass_over(tx, queue.id, {group.id: position})
    rows = [row for row in old if row.place < position]
    if not rows:
        return Removed(0, start, True, expired)
    stay = {offset for one in claims for offset in one} | await _unarchived_returns(tx, group.id, queue.id, rows)
    removed = 0
    for first, last in _runs(rows, stay):
        removed += await tx.execute("redelivery.expunge", queue.id, first, last + 1)
    end = rows[-1].place + 1
    if start == floor:
        await _raise_floor(tx, queue.id, min((row.place for row in rows if row.place in stay), default=end))
    return Removed(removed, end, len(rows) < limit, expired)


async def _unarchived_returns(tx: Transaction, group_id: int, queue_id: int, rows: Sequence[Aged]) -> set[int]:
    """The offsets of these returns whose deliveries are not archived: the archive reads returns to know what was
    delivered."""
    end = await _archived(tx, group_id, queue_id)
    if end == _NO_END:
        return set()
    begin, last = rows[0].place, rows[-1].place
    wide = await tx.fetch("delivery.unarchived", tuple[int, int], group_id, queue_id, begin - WIDEST, last, end)
    return {offset for first, size in wide for offset in range(max(first, begin), min(first + size, last + 1))}


async def clean_deliveries(
    tx: Transaction, *, group_id: int, queue_id: int, limits: Limits, now: int, start: int, limit: int
) -> Removed:
    """Removes ended claims from the log of a cursor, from a number on."""
    end = await _archived(tx, group_id, queue_id)
    if not _old(await tx.fetch("delivery.oldest", Aged, group_id, queue_id, start, 1), now - limits.history, end):
        return Removed(0, start, True)
    rows = _old(await tx.fetch("delivery.oldest", Aged, group_id, queue_id, start, limit), now - limits.history, end)
    if not rows:
        return Removed(0, start, True)  # another node has removed them meanwhile
    end = rows[-1].place + 1
    removed = await tx.execute("delivery.expunge", group_id, queue_id, rows[0].place, end)
    await taken_until(tx, b"delivery", max(row.at for row in rows))
    return Removed(removed, end, len(rows) < limit)


async def clean_seeks(
    tx: Transaction, *, group_id: int, queue_id: int, limits: Limits, now: int, start: int, limit: int
) -> Removed:
    """Removes seeks from the log of a cursor, from a number on; they are numbered together with its deliveries."""
    end = await _archived(tx, group_id, queue_id)
    rows = _old(await tx.fetch("seek.oldest", Aged, group_id, queue_id, start, limit), now - limits.history, end)
    if not rows:
        return Removed(0, start, True)
    end = rows[-1].place + 1
    removed = await tx.execute("seek.expunge", group_id, queue_id, rows[0].place, end)
    return Removed(removed, end, len(rows) < limit)


async def clean_dead(
    tx: Transaction, *, group_id: int, limits: Limits, now: int, start: int = 0, limit: int
) -> Removed:
    """Removes a batch of a group's dead letters, oldest first."""
    del start  # what went is gone
    until = min(now - limits.dead, await _archived_until(tx))
    page = await tx.fetch("dead.oldest", tuple[int, int, int], group_id, until, limit)
    if not page:
        return Removed(0, 0, True)
    # Cursors before dead letters, the general order of locks; then those letters that did not die again meanwhile.
    await tx.fetch("cursor.lock", CursorRow, group_id, sorted({queue_id for _, queue_id, _ in page}))
    letters = await tx.fetch("dead.named", LockedDead, group_id, sorted(id_ for id_, *_ in page))
    gone = [letter for letter in letters if letter.dead_at <= until]
    if gone:
        await tx.execute("dead.remove_all", group_id, [letter.id for letter in gone])
        for queue_id, many in sorted(Counter(letter.queue_id for letter in gone).items()):
            await tx.execute("cursor.cleared", many, group_id, queue_id)
        await taken_until(tx, b"dead", max(letter.dead_at for letter in gone))
    return Removed(len(gone), 0, len(page) < limit)


async def clean_readers(
    tx: Transaction, *, group: Group, limits: Limits, now: int, start: int = 0, limit: int
) -> Removed:
    """Removes the offsets of broadcast clients that have not asked for as long as the hard limit: the messages at these
    offsets are gone."""
    del start  # what went is gone
    _, hard = limits.of(group.topic)
    page = await tx.fetch("reader.silent", tuple[bytes, int, int], group.id, now - hard, limit)
    if not page:
        return Removed(0, 0, True)
    # By client, in the order of locks; the time is checked again, since a client may ask at this moment.
    removed = await tx.execute("reader.expunge", group.id, sorted({client for client, *_ in page}), now - hard)
    return Removed(removed, 0, len(page) < limit)


class _OldCancelled(NamedTuple):
    id: int
    topic_id: int
    key: bytes | None
    cancelled_at: int


async def clean_cancelled(tx: Transaction, *, shard: int, limits: Limits, now: int, start: int, limit: int) -> Removed:
    """Removes cancelled messages of a shard, from an id on, by the time in their ids.

    So an id becomes free only when no message can be scheduled under it any more; and no further index is needed.
    """
    until = min(now - limits.history, await _archived_until(tx))
    page = await tx.fetch("cancelled.oldest", _OldCancelled, shard, start, first_id(max(until, 0)), limit)
    gone = [row for row in page if row.cancelled_at <= until]
    if gone:
        await tx.execute("cancelled.expunge", [row.id for row in gone])
        await remove_labels(tx, [(row.topic_id, row.key, row.id) for row in gone if row.key is not None])
        await taken_until(tx, b"cancelled", max(row.cancelled_at for row in gone))
    after = page[-1].id + 1 if page else start
    return Removed(len(gone), after, len(page) < limit)


async def clean_moved(tx: Transaction, *, shard: int, now: int, start: int = 0, limit: int) -> Removed:
    """Removes pointers whose message is gone: they were left by users' own transactions."""
    del start  # what went is gone
    rows = await tx.fetch("moved.orphans", tuple[int, int], shard, now, limit)
    for due, id_ in rows:
        await tx.execute("moved.remove", shard_of(id_), due, id_)
    return Removed(len(rows), 0, len(rows) < limit)


async def floors(tx: Transaction, queue_ids: Sequence[int]) -> dict[int, int]:
    """The lowest offset that may still exist, by queue id."""
    found = dict(await tx.fetch("cleaned.find", tuple[int, int], list(queue_ids))) if queue_ids else {}
    return {queue_id: found.get(queue_id, 0) for queue_id in queue_ids}


async def _raise_floor(tx: Transaction, queue_id: int, floor: int) -> None:
    if not await tx.execute("cleaned.move", floor, floor, queue_id):
        await tx.execute_many("cleaned.add", [(queue_id, 0)])  # another may have added it meanwhile
        await tx.execute("cleaned.move", floor, floor, queue_id)


async def taken_until(tx: Transaction, what: bytes, until: int) -> None:
    """Records that rows up to this time may be gone: with an archive, an audit reports only later ones as missing."""
    if not await tx.execute("cleaned_until.move", until, until, what):
        await tx.execute_many("cleaned_until.add", [(what, until)])


async def see(tx: Transaction, group_ids: Sequence[int], now: int) -> None:
    """Records that these groups were asked for."""
    for group_id in sorted(group_ids):
        await tx.execute("consumer_group.see", now, group_id)


async def _archived(tx: Transaction, group_id: int, queue_id: int) -> int:
    """The number or offset from which on rows are not archived: with archiving on, these are not removed."""
    marks = {
        (group, queue): upto for group, queue, upto in await tx.fetch("archived.find", tuple[int, int, int], queue_id)
    }
    if (0, 0) not in marks:
        return _NO_END  # no archiving
    return marks.get((group_id, queue_id), 0)


async def _archived_until(tx: Transaction) -> int:
    """The time up to which rows without offsets are archived."""
    return (await _marks_of_times(tx)).get((0, 0), _NO_END)


async def fires_archived_until(tx: Transaction) -> int:
    """The time up to which fires of schedules are archived: 0 with archiving on and none archived yet, so they stay."""
    marks = await _marks_of_times(tx)
    return marks.get(FIRES, 0) if (0, 0) in marks else _NO_END


async def _marks_of_times(tx: Transaction) -> dict[tuple[int, int], int]:
    """The marks in `archived` that are times, by group and queue."""
    return {(group, queue): upto for group, queue, upto in await tx.fetch("archived.find", tuple[int, int, int], 0)}


def _old(rows: Sequence[Row], until: int, end: int) -> Sequence[Row]:
    """The first rows that are not later than `until`, and lie below `end`."""
    for many, row in enumerate(rows):
        if row.at > until or row.place >= end:
            return rows[:many]
    return rows

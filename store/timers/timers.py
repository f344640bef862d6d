"""Waiting messages and retries: promotion, cancel, reschedule and the due scans over `delay` and `retry`.

One row decides between promotion, cancel and reschedule: the transaction that locks it wins. Promotion locks the due
rows first and copies exactly those. A copy without the lock could deliver a message whose cancel was answered
`cancelled`, because under READ COMMITTED an INSERT ... SELECT does not lock its source.

In the wheel a message is entered by its id and a retry by `~id`, which is negative, so that one wheel drives both.
"""

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, TypeVar

from attrs import define, field

from ..errors import Refused
from ..expiry import is_past
from ..ids import SHARDS, apart, due_of, first_id, place_of, places_of, shard_in_delay, shard_of
from ..ports import Transaction, Value
from ..records import Promoted, Topic, Verdict
from ..rows import GUARDED, OF_SCHEDULE, SUPPRESSED, Cancelled, Due, OutboxEnd, Resting, Scheduled, Streamed, Waiting
from ..schedules.course import Fired
from ..stream.offsets import draw_free, draw_offsets, lock_free
from ..stream.tallies import count, locked_tallies
from . import forecast
from .order import Found, Orders, overtaking

L = TypeVar("L", Waiting, Due)

Timer = tuple[int, int]
"""(due, entry): entry is the id of a message, or `~id` of a retry."""

LOST = "its message is not there"

Scan = tuple[int, int]
"""(id, due): a row of a due scan. A plain tuple, since a start reads hundreds of thousands of them and turns them into
columns again."""

ByQueue = dict[int, list[int]]
"""Entries by the id of the queue that they go to."""


class Brought(NamedTuple):
    """What has become of entries that were to be promoted."""

    promoted: list[Promoted]
    held: ByQueue
    """Entries that cannot go now."""
    left: Sequence[int]
    """The last of the entries, which were not tried yet."""
    guarded: Mapping[int, str]
    """Messages that are due and whose guards have to be asked, with their guards' names."""
    fired: Fired
    """Which messages of schedules wait or no longer wait since."""


class Judged(NamedTuple):
    """What becomes of messages that are not simply moved: those with a schedule or a guard."""

    sent: list[Due]
    """Messages that go to the stream now."""
    left: Collection[int] = ()
    """Messages whose schedule or tally is locked by another transaction; they stay where they are."""
    waiting: Sequence[Found] = ()
    """Messages of ordered topics that wait from now on and are due already."""


class Judge(Protocol):
    """Decides what becomes of messages that are not simply moved."""

    async def judge(self, tx: Transaction, rows: Sequence[Due]) -> Judged:
        """Decides what becomes of these messages, locked and due."""
        ...


@define
class Promotion:
    """Moves due entries to the stream, in one transaction.

    Messages of an outbox are counted here, in this shard of the tally, since their publish must lock no counter.
    Messages of schedules go as `judge` decides, those with a guard as `guarding` decides; without one they stay. With
    `orders`, earlier due messages of the same order go along, or the message is held back, even where queues are waited
    for; locked messages of an order are held back, too.
    """

    tx: Transaction
    now: int
    tally_shard: int = 0
    judge: Judge | None = None
    guarding: Judge | None = None
    orders: Orders | None = None
    held: ByQueue = field(factory=dict[int, list[int]], init=False)
    """Entries that were held back."""
    _due: list[Due] = field(factory=list[Due], init=False)
    _back: list[Resting] = field(factory=list[Resting], init=False)

    async def promote_pieces(
        self, entries: Sequence[int], piece: int, enough: Callable[[], bool], behind: Collection[int] | None
    ) -> tuple[list[Promoted], int]:
        """Promotes one piece of the entries after another, until it is `enough`; also returns how many entries that
        were."""
        promoted: list[Promoted] = []
        done = 0
        for begin in range(0, len(entries), max(1, piece)):
            if done and enough():
                break
            some = entries[begin : begin + piece]
            promoted += await self.promote(some, behind if behind is None else {*behind, *self.held})
            done += len(some)
        return promoted, done

    async def promote(self, entries: Sequence[int], behind: Collection[int] | None = None) -> list[Promoted]:
        """Moves those of these entries that are due to the stream, and returns them.

        Rows that are gone, locked by another transaction or not yet due at `now` are left alone. With `behind` nothing
        is waited for: entries for a locked queue are held back, and so are entries for the queues in `behind`, for
        which others are held back already.
        """
        tx = self.tx
        await self._lock_entries(entries)
        theirs = [] if self.orders is None else await self.orders.in_other_hands(tx, entries, self._due, self.now)
        self._hold(theirs)
        if behind is not None:
            self._hold_back(set(behind))
        known: Mapping[int, Found] = {}
        if self.orders is not None and (ordered := await self.orders.in_order(tx, self._due)):
            known = await self._put_in_order(self.orders, ordered, theirs, wait=behind is None)
        if behind is not None:
            topics = await locked_tallies(tx, {row.topic_id for row in self._due if row.uncounted}, self.tally_shard)
            self._hold_back({row.queue_id for row in self._due if row.uncounted and row.topic_id in topics})
        special = [row for row in self._due if row.special]
        if special:
            self._due = [row for row in self._due if not row.special]
            for bit, one in ((OF_SCHEDULE, self.judge), (GUARDED, self.guarding)):
                if one is not None and (some := [row for row in special if row.special == bit]):
                    judged = await one.judge(tx, some)
                    self._due += judged.sent
                    if self.orders is not None and (judged.left or judged.waiting):
                        await self._put_behind_its_schedule(self.orders, judged, some, known)
        uncounted = Counter([row.topic_id for row in self._due if row.uncounted])
        for topic_id in sorted(uncounted):
            await count(tx, topic_id, self.tally_shard, scheduled=uncounted[topic_id])
        # Sequence rows come last in the order of locks, all in one statement.
        owned = Counter([(row.queue_id, row.topic_id) for row in self._due])
        owned.update([(row.return_queue_id, -row.group_id) for row in self._back])
        wanted: dict[int, int] = defaultdict(int)
        for (queue_id, _), many in owned.items():
            wanted[queue_id] += many
        if behind is None:
            begins = await draw_offsets(tx, wanted, owned) if wanted else {}
        else:
            begins, locked = await draw_free(tx, wanted, owned)
            await _make_plain(tx, [row for row in self._due if row.queue_id in locked])
            self._hold_back(locked)
            # Messages held back are counted when they go. (The tallies are locked already, and come before the queues.)
            too_early = uncounted - Counter([row.topic_id for row in self._due if row.uncounted])
            for topic_id in sorted(too_early):
                await count(tx, topic_id, self.tally_shard, scheduled=-too_early[topic_id])
        await _drop(tx, [row for row in self._due if row.queue_id not in begins])
        due = [row for row in self._due if row.queue_id in begins]
        # Retries of a removed group are removed with it.
        back = [row for row in self._back if row.return_queue_id in begins]
        if due:
            await _stream_messages(tx, due, begins, self.now)
        if back:
            if not all(row.is_there for row in back):
                raise Refused(LOST)
            await stream_retries(tx, back, begins, self.now)
        promoted = [Promoted(id_, queue_id, at, bool(uncounted)) for id_, at, _, queue_id, uncounted, _, _ in due]
        return promoted + [Promoted(~row.id, row.return_queue_id, due_of(row.id)) for row in back]

    async def _lock_entries(self, entries: Sequence[int]) -> None:
        """Locks the messages and the retries among these entries that are due and that no other transaction holds."""
        messages = [entry for entry in entries if entry >= 0]
        retries = [~entry for entry in entries if entry < 0]
        locked = await _lock(messages, lambda places: self.tx.fetch("delay.lock_due", Due, places))
        self._due = [row for row in locked if row.due <= self.now]
        resting = await self.tx.fetch("retry.lock", Resting, retries) if retries else []
        self._back = [row for row in resting if due_of(row.id) <= self.now]
        # They come shard by shard, and return by due time; within a millisecond, by their place in the stream.
        self._back.sort(key=lambda row: (due_of(row.id), row.message_queue_id, row.message_offset))

    def _hold(self, rows: Iterable[Due]) -> None:
        for row in rows:
            self.held.setdefault(row.queue_id, []).append(row.id)

    def _hold_back(self, queues: Collection[int]) -> None:
        """Holds back the messages and retries that go to these queues."""
        if not queues:
            return
        self._hold(row for row in self._due if row.queue_id in queues)
        for row in self._back:
            if row.return_queue_id in queues:
                self.held.setdefault(row.return_queue_id, []).append(~row.id)
        self._due = [row for row in self._due if row.queue_id not in queues]
        self._back = [row for row in self._back if row.return_queue_id not in queues]

    async def _put_in_order(
        self, orders: Orders, ordered: Sequence[Due], theirs: Sequence[Due], *, wait: bool
    ) -> Mapping[int, Found]:
        """Locks the queues of the ordered messages, and adds earlier messages of their orders. These are locked after
        the queues, and therefore without waiting. Returns all messages that were found, with their rank in the
        order."""
        if left := {row.id for row in ordered if orders.is_left_alone(row)}:
            self._due = [row for row in self._due if row.id not in left]
            ordered = [row for row in ordered if row.id not in left]
            if not ordered:
                return {}
        if wait:
            await self.tx.fetch("queue.lock", tuple[int, int, int], sorted({row.queue_id for row in self._due}))
        else:
            _, locked = await lock_free(self.tx, {row.queue_id for row in ordered})
            self._hold_back(locked)
            ordered = [row for row in ordered if row.queue_id not in locked]
        if not ordered:
            return {}
        along, later, known = await orders.complete(self.tx, ordered, theirs, self.now)
        due = self._due + along
        self._hold(row for row in due if row.id in later)
        self._due = [row for row in due if row.id not in later]
        return known

    async def _put_behind_its_schedule(
        self, orders: Orders, judged: Judged, asked: Sequence[Due], known: Mapping[int, Found]
    ) -> None:
        """In an ordered topic, holds back the messages that are later than a schedule's message that waits."""
        left = [
            row
            for row in asked
            if row.id in judged.left and row.id in known and not orders.is_overtaken(~row.id, self.now)
        ]
        later = overtaking([row.id for row in self._due], known, [*judged.waiting, *(known[row.id] for row in left)])
        # Not where a release rate applies: there a schedule's late message comes after the messages that were there.
        behind = [row for row in self._due if row.id in later and not orders.rated(row.topic_id)]
        self._hold(left + behind)
        await _make_plain(self.tx, behind)
        gone = {row.id for row in behind}
        self._due = [row for row in self._due if row.id not in gone]


async def _make_plain(tx: Transaction, rows: Iterable[Due]) -> None:
    """Makes the schedules' messages among these, which are held back, plain ones: they have had their turn."""
    if judged := [row.place for row in rows if row.special == OF_SCHEDULE]:
        await tx.later_exactly(len(judged), "delay.make_plain", judged)


async def queues_of(tx: Transaction, entries: Sequence[int]) -> ByQueue:
    """The queues that these entries go to, read without locks; entries that are gone are left out."""
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
    """Locks the rows of those waiting messages that no other transaction holds."""
    return await _lock(ids, lambda places: tx.fetch("delay.lock", Waiting, places))


async def _lock(ids: Collection[int], ask: Callable[[list[int]], Awaitable[list[L]]]) -> list[L]:
    """Looks for each message in its own place first, since few were rescheduled; and only for the missing ones
    apart."""
    if not ids:
        return []
    rows = await ask(list(ids))
    if len(rows) < len(ids) and (missing := set(ids).difference([row.id for row in rows])):
        rows += await ask(apart(missing))
    return rows


async def remove_waiting(tx: Transaction, rows: Collection[Waiting | Due]) -> None:
    """Removes locked rows, and the pointers to those that were rescheduled."""
    places = [row.id if row.shard < SHARDS else ~row.id for row in rows]
    for place, row in zip(places, rows, strict=True):
        if place < 0:
            await tx.later("moved.remove", shard_of(row.id), row.due, row.id)
    await tx.later_exactly(len(rows), "delay.remove", places)


async def _stream_messages(tx: Transaction, due: Sequence[Due], begins: dict[int, int], now: int) -> None:
    by_queue: dict[int, list[int]] = defaultdict(list)
    for id_, _, _, queue_id, _, _, shard in due:
        by_queue[queue_id].append(id_ if shard < SHARDS else ~id_)
    for queue_id, places in by_queue.items():
        await tx.later_exactly(len(places), "message.promote", begins[queue_id], now, places)
    await remove_waiting(tx, due)


async def stream_retries(tx: Transaction, back: Sequence[Resting], begins: dict[int, int], now: int) -> None:
    """Moves locked retries into their retry queues, from these offsets on."""
    ends = dict(begins)
    rows: list[Sequence[Value]] = []
    for row in back:
        source = (row.message_queue_id, row.message_offset, row.message_id, row.attempt, row.history)
        rows.append((row.return_queue_id, ends[row.return_queue_id], row.id, *source, now, row.losses))
        ends[row.return_queue_id] += 1
    await tx.later_many("redelivery.add", rows)
    ids = [row.id for row in back]
    await tx.later_exactly(len(ids), "retry.remove", ids)


async def _drop(tx: Transaction, orphans: Sequence[Due]) -> None:
    """Removes messages whose topic is gone: their outbox was committed only after that, so nobody can be told.

    A message whose topic exists stays: somebody has written a wrong queue, which may be repaired.
    """
    if not orphans:
        return
    there = dict(await tx.fetch("topic.names", tuple[int, str], sorted({row.topic_id for row in orphans})))
    if not (orphans := [row for row in orphans if row.topic_id not in there]):
        return
    rows = await lock_waiting(tx, [row.id for row in orphans])  # read again, with their keys
    await remove_waiting(tx, rows)
    for row in rows:
        if row.key is not None:
            await tx.execute("label.remove", [(row.topic_id, row.key, row.id)])


async def cancel(tx: Transaction, ids: Sequence[int], now: int, tally_shard: int) -> list[Verdict]:
    """Cancels those of these messages that still wait; each verdict is final once this is committed.

    A message that cannot be counted, because another transaction holds its topic's tally, is `locked`, as if its own
    row were.
    """
    rows = {row.id: row for row in await lock_waiting(tx, ids)}
    locked = await locked_tallies(tx, {row.topic_id for row in rows.values()}, tally_shard)
    rows = {id_: row for id_, row in rows.items() if row.topic_id not in locked}
    if rows:
        await cancel_locked(tx, rows.values(), now, tally_shard)
    others = await _elsewhere(tx, [id_ for id_ in ids if id_ not in rows])
    verdicts: list[Verdict] = []
    for id_ in ids:
        taken_now = rows.pop(id_, None)
        if taken_now is not None:
            topic, due, heard = taken_now.topic_id, taken_now.due, bool(taken_now.uncounted)
            recurs = taken_now.special == OF_SCHEDULE
            verdicts.append(Verdict("cancelled", topic=topic, due_before=due, first_heard=heard, of_schedule=recurs))
            others[id_] = Verdict("cancelled", fresh=False, topic=topic)  # the same id twice in one batch
        else:
            verdicts.append(others[id_])
    return verdicts


async def labelled(
    tx: Transaction, topic: Topic, key: str, after: int, limit: int
) -> tuple[list[int], int, int | None]:
    """Of a page of the messages of a key: those that wait, how many are in the stream, and where the next page begins,
    None after the last."""
    page = await tx.fetch("label.find", int, topic.id, key.encode(), after, limit)
    if not page:
        return [], 0, None
    waiting = [id_ for id_, _ in await tx.fetch("delay.queues", tuple[int, int], places_of(page))]
    (streamed,) = await tx.fetch("message.count", int, page)
    return waiting, streamed, page[-1] if len(page) == limit else None


async def cancel_locked(
    tx: Transaction, rows: Collection[Waiting], now: int, tally_shard: int, *, guards: Mapping[int, str] | None = None
) -> None:
    """Cancels locked messages; with `guards`, the names of their guards by message, suppresses them."""
    await remove_waiting(tx, rows)
    await forecast.tell(tx, now, gone=[(row.topic_id, row.due) for row in rows])
    taken: list[Sequence[Value]] = []
    ended: dict[int, int] = defaultdict(int)
    scheduled: dict[int, int] = defaultdict(int)
    for row in rows:
        times = (row.accepted_at, row.deliver_at, now)
        reason = () if guards is None else (SUPPRESSED, guards[row.id].encode())
        taken.append((shard_of(row.id), row.id, row.nonce, row.topic_id, row.key, *times, *reason))
        ended[row.topic_id] += 1
        scheduled[row.topic_id] += row.uncounted
    await tx.execute_many("cancelled.add" if guards is None else "cancelled.add_suppressed", taken)
    what = "cancelled" if guards is None else "suppressed"
    for topic_id in sorted(ended):
        await count(tx, topic_id, tally_shard, scheduled=scheduled[topic_id], **{what: ended[topic_id]})


async def count_outbox(tx: Transaction, tally_shard: int, limit: int) -> dict[int, tuple[int, int]]:
    """Counts a batch of messages that outboxes have cancelled or replaced. Returns by topic id how many were cancelled,
    and for how many of all the publish was counted as well."""
    rows: list[OutboxEnd] = []
    locked = {0}  # no topic has this id
    while not rows and (some := await tx.fetch("outbox_cancel.lock", OutboxEnd, sorted(locked), limit)):
        locked |= await locked_tallies(tx, {row.topic_id for row in some}, tally_shard)
        rows = [row for row in some if row.topic_id not in locked]  # if none is left, other rows may lie behind these
    ended = Counter([row.topic_id for row in rows])
    replaced = Counter([row.topic_id for row in rows if row.replaced])
    scheduled = Counter([row.topic_id for row in rows if row.scheduled])
    for topic_id in sorted(ended):
        cancelled = ended[topic_id] - replaced[topic_id]
        await count(
            tx, topic_id, tally_shard, scheduled=scheduled[topic_id], cancelled=cancelled, replaced=replaced[topic_id]
        )
    if rows:
        ids = [row.id for row in rows]
        await tx.later_exactly(len(ids), "outbox_cancel.remove", ids)
    return {topic_id: (many - replaced[topic_id], scheduled[topic_id]) for topic_id, many in ended.items()}


async def reschedule(tx: Transaction, moves: Sequence[tuple[int, int]], now: int) -> list[Verdict]:
    """Gives waiting messages another time, each as (id, deliver_at); they keep their ids and rows.

    A row whose time differs from that of its id moves to a shard apart, with a pointer in `moved`: in its old place,
    each sweep for due messages would read it in vain.
    """
    rows = {row.id: row for row in await lock_waiting(tx, [id_ for id_, _ in moves])}
    others = await _elsewhere(tx, [id_ for id_, _ in moves if id_ not in rows])
    dues, places = {id_: row.due for id_, row in rows.items()}, {id_: row.place for id_, row in rows.items()}
    verdicts: list[Verdict] = []
    come: list[tuple[int, int]] = []
    gone: list[tuple[int, int]] = []
    for id_, deliver_at in moves:
        if id_ not in rows:
            verdicts.append(others[id_])
            continue
        before, due, expires_at = dues[id_], max(deliver_at, now), rows[id_].expires_at
        if is_past(expires_at, due):
            verdicts.append(Verdict("expires", topic=rows[id_].topic_id, expires_at=expires_at))
            continue
        if before != due_of(id_):
            await tx.execute("moved.remove", shard_of(id_), before, id_)
        if due != due_of(id_):
            await tx.execute_many("moved.add", [(shard_of(id_), due, id_)])
        place = place_of(id_, due)
        await tx.execute("delay.move", shard_in_delay(place), due, deliver_at, [places[id_]])
        dues[id_], places[id_] = due, place
        topic = rows[id_].topic_id
        come += [(topic, due)]
        gone += [(topic, before)]
        verdicts.append(Verdict("rescheduled", topic=topic, due_before=before, due=due, deliver_at=deliver_at))
    await forecast.tell(tx, now, come, gone)
    return verdicts


class Fate(NamedTuple):
    """What became of a message whose waiting row could not be locked."""

    result: Literal["locked", "cancelled", "suppressed", "too_late", "not_found"]
    topic: int | None = None
    queue: int | None = None
    offset: int | None = None
    """Where the message is in the stream, if it is too late."""


async def fates(tx: Transaction, ids: Sequence[int]) -> dict[int, Fate]:
    """What became of messages whose waiting row could not be locked."""
    if not ids:
        return {}
    found = dict.fromkeys(ids, Fate("not_found"))
    # In the order in which a row can move, so that one that leaves `delay` meanwhile is found in its new place.
    for waiting in await tx.fetch("delay.find", Scheduled, places_of(ids)):
        found[waiting.id] = Fate("locked", waiting.topic_id)
    for cancelled in await tx.fetch("cancelled.find", Cancelled, ids):
        found[cancelled.id] = Fate(cancelled.state, cancelled.topic_id)
    for streamed in await tx.fetch("message.find", Streamed, ids):
        found[streamed.id] = Fate("too_late", streamed.topic_id, streamed.number, streamed.offset)
    if any(fate.result == "not_found" for fate in found.values()):
        await tx.note()
    return found


async def _elsewhere(tx: Transaction, ids: Sequence[int]) -> dict[int, Verdict]:
    found = await fates(tx, ids)
    return {
        id_: Verdict(one.result, fresh=one.result not in ("cancelled", "suppressed"), topic=one.topic)
        for id_, one in found.items()
    }


async def due_messages(tx: Transaction, shard: int, after: int, until: int, limit: int) -> list[Scan]:
    """Messages of a shard with ids from `after` up to the millisecond `until`, without those that were rescheduled."""
    return await tx.fetch("delay.due", tuple[int, int], shard, after, first_id(until), limit)


async def due_moved(tx: Transaction, shard: int, after: Timer, until: int, limit: int) -> list[Scan]:
    """Rescheduled messages of a shard, due after `after` and before `until`."""
    return await tx.fetch("moved.due", tuple[int, int], shard, after[0], after[0], after[1], until, limit)


async def due_retries(tx: Transaction, shard: int, after: int, until: int, limit: int) -> list[int]:
    """The ids of retries of a shard, from `after` up to the millisecond `until`."""
    return await tx.fetch("retry.due", int, shard, after, first_id(until), limit)


async def near(
    tx: Transaction,
    since: int,
    until: int,
    limit: int,
    untils: Mapping[int, int] | None = None,
    but: Sequence[int] = (),
) -> list[Timer]:
    """Messages and retries that are due between two milliseconds, for the sweeps; at most `limit` of each kind.
    `untils` has other ends for some shards. Messages of the topics in `but` are left out, unless they were
    rescheduled."""
    ends = dict.fromkeys(range(SHARDS), until) | dict(untils or {})
    by_due = [(shard, since, end) for shard, end in ends.items()]
    by_id = [(shard, first_id(since), first_id(end)) for shard, end in ends.items()]
    rows = await tx.fetch("delay.near", tuple[int, int, int, int], by_id, [0, *but], limit, by_due, limit, by_id, limit)
    return [(due, ~id_ if of_a_retry else id_) for id_, due, of_a_retry, _ in rows]

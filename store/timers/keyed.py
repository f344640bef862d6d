"""Timers by key: at most one message of each key of a topic waits. A timer is set, set again, kept, put off, cancelled.

A timer is a row of `timer`, which names its message; the message is like any other, and has the timer's key. To set or
cancel a timer, its row is locked first and then its message's, so that two transactions never both set it. Promotion
knows nothing of timers and locks the message's row alone. So that row decides between set, cancel and promotion. A
replaced message is counted, and leaves nothing else behind.

When a timer is set again, its message gets a new id that contains the new time: a message that kept its id and was
moved a thousand times would be read at its old time by each scan.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

import msgspec
from attrs import define, field

from ..errors import TopicGone
from ..ids import IdMaker, due_of, places_of, random_nonce
from ..ports import Transaction, Value
from ..records import Draft, Topic
from ..rows import Cancelled, Streamed, TimerRow, Waiting
from ..stream import idempotency
from ..stream.publishing import add_waiting, are_special, waiting_id, waiting_row
from ..stream.tallies import count
from . import forecast
from .timers import Fate, cancel_locked, fates, lock_waiting, remove_waiting

Mode = Literal["replace", "keep", "debounce"]
Key = tuple[int, bytes]
_Row = tuple[int, bytes, int, int, int]
Result = Literal[
    "made", "replaced", "kept", "cancelled", "suppressed", "too_late", "unmatched", "not_found", "conflict", "locked"
]
"""`suppressed`: the guard had suppressed the message before. `unmatched`: the timer is not at the revision that was
asked for. `conflict`: the idempotency key was used with another request. `locked`: another transaction holds the timer
at this moment; ask again."""


class Wish(msgspec.Struct, frozen=True):
    """A request to set or cancel the timer of a key."""

    topic: Topic
    key: str
    draft: Draft | None = None
    """The new message, with its time; None: cancel the waiting one."""
    mode: Mode = "replace"
    """What happens to a message that waits already: it is replaced; it is kept; or (`debounce`) it is replaced, and the
    new one waits no longer than `longest` from when the timer was first set."""
    longest: int | None = None
    """Milliseconds."""
    revision: int | None = None
    """Do it only if the timer is at this revision."""
    absent: bool = False
    """Do it only if no message waits."""
    idempotency_key: str | None = None
    fingerprint: bytes = b""
    """SHA-256 of the request as sent."""

    @property
    def of(self) -> Key:
        """The timer, as topic id and key."""
        return self.topic.id, self.key.encode()


class Answer(msgspec.Struct, frozen=True):
    """The answer to a wish; exact, since it is decided by locked rows. Times are Unix milliseconds."""

    result: Result
    id: int = 0
    """The id of the message that waits now, or was the last to wait."""
    revision: int = 0
    deliver_at: int = 0
    replaced: int | None = None
    """The message that waited before."""
    due: int = 0
    """When the wheel is to fire: `deliver_at`, or later when that millisecond is full or past."""
    queue: int | None = None
    offset: int | None = None
    """Where the message is in the stream, if it is too late."""
    fresh: bool = True
    """False when the message had been cancelled before."""
    due_before: int | None = None
    """When the message was due that no longer waits."""
    first_heard: bool = False
    """That message came from an outbox, and this transaction has counted its publish in the topic's counters."""
    replayed: bool = False


class _Step(msgspec.Struct):
    """A wish whose timer is locked, with what was found."""

    place: int
    wish: Wish
    timer: TimerRow | None
    waiting: Waiting | None
    fate: Fate


@define
class Setting:
    """One run of one batch of wishes, made anew for each run. The answers count once the transaction is committed."""

    ids: IdMaker
    now: int
    window: int
    """How long an idempotency key is remembered, milliseconds."""
    tally_shard: int
    """The shard of the tally rows to count in."""
    spread: int = 0
    """How many milliseconds later an id may be made, after a duplicate key."""
    made: dict[int, int] = field(factory=dict[int, int])
    """Ids by the index of their wish. A later run of the same batch gets the ids of the run before: whatever becomes of
    a COMMIT, a message has one id."""
    held: Collection[Key] = ()
    """Timers that other transactions hold: nothing is done to them."""
    _known: idempotency.Known = field(factory=idempotency.Known, init=False)
    _answers: dict[int, Answer] = field(factory=dict[int, Answer], init=False)

    async def write(self, tx: Transaction, wishes: Sequence[Wish]) -> list[Answer]:
        """Carries out the wishes, those for one timer in their order; returns an answer for each."""
        self._known = await self._look(tx, wishes)
        left = list(enumerate(wishes))
        while left:
            wave, left = _part(left)
            await self._do(tx, [one for one in wave if not self._is_known(*one)])
        return [self._answers[place] for place in range(len(wishes))]

    async def _look(self, tx: Transaction, wishes: Iterable[Wish]) -> idempotency.Known:
        asked: dict[int, set[str]] = defaultdict(set)
        for wish in wishes:
            if wish.idempotency_key is not None:
                asked[wish.topic.id].add(wish.idempotency_key)
        return await idempotency.known(tx, asked, self.now) if asked else {}

    def _is_known(self, place: int, wish: Wish) -> bool:
        """Whether the wish was answered before; if so, answers it again."""
        first = self._known.get((wish.topic.id, wish.idempotency_key or ""))
        if first is None:
            return False
        same = first[0] == wish.fingerprint
        self._answers[place] = _decode(first[1]) if same else Answer("conflict")
        return True

    async def _do(self, tx: Transaction, wave: Sequence[tuple[int, Wish]]) -> None:
        """Carries out wishes that are all for different timers."""
        if not wave:
            return
        steps = await self._lock(tx, wave)
        arm: list[_Step] = []
        remove: list[Waiting] = []
        cancel: list[Waiting] = []
        for step in steps:
            answer = self._answers[step.place] = _decide(step)
            if answer.result in ("made", "replaced"):
                arm.append(step)
            if step.waiting is not None and answer.result == "replaced":
                remove.append(step.waiting)
            elif step.waiting is not None and answer.result == "cancelled":
                cancel.append(step.waiting)
        if arm:
            await self._arm(tx, arm, remove)
        if cancel:
            await cancel_locked(tx, cancel, self.now, self.tally_shard)
        await self._remember(tx, [(place, wish) for place, wish in wave if wish.idempotency_key is not None])

    async def _lock(self, tx: Transaction, wave: Sequence[tuple[int, Wish]]) -> list[_Step]:
        """Locks these timers and their messages. Timers that another transaction holds are answered `locked`."""
        keys: list[Key] = sorted(wish.of for _, wish in wave)
        timers = {(row.topic_id, row.key): row for row in await tx.fetch("timer.lock", TimerRow, keys)}
        held = set(self.held)
        if missing := [key for key in keys if key not in timers]:
            there = await tx.fetch("timer.find", TimerRow, missing)
            held |= {(row.topic_id, row.key) for row in there}
            if missing := [key for key in missing if key not in held]:
                timers |= {(row.topic_id, row.key): row for row in await probe(tx, missing)}
        waiting = {row.id: row for row in await lock_waiting(tx, [row.id for row in timers.values()])}
        gone = await fates(tx, [row.id for row in timers.values() if row.id not in waiting])
        steps: list[_Step] = []
        for place, wish in wave:
            timer = timers.get(wish.of)
            fate = _NONE if timer is None else gone.get(timer.id, _NONE)
            if wish.of in held or fate.result == "locked":
                self._answers[place] = Answer("locked")
            else:
                steps.append(_Step(place, wish, timer, None if timer is None else waiting.get(timer.id), fate))
        if any(step.timer is None for step in steps):  # `fates` notes that a message is not found
            await tx.note()
        return steps

    async def _arm(self, tx: Transaction, arm: Sequence[_Step], replaced: Sequence[Waiting]) -> None:
        """Writes the new messages, in place of the `replaced` ones, which are locked."""
        if self.spread:
            self.ids.anew()
        special = are_special(step.wish.draft for step in arm)
        rows: list[Sequence[Value]] = []
        fresh: list[_Row] = []
        again: list[_Row] = []
        labels: list[Sequence[Value]] = []
        for step in arm:
            draft, first_at = _timed(step, self.now)
            due = max(draft.deliver_at or 0, self.now)
            id_ = self.made.get(step.place)
            if id_ is None:
                id_ = self.made[step.place] = waiting_id(self.ids, draft, due, self.spread)
            revision = self.now if step.timer is None else max(self.now, step.timer.revision + 1)
            rows.append(waiting_row(draft, id_, random_nonce(), self.now, special=special))
            labels.append((*step.wish.of, id_))
            (fresh if step.timer is None else again).append((*step.wish.of, id_, revision, first_at))
            self._answers[step.place] = msgspec.structs.replace(
                self._answers[step.place], id=id_, revision=revision, deliver_at=draft.deliver_at or 0, due=due_of(id_)
            )
        if fresh:
            await tx.later_many("timer.add", sorted(fresh))
        if again:
            await tx.later_many("timer.put", sorted(again))
        await add_waiting(tx, rows, special=special)
        await tx.later_many("label.add", labels)
        await self._replace(tx, replaced)
        come = [(step.wish.topic.id, self._answers[step.place].due) for step in arm]
        await forecast.tell(tx, self.now, come, [(row.topic_id, row.due) for row in replaced])
        made = Counter([step.wish.topic.id for step in arm])
        gone = Counter([row.topic_id for row in replaced])
        uncounted = Counter([row.topic_id for row in replaced if row.uncounted])
        for topic_id in sorted(made):
            scheduled = made[topic_id] + uncounted[topic_id]
            if not await count(tx, topic_id, self.tally_shard, scheduled=scheduled, replaced=gone[topic_id]):
                raise TopicGone("the topic has been removed meanwhile")

    async def _replace(self, tx: Transaction, rows: Collection[Waiting]) -> None:
        if rows:
            await remove_waiting(tx, rows)
            await tx.later("label.remove", sorted((row.topic_id, row.key, row.id) for row in rows))

    async def _remember(self, tx: Transaction, wave: Sequence[tuple[int, Wish]]) -> None:
        rows: list[Sequence[Value]] = []
        for place, wish in wave:
            answer = self._answers[place]
            if answer.result in ("made", "replaced", "kept") and wish.idempotency_key is not None:
                text = _encode(answer)
                self._known[wish.topic.id, wish.idempotency_key] = wish.fingerprint, text
                request = (wish.topic.id, wish.idempotency_key.encode(), wish.fingerprint, text)
                rows.append((*request, self.now + self.window))
        if rows:
            await tx.later_many("idempotency.add", rows)


_NONE = Fate("not_found")


def _part(wishes: Sequence[tuple[int, Wish]]) -> tuple[list[tuple[int, Wish]], list[tuple[int, Wish]]]:
    """Splits the wishes: the first for each timer and each idempotency key, and those that come after one of these."""
    now: list[tuple[int, Wish]] = []
    later: list[tuple[int, Wish]] = []
    met = set[tuple[str, int, str]]()
    for place, wish in wishes:
        of = {("timer", wish.topic.id, wish.key)}
        if wish.idempotency_key is not None:
            of.add(("request", wish.topic.id, wish.idempotency_key))
        (now if met.isdisjoint(of) else later).append((place, wish))
        met |= of
    return now, later


def _decide(step: _Step) -> Answer:
    """Decides what is to be done; if nothing, says what there is."""
    wish, timer, waiting = step.wish, step.timer, step.waiting
    id_, revision = (0, 0) if timer is None else (timer.id, timer.revision)
    if wish.revision is not None and (timer is None or timer.revision != wish.revision):
        return Answer("unmatched", id_, revision)
    if waiting is not None:
        there = Answer("kept", id_, revision, waiting.deliver_at)
        if wish.absent:
            return msgspec.structs.replace(there, result="unmatched")
        if wish.draft is not None and wish.mode == "keep":
            return there
        result: Result = "cancelled" if wish.draft is None else "replaced"
        left, uncounted = waiting.due, bool(waiting.uncounted)
        replaced = None if wish.draft is None else id_
        return msgspec.structs.replace(there, result=result, replaced=replaced, due_before=left, first_heard=uncounted)
    if wish.draft is None or wish.revision is not None:
        fate = step.fate
        return Answer(fate.result, id_, revision, queue=fate.queue, offset=fate.offset, fresh=False)
    return Answer("made")


def _timed(step: _Step, now: int) -> tuple[Draft, int]:
    """The new message, with its time, and when the timer was first set."""
    wish, draft = step.wish, step.wish.draft
    if draft is None:
        raise ValueError("a cancel arms nothing")
    first_at = now if step.timer is None or step.waiting is None else step.timer.first_at
    at = now if draft.deliver_at is None else draft.deliver_at
    if wish.mode == "debounce" and wish.longest is not None:
        at = min(at, first_at + wish.longest)
    return msgspec.structs.replace(draft, key=wish.key, deliver_at=at), first_at


async def probe(tx: Transaction, keys: Sequence[Key]) -> list[TimerRow]:
    """Locks the timers of these keys. Raises `Locked` at once when another transaction holds one of them, even one that
    it has just made and not committed: a plain read does not show that one, and making it here, too, would wait for the
    other transaction."""
    return await tx.fetch("timer.probe", TimerRow, keys)


def _encode(answer: Answer) -> bytes:
    """The answer as it is stored with an idempotency key."""
    return msgspec.json.encode([answer.result, answer.id, answer.revision, answer.deliver_at, answer.replaced])


def _decode(text: bytes) -> Answer:
    result, id_, revision, deliver_at, replaced = msgspec.json.decode(text)
    return Answer(result, id_, revision, deliver_at, replaced, replayed=True)


class Standing(msgspec.Struct, frozen=True):
    """The state of a timer."""

    state: Literal["scheduled", "published", "cancelled", "suppressed"]
    id: int
    revision: int
    deliver_at: int
    queue: int | None = None
    offset: int | None = None


async def find_timer(tx: Transaction, topic: Topic, key: str) -> Standing | None:
    """The state of the timer of a key; None if there is no timer, or its message is long gone."""
    while True:
        row = await _row(tx, topic, key)
        if row is None:
            return None
        for _, due in await tx.fetch("delay.times", tuple[int, int], places_of([row.id])):
            return Standing("scheduled", row.id, row.revision, due)
        for cancelled in await tx.fetch("cancelled.find", Cancelled, [row.id]):
            return Standing(cancelled.state, row.id, row.revision, cancelled.deliver_at)
        for one in await tx.fetch("message.find", Streamed, [row.id]):
            return Standing("published", row.id, row.revision, one.content.deliver_at, one.number, one.offset)
        again = await _row(tx, topic, key)
        if again is None or again.id == row.id:
            return None


async def _row(tx: Transaction, topic: Topic, key: str) -> TimerRow | None:
    rows = await tx.fetch("timer.find", TimerRow, [(topic.id, key.encode())])
    return rows[0] if rows else None


async def forget(
    tx: Transaction, after: tuple[int, bytes], until: int, limit: int
) -> tuple[int, tuple[int, bytes] | None]:
    """Removes those timers of a page whose message was due before `until` and no longer waits. Returns how many, and
    where the next page begins, None after the last."""
    page = await tx.fetch("timer.page", tuple[int, bytes, int], *after, after[0], limit)
    old = {id_: (topic_id, key) for topic_id, key, id_ in page if due_of(id_) < until}
    for id_, _ in await tx.fetch("delay.queues", tuple[int, int], places_of(list(old))) if old else ():
        old.pop(id_, None)
    gone = 0
    if old:
        rows = await tx.fetch("timer.lock", TimerRow, sorted(old.values()))
        stale = [(row.topic_id, row.key) for row in rows if row.id in old]
        if stale:
            gone = await tx.execute("timer.remove", stale)
    return gone, (page[-1][0], page[-1][1]) if len(page) == limit else None

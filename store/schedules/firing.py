"""The turn of a schedule, when its message is due: decides whether the message is sent, and makes the next one wait.

Of each schedule one message waits, the one that its row names. So each fire time has its turn once, whatever the nodes
do: the turn is in the transaction of the promotion, which holds the message's row; the schedule's row comes after it in
the order of locks, and is not waited for. A message that no schedule names belongs to an older revision, and is
dropped. A fire time that has come while its message still waits has its turn before the schedule is changed (`let_go`).

A message that is kept back until the one before is settled remains the one that the row names, and is made due again a
little later, until it goes. Its fire time is then not later than `last_at`, which advances over the fire times that
come meanwhile. This distinguishes a message that is kept back from one that waits for its turn.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from attrs import define, field

from ..content import columns
from ..ids import IdMaker, due_of, random_nonce, shard_of
from ..looking.settled import is_unsettled
from ..ports import Asked, Transaction, Value
from ..rows import OF_SCHEDULE, Due, GroupRow, ScheduleRow, Waiting, encode
from ..stream.placing import shard_of_order
from ..stream.publishing import LATEST_DUE, refuse_used
from ..stream.tallies import count, lock_tallies
from ..timers import forecast
from ..timers.order import Found, Orders
from ..timers.timers import Judged, lock_waiting, remove_waiting, reschedule
from .course import OUTCOMES, Armed, Course, Courses, Fired, Outcome

_SOONEST, _LATEST = 1_000, 10_000
"""Milliseconds until the next check whether the message before is settled: a tenth of the time it has taken so far,
within these bounds."""
_TURNS = 15
"""Turns per second: fire times since the turn before have theirs together, in one transaction. A fire time at a full
second does not wait. Messages of an order are not delayed, since others of it would get ahead of them."""
_PASSED = 100
"""How many fire times each check records singly as left out, while a message is kept back; the last record covers the
others. There are more only when all nodes were down."""


def is_due(schedule: ScheduleRow, now: int) -> bool:
    """Whether the fire time that it waits for has come. Its message may still wait: for its jitter, its turn, a
    rate."""
    return schedule.next_at is not None and schedule.next_at <= now


def is_kept(schedule: ScheduleRow) -> bool:
    """Whether its message is kept back until the one before is settled."""
    return schedule.next_at is not None and schedule.next_at <= schedule.last_at


class _Turn(NamedTuple):
    """The result of the turn of a fire time."""

    outcome: Outcome
    last_at: int
    next_at: int | None
    fires: list[Sequence[Value]]
    """Rows of `fire`."""


@define
class Firing:
    """The turns and changes of schedules in one run of a transaction; made anew for each run."""

    courses: Courses
    ids: IdMaker
    now: int
    tally_shard: int
    """The shard of the tally rows to count in."""
    orders: Orders
    spread: int = 0
    made: dict[tuple[int, int], int] = field(factory=dict[tuple[int, int], int])
    """Ids by schedule and fire time. A later run gets the ids of the run before, so that a message has one id."""
    armed: list[Armed] = field(factory=list[Armed], init=False)
    """Messages that wait from the commit on."""
    overdue: list[Found] = field(factory=list[Found], init=False)
    """Messages of ordered topics that wait from now on although they are due."""
    dropped: list[tuple[int, int]] = field(factory=list[tuple[int, int]], init=False)
    """(due, id) of messages that no longer wait from the commit on, though they are not due yet."""

    @property
    def fired(self) -> Fired:
        """Which messages wait and which no longer wait from the commit on."""
        return Fired(self.armed, self.dropped)

    async def judge(self, tx: Transaction, rows: Sequence[Due]) -> Judged:
        """Decides which of these messages, locked and due, are sent; their schedules go on. The others are dropped.

        Messages whose schedule or tally another transaction holds are neither sent nor dropped: a later sweep finds
        them.
        """
        asked = [row.id for row in rows] * (2 if len(rows) == 1 else 1)  # two at least, so that MariaDB uses a range
        free = Asked("schedule.lock_next", ScheduleRow, asked)
        # An existing topic has its tally locked, and so is not removed before the commit.
        tallies = await lock_tallies(tx, {row.topic_id for row in rows}, self.tally_shard, before=[free])
        schedules = {row.next_id: row for row in free.rows}
        held = set[int | None]()
        if len(schedules) < len(rows):
            there = await tx.fetch("schedule.waits", tuple[int | None, str], asked)
            held = {id_ for id_, _ in there}.difference(schedules)
        sent: list[Due] = []
        left: list[int] = []
        dropped: list[int] = []
        advanced: list[ScheduleRow] = []
        fires: list[Sequence[Value]] = []
        for row in rows:
            if row.id in held or row.topic_id in tallies.locked:
                left.append(row.id)
                continue
            schedule = schedules.get(row.id)
            course = None if schedule is None else self.course(schedule)
            if schedule is None or schedule.next_at is None or schedule.topic_id in tallies.gone:
                dropped.append(row.id)
                if schedule is not None:
                    await tx.execute("schedule.remove", schedule.id)  # its topic is gone
            elif course is not None:
                turn = await self._turn(tx, schedule, course, schedule.next_at)
                fires += turn.fires
                if turn.outcome == "kept":
                    await self._keep(tx, row, schedule._replace(last_at=turn.last_at), course)
                    continue
                fired = turn.outcome == "fired"
                (sent.append(row) if fired else dropped.append(row.id))
                last_id = row.id if fired else schedule.last_id
                advanced.append(schedule._replace(last_at=turn.last_at, last_id=last_id, next_at=turn.next_at))
        if fires:
            await tx.later_many("fire.add", fires)
        self.overdue.clear()
        await self.arm(tx, advanced)
        await drop(tx, await lock_waiting(tx, dropped), self.tally_shard, self.now)  # read again, with their keys
        return Judged(sent, left, tuple(self.overdue))

    async def let_go(self, tx: Transaction, schedule: ScheduleRow, waiting: Waiting) -> ScheduleRow:
        """Takes the turn of a fire time that has come, by the schedule as it is before a change. Its message, locked,
        will be sent at its own time like any other, whatever the schedule says then; or it is dropped, or kept back.
        Returns the schedule with the next fire time, whose message does not exist yet."""
        fire_at, course = schedule.next_at or 0, self.course(schedule)
        if course is None:  # this node knows nothing but that the time has come
            turn = _Turn("fired", fire_at, None, [self.fire(schedule, fire_at, waiting.id, "fired")])
        else:
            turn = await self._turn(tx, schedule, course, fire_at)
        if turn.fires:
            await tx.execute_many("fire.add", turn.fires)
        if turn.outcome == "kept" and course is not None:
            kept = schedule._replace(last_at=turn.last_at)
            await self._keep(tx, waiting, kept, course)
            return kept
        fired = turn.outcome == "fired"
        await (self.make_plain(tx, waiting) if fired else self.take_back(tx, waiting))
        last_id = waiting.id if fired else schedule.last_id
        return schedule._replace(last_at=turn.last_at, last_id=last_id, next_at=turn.next_at, next_id=None)

    async def make_plain(self, tx: Transaction, waiting: Waiting) -> None:
        """Makes a schedule's message, locked, a plain one, which needs no turn any more."""
        await tx.later_exactly(1, "delay.make_plain", [waiting.place])

    async def take_back(self, tx: Transaction, waiting: Waiting) -> None:
        """Drops a schedule's message, locked, before its time."""
        await drop(tx, [waiting], self.tally_shard, self.now)
        self.dropped.append((waiting.due, waiting.id))

    async def _turn(self, tx: Transaction, schedule: ScheduleRow, course: Course, fire_at: int) -> _Turn:
        if is_kept(schedule):
            return await self._kept(tx, schedule, course, fire_at)
        outcome: Outcome = "fired"
        sent, next_at, missed_until = course.judge(fire_at, self.now)
        last_at = fire_at
        if not sent:
            outcome = "missed"
        elif await self.is_overlapped(tx, schedule, course):
            outcome = "kept" if course.keeps else "overlapped"
            if course.keeps:  # late fire times that this message also stands for must not come again
                last_at = max(fire_at, self.now if next_at is None else next_at - 1)
        id_ = schedule.next_id if outcome in ("fired", "kept") else None
        return _Turn(outcome, last_at, next_at, [self.fire(schedule, fire_at, id_, outcome, missed_until)])

    async def _kept(self, tx: Transaction, schedule: ScheduleRow, course: Course, fire_at: int) -> _Turn:
        """Takes another turn of a message that is kept back. The fire times that have come meanwhile are left out."""
        last_at, fires = self.passed(schedule, course, course.due)
        if await self.is_overlapped(tx, schedule, course):
            return _Turn("kept", last_at, fire_at, fires)
        fires += await self.unkeep(tx, schedule, schedule.next_id, "fired")
        return _Turn("fired", last_at, course.after(last_at), fires)

    def passed(
        self, schedule: ScheduleRow, course: Course, due: Callable[[int], int] = int
    ) -> tuple[int, list[Sequence[Value]]]:
        """The fire times that have come while a message is kept back: the last of them, and all as rows of `fire`. A
        fire time has come when it is `due`."""
        last_at, fires = schedule.last_at, list[Sequence[Value]]()
        while (at := course.after(last_at)) is not None and due(at) <= self.now:
            if len(fires) == _PASSED:
                fires[-1] = self.fire(schedule, last_at, None, "overlapped", self.now + 1)
                return max(at, self.now), fires
            fires.append(self.fire(schedule, at, None, "overlapped"))
            last_at = at
        return last_at, fires

    async def is_overlapped(self, tx: Transaction, schedule: ScheduleRow, course: Course) -> bool:
        """Whether the last message that the schedule sent is unsettled in its group."""
        if course.group is None or schedule.last_id is None:
            return False
        groups = await tx.fetch("consumer_group.of_topics", GroupRow, [schedule.topic_id])
        group = next((group.id for group in groups if group.name == course.group), None)
        return group is not None and await is_unsettled(tx, schedule.last_id, group)

    async def _keep(self, tx: Transaction, row: Due | Waiting, schedule: ScheduleRow, course: Course) -> None:
        """Makes a schedule's message, locked, due again a little later; it keeps its id."""
        since = course.due(schedule.next_at or 0)
        due = max(self.now + min(max((self.now - since) // 10, _SOONEST), _LATEST), row.due)
        await reschedule(tx, [(row.id, due)], self.now)
        last = schedule.last_at, schedule.last_id
        await tx.later("schedule.advance", *last, schedule.next_at, schedule.next_id, schedule.id)
        self.armed.append(Armed(due, row.id, row.topic_id, fresh=False))

    def course(self, schedule: ScheduleRow) -> Course | None:
        """The schedule's course; None while this node cannot tell."""
        return self.courses(schedule.name, schedule.spec, schedule.made_at)

    def fire(
        self, schedule: ScheduleRow, fire_at: int, id_: int | None, outcome: Outcome, missed_until: int | None = None
    ) -> Sequence[Value]:
        """A row of `fire`."""
        return schedule.id, fire_at, id_, OUTCOMES.index(outcome), self.now, missed_until

    async def unkeep(
        self, tx: Transaction, schedule: ScheduleRow, id_: int | None, outcome: Outcome
    ) -> list[Sequence[Value]]:
        """Records the final outcome of the fire time that is kept back. If its row of `fire` was removed meanwhile,
        returns a new row."""
        if schedule.next_at is None:
            return []
        row = self.fire(schedule, schedule.next_at, id_, outcome)
        known = await tx.execute("fire.end", *row[2:5], *row[:2])
        return [] if known else [row]

    async def arm(self, tx: Transaction, schedules: Iterable[ScheduleRow]) -> list[ScheduleRow]:
        """Makes the messages of each schedule's `next_at` wait, and writes the schedules, which are locked. Returns
        them with the ids of these messages."""
        armed: list[ScheduleRow] = []
        rows: list[Sequence[Value]] = []
        labels: list[Sequence[Value]] = []
        advanced: list[Sequence[Value]] = []
        schedules = list(schedules)
        ordered = await self.orders.among(tx, {schedule.topic_id for schedule in schedules})
        for schedule in schedules:
            next_id = None
            if schedule.next_at is not None and (course := self.course(schedule)) is not None:
                in_order = schedule.topic_id in ordered
                next_id = self.wait(
                    schedule, course, schedule.next_at, rows, labels, ordered=in_order, special=OF_SCHEDULE
                )
            next_at = None if next_id is None else schedule.next_at
            armed.append(schedule._replace(next_at=next_at, next_id=next_id))
            advanced.append((schedule.last_at, schedule.last_id, next_at, next_id, schedule.id))
        if advanced:
            await tx.later_each("schedule.advance", advanced)
        await self.add(tx, rows, labels)
        return armed

    def wait(
        self,
        schedule: ScheduleRow,
        course: Course,
        fire_at: int,
        rows: list[Sequence[Value]],
        labels: list[Sequence[Value]],
        *,
        ordered: bool,
        due: int | None = None,
        special: int = 0,
    ) -> int:
        """Adds the row and the label of a fire time's message to `rows` and `labels`; returns its id. It is due at the
        fire time, unless `due` is given. A late message is due at once; in an ordered topic it keeps the place of its
        time."""
        post = course.post(fire_at)
        deliver_at = course.due(fire_at) if due is None else due
        due = min(deliver_at if ordered else max(deliver_at, self.now), LATEST_DUE)
        if fire_at == schedule.next_at and post.ordering_key is None and not ordered:
            due = turn_at(due)
        shard = shard_of_order(schedule.topic_id, post.ordering_key, schedule.queue_id, ordered=ordered)
        of = schedule.id, fire_at
        id_ = self.made.get(of)
        if id_ is None:
            id_ = self.made[of] = self.ids.make(due, shard=shard, spread=0 if ordered else self.spread)
        place = (shard_of(id_), id_, due_of(id_), random_nonce(), schedule.topic_id, schedule.queue_id)
        rows.append((*place, *columns(post), post.body, self.now, deliver_at, special, None))
        if post.key is not None:
            labels.append((schedule.topic_id, post.key.encode(), id_))
        self.armed.append(Armed(due_of(id_), id_, schedule.topic_id))
        if ordered and due_of(id_) <= self.now:
            order = schedule.queue_id, encode(post.ordering_key)
            self.overdue.append(Found(id_, due_of(id_), *order, deliver_at, self.now, shard_of(id_)))
        return id_

    async def add(self, tx: Transaction, rows: Sequence[Sequence[Value]], labels: Sequence[Sequence[Value]]) -> None:
        """Writes waiting messages with their labels, and counts them."""
        if not rows:
            return
        await tx.later_many("delay.add_special", rows)
        await refuse_used(tx, [row[1] for row in rows])
        if labels:
            await tx.later_many("label.add", labels)
        come = [(int(row[4]), int(row[2])) for row in rows]  # type: ignore[arg-type]
        await forecast.tell(tx, self.now, come)
        made = Counter([int(row[4]) for row in rows])  # type: ignore[arg-type]
        for topic_id in sorted(made):
            await count(tx, topic_id, self.tally_shard, scheduled=made[topic_id])


def turn_at(due: int) -> int:
    """The time of the turn for messages that are due at `due`; both Unix milliseconds."""
    second, millisecond = divmod(due, 1000)
    turn = -(-millisecond * _TURNS // 1000)
    return 1000 * second + 1000 * turn // _TURNS


class HadTurn(NamedTuple):
    """A fire time that has had its turn."""

    fire_at: int
    outcome: int
    missed_until: int | None


async def had_turns(tx: Transaction, schedule: ScheduleRow, times: Sequence[int]) -> list[HadTurn]:
    """The fire times among these that have had their turn."""
    asked = list(times) * (2 if len(times) == 1 else 1)  # two at least, so that MariaDB uses a range
    return await tx.fetch("fire.among", HadTurn, schedule.id, asked) if asked else []


async def drop(tx: Transaction, rows: Collection[Waiting], tally_shard: int, now: int) -> None:
    """Removes messages of schedules, locked, that are not sent: they are counted, and leave nothing else behind."""
    if not rows:
        return
    await remove_waiting(tx, rows)
    await forecast.tell(tx, now, gone=[(row.topic_id, row.due) for row in rows])
    labels = sorted((row.topic_id, row.key, row.id) for row in rows if row.key is not None)
    if labels:
        await tx.execute("label.remove", labels)
    gone = Counter([row.topic_id for row in rows])
    for topic_id in sorted(gone):
        await count(tx, topic_id, tally_shard, replaced=gone[topic_id])

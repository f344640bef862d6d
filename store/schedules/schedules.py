"""Schedules by name: sets, pauses, resumes, runs, backfills and removes them; repairs those whose message is gone.

A change locks the schedule's row and then, without waiting, the row of its waiting message. If the fire time is still
ahead, the message is removed; or, if another transaction holds it at this moment, it is dropped at its turn, since no
schedule names it any more.

A change never loses a fire time that has come while its message still waits: its turn is taken first, by the schedule
as it was; or it is recorded as cancelled if the schedule is paused or removed. If another transaction holds such a
message, the caller has to ask again (`Held`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from ..cleaning.retention import fires_archived_until, taken_until
from ..errors import Held, TopicGone
from ..ids import places_of
from ..ports import Transaction, Value
from ..records import Queue, Topic
from ..rows import Cancelled, ScheduleRow, Streamed, Waiting
from ..timers.timers import cancel_locked, lock_waiting
from .course import OUTCOMES, Course, Outcome, Post
from .firing import Firing, HadTurn, had_turns, is_due, is_kept

Result = Literal["made", "changed", "kept", "unmatched", "behind"]
"""`unmatched`: the schedule is not at the revision that was asked for. `behind`: it is not changed yet; a fire time has
had its turn, and the next one has come as well: ask again."""

_SENT: tuple[Outcome, ...] = ("fired", "run", "backfilled")


WaitingKey = tuple[int, int]
"""The place of a schedule among those that wait: (next_at, id)."""

FIRST: WaitingKey = (-1, 0)
"""A place before all schedules."""

_END = 1 << 62
"""A time after all fire times."""
_TOLD = 100
"""How many fire times a removal reports at most."""


class Wish(NamedTuple):
    """What a schedule is to be after a change."""

    name: str
    topic: Topic
    queue: Queue
    spec: bytes
    paused: bool | None
    """None: unchanged; a new schedule is not paused."""
    revision: int | None = None
    """Change the schedule only if it is at this revision."""
    absent: bool = False
    """Make the schedule only if there is none."""


class Fire(NamedTuple):
    """The outcome of a fire time."""

    fire_at: int
    message_id: int | None
    outcome: int
    at: int
    missed_until: int | None
    """The fire times between this one and then had no turn, but for those with a row of their own."""

    @property
    def what(self) -> Outcome:
        """The outcome as a word."""
        return OUTCOMES[self.outcome]


def _as_it_is(post: Post) -> Post:
    return post


async def find_schedule(tx: Transaction, name: str) -> ScheduleRow | None:
    """The schedule of this name."""
    rows = await tx.fetch("schedule.find", ScheduleRow, name.encode())
    return rows[0] if rows else None


async def page(tx: Transaction, after: str, limit: int) -> list[ScheduleRow]:
    """A page of schedules in order of their names, behind the name `after`."""
    return await tx.fetch("schedule.page", ScheduleRow, after.encode(), limit)


async def fires(tx: Transaction, schedule_id: int, before: int, limit: int) -> list[Fire]:
    """The outcomes of a schedule's fire times before a time, the latest first."""
    return await tx.fetch("fire.page", Fire, schedule_id, before, limit)


async def put(tx: Transaction, firing: Firing, wish: Wish) -> tuple[Result, ScheduleRow | None]:
    """Makes or changes a schedule. Its next fire time is later than now, and than the last that has had its turn."""
    row = await _lock(tx, wish.name)
    at = None if row is None else row.revision
    if (wish.absent and row is not None) or wish.revision not in (None, at):
        return "unmatched", row
    if not await tx.fetch("topic.lock", int, wish.topic.id):
        raise TopicGone("the topic has been removed meanwhile")
    result: Result = "changed"
    if row is None:
        new = (wish.topic.id, wish.queue.id, wish.spec, firing.now, bool(wish.paused), firing.now, 0)
        made = await tx.execute_many("schedule.add", [(wish.name.encode(), *new)])
        row = await _lock(tx, wish.name)
        if row is None:
            raise TopicGone("the schedule has been removed meanwhile")
        if made:
            return "made", await _start(tx, firing, row)
    paused = row.paused if wish.paused is None else int(wish.paused)
    if (row.topic_id, row.spec, row.paused) == (wish.topic.id, wish.spec, paused):
        return "kept", row
    if paused:
        row = await _stop(tx, firing, row)
    elif is_due(row := await _let_go(tx, firing, row), firing.now) and not is_kept(row):
        await firing.arm(tx, [row])
        return "behind", row
    if row.spec != wish.spec and row.last_at > firing.now:  # fire times cancelled ahead of time were of the old one
        await tx.execute("fire.remove_ahead", row.id, firing.now, OUTCOMES.index("cancelled"))
        row = row._replace(last_at=max([one.fire_at for one in await fires(tx, row.id, _END, 1)], default=0))
    queue_id = row.queue_id if row.topic_id == wish.topic.id else wish.queue.id
    moved = row.topic_id != wish.topic.id
    row = row._replace(topic_id=wish.topic.id, queue_id=queue_id, spec=wish.spec, paused=paused)
    row = await _change(tx, firing, row)
    if not paused and is_kept(row):
        row = await _keep_on(tx, firing, row, moved=moved)
    return result, row if is_kept(row) and not paused else await _start(tx, firing, row)


async def pause(tx: Transaction, firing: Firing, name: str, *, paused: bool) -> ScheduleRow | None:
    """Pauses the schedule, or resumes it with the next fire time; the times in between are left out."""
    row = await _lock(tx, name)
    if row is None or bool(row.paused) == paused:
        return row
    row = await _stop(tx, firing, row)
    return await _start(tx, firing, await _change(tx, firing, row._replace(paused=int(paused))))


async def remove(
    tx: Transaction, firing: Firing, name: str, revision: int | None
) -> tuple[bool, ScheduleRow | None, list[Fire]]:
    """Removes a schedule and its waiting message. Returns False when it is at another revision; its row; and the fire
    times that had come and are not sent any more."""
    row = await _lock(tx, name)
    if row is None or (revision is not None and row.revision != revision):
        return row is None and revision is None, row, []
    await _stop(tx, firing, row)
    unsent = list[Fire]()
    if row.next_at is not None and is_due(row, firing.now):
        last = [one for one in await fires(tx, row.id, firing.now + 1, _TOLD) if one.fire_at >= row.next_at]
        unsent = [one for one in last if one.at == firing.now and one.what not in _SENT]
    await tx.execute("schedule.remove", row.id)
    await tx.execute("fire.remove_all", row.id)
    return True, row, unsent


async def run(
    tx: Transaction, firing: Firing, name: str, made: Callable[[Post], Post] = _as_it_is
) -> tuple[int, int] | None:
    """Sends a message of the schedule now, changed by `made`, also when it is paused. Returns the message's id and fire
    time; None when there is no such schedule."""
    row = await _lock(tx, name)
    course = None if row is None else firing.course(row)
    if row is None or course is None:
        return None
    at = firing.now
    taken = {had.fire_at for had in await had_turns(tx, row, range(at, at + 100))}
    # Not one of the schedule's own fire times, whose turn may still come.
    at = next(one for one in range(at, at + 101) if one not in taken and course.after(one - 1) != one)
    ((_, id_),) = await _send(tx, firing, row, course.made(made), {at: None}, "run")
    return id_, at


async def backfill(
    tx: Transaction, firing: Firing, name: str, times: Sequence[int], made: Callable[[Post], Post] = _as_it_is
) -> list[tuple[int, int]] | None:
    """Sends messages of these fire times now, but for those that were sent or wait for their turn. Returns (fire time,
    id) of each; None when there is no such schedule."""
    row = await _lock(tx, name)
    course = None if row is None else firing.course(row)
    if row is None or course is None:
        return None
    had = {one.fire_at: one for one in await had_turns(tx, row, times)}
    left = _unsent(row, times, had)
    for at in left:
        if at in had:  # it was left out, and is sent now
            await tx.execute("fire.remove", row.id, at)
    missed = {at: had[at].missed_until if at in had else None for at in left}
    return await _send(tx, firing, row, course.made(made), missed, "backfilled")


async def unsent(tx: Transaction, row: ScheduleRow, times: Sequence[int]) -> list[int]:
    """The fire times among these that a backfill would send."""
    return _unsent(row, times, {one.fire_at: one for one in await had_turns(tx, row, times)})


def _unsent(row: ScheduleRow, times: Sequence[int], had: Mapping[int, HadTurn]) -> list[int]:
    done = {at for at, one in had.items() if OUTCOMES[one.outcome] in _SENT}
    # A fire time that is kept back still waits; those that have come meanwhile do not.
    until = row.last_at + 1 if is_kept(row) else row.next_at
    return [at for at in times if at not in done and (until is None or at < until) and at != row.next_at]


async def overdue(tx: Transaction, before: int, after: WaitingKey, limit: int) -> tuple[list[int], WaitingKey | None]:
    """Of a page of schedules whose fire time was before `before`: those messages that do not wait, and where the next
    page begins. (Many may still wait: they are kept back, or were rescheduled.)"""
    where = (after[0], *after, before, limit)
    rows = await tx.fetch("schedule.overdue", tuple[int | None, int, int | None], *where)
    missing = await _gone(tx, [id_ for _, _, id_ in rows if id_ is not None])
    return missing, (rows[-1][0] or 0, rows[-1][1]) if len(rows) == limit else None


async def _gone(tx: Transaction, ids: Sequence[int]) -> list[int]:
    """The messages among these that do not wait."""
    if not ids:
        return []
    waiting = {id_ for id_, _ in await tx.fetch("delay.queues", tuple[int, int], places_of(ids))}
    return [id_ for id_ in ids if id_ not in waiting]


async def mend(tx: Transaction, firing: Firing, ids: Sequence[int]) -> int:
    """Makes schedules go on whose turn was not taken although their message is gone: it was cancelled, or changed by
    SQL from outside. Returns how many there were. Schedules whose message waits are left alone."""
    asked = await _gone(tx, ids)
    asked *= 2 if len(asked) == 1 else 1
    mended: list[ScheduleRow] = []
    for row in await tx.fetch("schedule.lock_next", ScheduleRow, asked) if asked else []:
        if row.next_at is None or firing.course(row) is None:
            continue
        if not await tx.fetch("topic.names", tuple[int, str], [row.topic_id]):
            await tx.execute("schedule.remove", row.id)
            continue
        mended.append(await _went(tx, firing, row))
    await firing.arm(tx, mended)
    return len(mended)


async def forget_fires(tx: Transaction, after: int, keep: int, limit: int) -> tuple[int, int | None]:
    """Removes old fire times of a page of schedules: keeps the latest `keep`, and with archiving on those that are not
    archived. Returns how many were removed, and where the next page begins."""
    rows = await tx.fetch("schedule.ids", tuple[int, int], after, limit)
    archived = await fires_archived_until(tx)
    gone = 0
    last = 0
    for id_, _ in rows:
        for fire_at, _ in await tx.fetch("fire.edge", tuple[int, int], id_, keep):
            for (at,) in await tx.fetch("fire.last", tuple[int | None], id_, fire_at, archived):
                if at is not None:
                    last = max(last, at)
                    gone += await tx.execute("fire.forget", id_, fire_at, archived)
    if gone:
        await taken_until(tx, b"fire", last)
    return gone, rows[-1][0] if len(rows) == limit else None


async def _lock(tx: Transaction, name: str) -> ScheduleRow | None:
    rows = await tx.fetch("schedule.lock", ScheduleRow, name.encode())
    return rows[0] if rows else None


async def _change(tx: Transaction, firing: Firing, row: ScheduleRow) -> ScheduleRow:
    row = row._replace(revision=max(firing.now, row.revision + 1))
    await tx.execute("schedule.change", row.topic_id, row.queue_id, row.spec, row.revision, row.paused, row.id)
    return row


async def _let_go(tx: Transaction, firing: Firing, row: ScheduleRow) -> ScheduleRow:
    """Prepares a change: takes back the waiting message, but if its fire time has come, takes the turn first. A message
    that is kept back stays."""
    row, waiting = await _take(tx, firing, row)
    if waiting is not None and not is_due(row, firing.now):
        await firing.take_back(tx, waiting)
        return row._replace(next_at=None, next_id=None)
    if waiting is not None and not is_kept(row):
        row = await firing.let_go(tx, row, waiting)
    return await _pass_over(tx, firing, row) if is_kept(row) else row


async def _pass_over(tx: Transaction, firing: Firing, row: ScheduleRow) -> ScheduleRow:
    """Records the fire times that have come while a message is kept back, before that ends or changes."""
    course = firing.course(row)
    last_at, passed = (row.last_at, []) if course is None else firing.passed(row, course)
    if passed:
        await tx.execute_many("fire.add", passed)
    return row._replace(last_at=last_at)


async def _keep_on(tx: Transaction, firing: Firing, row: ScheduleRow, *, moved: bool) -> ScheduleRow:
    """After a change, decides by the new schedule whether a message that is kept back stays so, is sent, or is left
    out. `moved`: the schedule has another topic now."""
    course = firing.course(row)
    overlapped = course is not None and not moved and await firing.is_overlapped(tx, row, course)
    if overlapped and course is not None and course.keeps:
        row = row._replace(last_at=max(row.last_at, firing.now))
        await tx.later("schedule.advance", row.last_at, row.last_id, row.next_at, row.next_id, row.id)
        return row
    row, waiting = await _take(tx, firing, row)
    if waiting is None:
        return row
    if overlapped:
        await _settle(tx, firing, row, None, "overlapped")
        await firing.take_back(tx, waiting)
    else:
        await _settle(tx, firing, row, waiting.id, "fired")
        await firing.make_plain(tx, waiting)
        row = row._replace(last_id=waiting.id)
    return row._replace(next_at=None, next_id=None)


async def _stop(tx: Transaction, firing: Firing, row: ScheduleRow) -> ScheduleRow:
    """Takes back the waiting message; records the fire times that have come as overlapped or cancelled."""
    row, waiting = await _take(tx, firing, row)
    if is_kept(row):
        row = await _pass_over(tx, firing, row)
        await _settle(tx, firing, row, None, "overlapped")
    elif row.next_at is not None and is_due(row, firing.now):
        course = firing.course(row)
        following = None if course is None else course.after(row.next_at)
        others = following is not None and following <= firing.now
        id_ = None if waiting is None else waiting.id
        await _settle(tx, firing, row, id_, "cancelled", firing.now + 1 if others else None)
        if waiting is not None:
            await cancel_locked(tx, [waiting], firing.now, firing.tally_shard)
            firing.dropped.append((waiting.due, waiting.id))
        return row._replace(last_at=row.next_at)
    if waiting is not None:
        await firing.take_back(tx, waiting)
    return row


async def _take(tx: Transaction, firing: Firing, row: ScheduleRow) -> tuple[ScheduleRow, Waiting | None]:
    """Locks the waiting message. Returns None if none waits, or if another transaction holds it and its fire time is
    ahead. If the message is gone, its outcome is recorded, and the schedule goes on from there. Raises `Held`."""
    if row.next_id is None:
        return row, None
    for waiting in await lock_waiting(tx, [row.next_id]):
        return row, waiting
    if await _gone(tx, [row.next_id]):
        return await _went(tx, firing, row), None
    if is_due(row, firing.now):
        raise Held("somebody holds the message of a fire time that has come")
    return row._replace(next_at=None, next_id=None), None


async def _went(tx: Transaction, firing: Firing, row: ScheduleRow) -> ScheduleRow:
    """Records the outcome of a schedule's message that is gone: it was cancelled, or changed by SQL from outside.
    Returns the schedule with the next fire time, whose message does not exist yet."""
    if row.next_id is None or row.next_at is None:
        return row
    sent = bool(await tx.fetch("message.find", Streamed, [row.next_id]))
    cancelled = bool(await tx.fetch("cancelled.find", Cancelled, [row.next_id]))
    outcome: Outcome = "fired" if sent or not cancelled else "cancelled"
    last_at = max(row.last_at, row.next_at)  # `last_at` is later if the message was kept back
    course = firing.course(row)
    _, next_at, missed_until = (True, None, None) if course is None else course.judge(last_at, firing.now)
    await _settle(tx, firing, row, row.next_id if sent else None, outcome, missed_until)
    last_id = row.next_id if sent else row.last_id
    return row._replace(last_at=last_at, last_id=last_id, next_at=next_at, next_id=None)


async def _settle(
    tx: Transaction, firing: Firing, row: ScheduleRow, id_: int | None, outcome: Outcome, missed: int | None = None
) -> None:
    """Records the final outcome of the fire time that a schedule waits for, also in place of `kept`."""
    if row.next_at is None:
        return
    if is_kept(row):
        fires = await firing.unkeep(tx, row, id_, outcome)
    else:
        fires = [firing.fire(row, row.next_at, id_, outcome, missed)]
    if fires:
        await tx.execute_many("fire.add", fires)


async def _start(tx: Transaction, firing: Firing, row: ScheduleRow) -> ScheduleRow:
    """Makes the message of the next fire time wait, unless the schedule is paused."""
    course = None if row.paused else firing.course(row)
    next_at = None if course is None else course.after(max(firing.now, row.last_at))
    (row,) = await firing.arm(tx, [row._replace(next_at=next_at, next_id=None)])
    return row


async def _send(
    tx: Transaction, firing: Firing, row: ScheduleRow, course: Course, times: Mapping[int, int | None], outcome: Outcome
) -> list[tuple[int, int]]:
    """Writes messages of these fire times, due now; returns (fire time, id) of each. `times` has the `missed_until` of
    each fire time."""
    rows: list[Sequence[Value]] = []
    labels: list[Sequence[Value]] = []
    ordered = bool(await firing.orders.among(tx, {row.topic_id}))
    sent = [(at, firing.wait(row, course, at, rows, labels, ordered=ordered, due=firing.now)) for at in times]
    await firing.add(tx, rows, labels)
    if sent:
        await tx.execute_many("fire.add", [firing.fire(row, at, id_, outcome, times[at]) for at, id_ in sent])
    return sent

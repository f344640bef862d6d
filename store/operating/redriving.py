"""Redrive and purge: dead letters go back to their group, or away; a bounded batch in a transaction.

A redriven letter leaves `dead` and enters the ladder of its group in one transaction, due at once and with attempt 1:
it is in one place at any moment. A message that retention has taken from the stream is put back there from the letter's
copy. One past its time would not be handed out, so its letter is left where it is; and so is one that is astray: by
somebody's own SQL it has no place to go back to. Locks: the group's cursors, under which letters come and go, and then
the letters.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from attrs import evolve, frozen

from ..expiry import is_past
from ..groups.locked_rows import CursorRow
from ..history import last_reason, redriven
from ..ids import due_of, shard_of
from ..ports import Transaction, Value
from ..records import Group
from ..rows import LockedDead


@frozen
class Letters:
    """Which dead letters: of a stretch of time, or those of these ids that are of it."""

    since: int = 0
    until: int = 1 << 62
    """Unix milliseconds of `dead_at`; the end is not of it."""
    ids: tuple[int, ...] | None = None
    after: int = -1
    """Of those that died at `since`, the ones behind this id."""
    key: str | None = None
    tag: str | None = None
    reason: str | None = None
    """Of the last attempt; with `*` at its end, how that begins."""

    def behind(self, last: tuple[int, int]) -> "Letters":
        """Those that come after the letter that died then and has this id."""
        return evolve(self, since=last[0], after=last[1])

    @property
    def are_sought(self) -> bool:
        """Whether they have to be looked through."""
        return (self.key, self.tag, self.reason) != (None, None, None)

    def fit(self, key: str | None, tag: str | None, history: bytes) -> bool:
        """Whether a letter of this key, tag and history is one of them."""
        if (self.key is not None and key != self.key) or (self.tag is not None and tag != self.tag):
            return False
        if self.reason is None:
            return True
        last = last_reason(history) or ""
        return last.startswith(self.reason[:-1]) if self.reason.endswith("*") else last == self.reason


class _Sought(NamedTuple):
    """What is looked at of a letter."""

    id: int
    dead_at: int
    key: str | None
    tag: str | None
    history: bytes


@frozen
class Redriven:
    """What one batch did, or would do."""

    count: int
    timers: tuple[tuple[int, int], ...] = ()
    """(due, entry) of what went onto the ladder."""
    expired: int = 0
    """Letters that were left where they are, since they are past their time."""
    astray: int = 0
    """Letters that were left, since the topic has no such queue, or a queue no such offset."""
    last: tuple[int, int] | None = None
    """When the last letter of the batch died, and its id: the next batch begins behind it."""


async def _lock(tx: Transaction, group: Group, letters: Letters, limit: int) -> list[LockedDead]:
    if not await tx.fetch("cursor.lock", CursorRow, group.id, sorted(group.queue_ids)):
        return []  # a broadcast topic's, or removed meanwhile
    if letters.ids is None:
        place = (letters.since, letters.until, letters.since, letters.after)
        return await tx.fetch("dead.aged", LockedDead, group.id, *place, limit)
    if not letters.ids:
        return []
    rows = await tx.fetch("dead.named", LockedDead, group.id, list(letters.ids))
    return [row for row in rows if letters.since <= row.dead_at < letters.until]


async def redrive(
    tx: Transaction, group: Group, letters: Letters, limit: int, now: int, make_id: Callable[[int], int]
) -> Redriven:
    """Redrives `limit` letters at most, or all that are named. `make_id` makes the id of a retry from its time."""
    found = await _lock(tx, group, letters, limit)
    last = (found[-1].dead_at, found[-1].id) if found else None
    kept = [row for row in found if not is_past(row.expires_at, now)]
    rows = [row for row in kept if not _is_astray(group, row)]
    expired, astray = len(found) - len(kept), len(kept) - len(rows)
    if not rows:
        return Redriven(0, (), expired, astray, last)
    ids = [row.id for row in rows]
    await tx.execute("message.restore", group.id, ids)
    of_messages = await tx.fetch("dead.of_messages", tuple[int, int, int, bytes], ids, [group.id])
    history = {id_: redriven(history) for id_, _, _, history in of_messages}
    places = [
        (group.retry_queue_of[row.queue_id].id, row.queue_id, row.offset, row.id, 1, history[row.id]) for row in rows
    ]
    timers = await set_retries(tx, group, places, now, make_id)
    await tx.execute("dead.remove_all", group.id, ids)
    for back, many in sorted(Counter(back for back, *_ in places).items()):
        await tx.execute("cursor.redriven", many, many, group.id, back)
    return Redriven(len(ids), timers, expired, astray, last)


async def set_retries(
    tx: Transaction, group: Group, places: Sequence[Sequence[Value]], now: int, make_id: Callable[[int], int]
) -> tuple[tuple[int, int], ...]:
    """Puts messages onto the ladder, due now; returns the timers, each a (due, entry).

    A place is a retry queue, and of the message that comes back there its queue, offset, id, attempt and history.
    """
    ids = [make_id(now) for _ in places]
    rows = [(shard_of(id_), id_, group.id, *place, now, 0) for id_, place in zip(ids, places, strict=True)]
    if rows:
        await tx.execute_many("retry.add", rows)
    return tuple((due_of(id_), ~id_) for id_ in ids)


@frozen
class Fitting:
    """What was found in a look: (dead_at, id) of those that fit, and the letters that are still to be looked at; None
    when all were."""

    places: tuple[tuple[int, int], ...]
    ahead: Letters | None


async def fitting(tx: Transaction, group: Group, letters: Letters, limit: int) -> Fitting:
    """Those that fit among the next `limit` letters."""
    if letters.ids is None:
        place = (letters.since, letters.until, letters.since, letters.after)
        rows = await tx.fetch("dead.sought", _Sought, group.id, *place, limit)
        ahead = letters.behind((rows[-1].dead_at, rows[-1].id)) if len(rows) == limit else None
    else:
        some, left = letters.ids[:limit], letters.ids[limit:]
        named = await tx.fetch("dead.sought_named", _Sought, group.id, list(some)) if some else []
        rows = [row for row in named if letters.since <= row.dead_at < letters.until]
        ahead = evolve(letters, ids=left) if left else None
    fit = [(row.dead_at, row.id) for row in rows if letters.fit(row.key, row.tag, row.history)]
    return Fitting(tuple(fit), ahead)


async def purge(tx: Transaction, group: Group, letters: Letters, limit: int) -> Redriven:
    """Removes `limit` letters at most, or all that are named."""
    rows = await _lock(tx, group, letters, limit)
    if not rows:
        return Redriven(0)
    await tx.execute("dead.remove_all", group.id, [row.id for row in rows])
    for queue_id, letters_gone in sorted(Counter(row.queue_id for row in rows).items()):
        await tx.execute("cursor.cleared", letters_gone, group.id, queue_id)
    return Redriven(len(rows), last=(rows[-1].dead_at, rows[-1].id))


async def would_redrive(tx: Transaction, group: Group, letters: Letters, now: int) -> Redriven:
    """What a redrive of all of them would do."""
    there = await count(tx, group, letters)
    expired, astray = await _count_left(tx, group, letters, now)
    return Redriven(there - expired - astray, (), expired, astray)


async def count(tx: Transaction, group: Group, letters: Letters) -> int:
    """How many letters these are."""
    if letters.ids is not None:
        return len(await _named(tx, group, letters))
    (letters_there,) = await tx.fetch("dead.count", int, group.id, letters.since, letters.until)
    return letters_there


async def _count_left(tx: Transaction, group: Group, letters: Letters, now: int) -> tuple[int, int]:
    """How many of them a redrive leaves: what is past its time, and what is astray."""
    if letters.ids is not None:
        there = await _named(tx, group, letters)
        kept = [row for row in there if not is_past(row.expires_at, now)]
        return len(there) - len(kept), sum(_is_astray(group, row) for row in kept)
    (expired,) = await tx.fetch("dead.count_expired", int, group.id, letters.since, letters.until, now)
    queues = sorted(group.retry_queue_of) or [0]
    (astray,) = await tx.fetch("dead.count_astray", int, group.id, letters.since, letters.until, queues, now)
    return expired, astray


async def _named(tx: Transaction, group: Group, letters: Letters) -> list[LockedDead]:
    """Those that are named and there."""
    if not letters.ids:
        return []
    found = await tx.fetch("dead.places", LockedDead, group.id, list(letters.ids))
    return [row for row in found if letters.since <= row.dead_at < letters.until]


def _is_astray(group: Group, row: LockedDead) -> bool:
    return row.offset < 0 or row.queue_id not in group.retry_queue_of

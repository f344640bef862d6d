"""Redrive and purge: dead letters go back to their group, or are removed; a bounded batch in a transaction.

A redriven letter moves from `dead` to the ladder of its group in one transaction, due at once and with attempt 1, so it
is in one place at any moment. A message that retention has removed from the stream is restored from the letter's copy.
An expired letter would not be handed out, so it stays; so does one that is astray: spoilt by SQL from outside, it has
no place to go back to. Locks: the group's cursors, under which letters come and go, then the letters.
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
    """Chooses dead letters: all of a span of time, or those with these ids that are in the span."""

    since: int = 0
    until: int = 1 << 62
    """Unix milliseconds of `dead_at`; the end is not included."""
    ids: tuple[int, ...] | None = None
    after: int = -1
    """Of the letters that died exactly at `since`, only those behind this id."""
    key: str | None = None
    tag: str | None = None
    reason: str | None = None
    """The reason of the last attempt; with `*` at the end, how it begins."""

    def behind(self, last: tuple[int, int]) -> "Letters":
        """The same letters, behind the one with this `(dead_at, id)`."""
        return evolve(self, since=last[0], after=last[1])

    @property
    def are_sought(self) -> bool:
        """Whether each letter must be examined for its key, tag or reason."""
        return (self.key, self.tag, self.reason) != (None, None, None)

    def fit(self, key: str | None, tag: str | None, history: bytes) -> bool:
        """Whether a letter with this key, tag and history is chosen."""
        if (self.key is not None and key != self.key) or (self.tag is not None and tag != self.tag):
            return False
        if self.reason is None:
            return True
        last = last_reason(history) or ""
        return last.startswith(self.reason[:-1]) if self.reason.endswith("*") else last == self.reason


class _Sought(NamedTuple):
    """The columns of a letter by which it is chosen."""

    id: int
    dead_at: int
    key: str | None
    tag: str | None
    history: bytes


@frozen
class Redriven:
    """The result of one batch, as done or as it would be done."""

    count: int
    timers: tuple[tuple[int, int], ...] = ()
    """(due, entry) of the retries that were put onto the ladder."""
    expired: int = 0
    """Letters that stay because they are expired."""
    astray: int = 0
    """Letters that stay because the topic has no such queue, or a queue no such offset."""
    last: tuple[int, int] | None = None
    """(dead_at, id) of the last letter of the batch: the next batch begins behind it."""


async def _lock(tx: Transaction, group: Group, letters: Letters, limit: int) -> list[LockedDead]:
    if not await tx.fetch("cursor.lock", CursorRow, group.id, sorted(group.queue_ids)):
        return []  # the group is of a broadcast topic, or was removed meanwhile
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
    """Redrives at most `limit` letters, or all that are named. `make_id` makes the id of a retry from its due time."""
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
    """Puts messages onto the ladder, due now; returns the timers, each as (due, entry).

    A place is the retry queue that a message comes back to, and the message's queue, offset, id, attempt and history.
    """
    ids = [make_id(now) for _ in places]
    rows = [(shard_of(id_), id_, group.id, *place, now, 0) for id_, place in zip(ids, places, strict=True)]
    if rows:
        await tx.execute_many("retry.add", rows)
    return tuple((due_of(id_), ~id_) for id_ in ids)


@frozen
class Fitting:
    """The result of one search: (dead_at, id) of the chosen letters, and the letters that are still to be examined;
    None when all were."""

    places: tuple[tuple[int, int], ...]
    ahead: Letters | None


async def fitting(tx: Transaction, group: Group, letters: Letters, limit: int) -> Fitting:
    """Finds the chosen letters among the next `limit` ones."""
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
    """Removes at most `limit` letters, or all that are named."""
    rows = await _lock(tx, group, letters, limit)
    if not rows:
        return Redriven(0)
    await tx.execute("dead.remove_all", group.id, [row.id for row in rows])
    for queue_id, letters_gone in sorted(Counter(row.queue_id for row in rows).items()):
        await tx.execute("cursor.cleared", letters_gone, group.id, queue_id)
    return Redriven(len(rows), last=(rows[-1].dead_at, rows[-1].id))


async def would_redrive(tx: Transaction, group: Group, letters: Letters, now: int) -> Redriven:
    """What a redrive of all these letters would do."""
    there = await count(tx, group, letters)
    expired, astray = await _count_left(tx, group, letters, now)
    return Redriven(there - expired - astray, (), expired, astray)


async def count(tx: Transaction, group: Group, letters: Letters) -> int:
    """How many letters of these times or ids exist; key, tag and reason are ignored."""
    if letters.ids is not None:
        return len(await _named(tx, group, letters))
    (letters_there,) = await tx.fetch("dead.count", int, group.id, letters.since, letters.until)
    return letters_there


async def _count_left(tx: Transaction, group: Group, letters: Letters, now: int) -> tuple[int, int]:
    """How many of these letters a redrive leaves where they are: expired ones, and those that are astray."""
    if letters.ids is not None:
        there = await _named(tx, group, letters)
        kept = [row for row in there if not is_past(row.expires_at, now)]
        return len(there) - len(kept), sum(_is_astray(group, row) for row in kept)
    (expired,) = await tx.fetch("dead.count_expired", int, group.id, letters.since, letters.until, now)
    queues = sorted(group.retry_queue_of) or [0]
    (astray,) = await tx.fetch("dead.count_astray", int, group.id, letters.since, letters.until, queues, now)
    return expired, astray


async def _named(tx: Transaction, group: Group, letters: Letters) -> list[LockedDead]:
    """The named letters that exist."""
    if not letters.ids:
        return []
    found = await tx.fetch("dead.places", LockedDead, group.id, list(letters.ids))
    return [row for row in found if letters.since <= row.dead_at < letters.until]


def _is_astray(group: Group, row: LockedDead) -> bool:
    return row.offset < 0 or row.queue_id not in group.retry_queue_of

"""Finds rows that promotion cannot take because SQL from outside has spoilt them, and says why."""

from collections.abc import Sequence

from ..ids import SHARDS, due_of, first_id, shard_of
from ..ports import Transaction
from ..rows import GUARDED, OF_SCHEDULE
from ..stream.offsets import not_of
from .timers import LOST

TAKEN = "a message with its id is in the stream already"
_HELD = "promotion passes it over: another transaction holds it, or its queue, all the time"
_UNPOINTED = "it was rescheduled, and no row of `moved` leads to it: reschedule it once more"
_LATE = 60_000
"""Milliseconds overdue after which a row is reported to an operator."""
_LOOKED_AT = 1_000
"""How many rows of a shard are examined."""
_NO_COURSE = "its schedule cannot be read; the log names it"
_UNASKED = "its guard is not asked, or does not let it go; the log says why"
_UNGUARDED = "its column `special` says that it has a guard, and it names none"
_BELOW = "its id is below 0: nothing looks there"
_LOWEST = -(1 << 63)


async def taken(tx: Transaction, ids: Sequence[int]) -> list[int]:
    """The ids among these that a message in the stream has."""
    return await tx.fetch("message.there", int, ids) if ids else []


async def passed_over(tx: Transaction, entries: Sequence[int], now: int) -> dict[int, str]:
    """Why promotion did not take these entries; those that are gone or not due are left out."""
    messages = [entry for entry in entries if entry >= 0]
    retries = [~entry for entry in entries if entry < 0]
    waiting = await tx.fetch("delay.anywhere", tuple[int, int, int, int, int, int, int], messages) if messages else []
    resting = await tx.fetch("retry.anywhere", tuple[int, int, int, int, int], retries) if retries else []
    waiting = [row for row in waiting if row[2] <= now]
    resting = [row for row in resting if due_of(row[0]) <= now]
    wanted = sorted({row[4] for row in waiting} | {row[3] for row in resting})
    owners = dict(await tx.fetch("queue.owners", tuple[int, int], wanted)) if wanted else {}
    whys: dict[int, str] = {}
    for id_, shard, _, topic_id, queue_id, special, unguarded in waiting:
        if special not in (0, OF_SCHEDULE, GUARDED):
            whys[id_] = f"its column `special` is {special}, which this version does not know"
        else:
            left = (_UNGUARDED if unguarded else _UNASKED) if special == GUARDED else _NO_COURSE if special else _HELD
            whys[id_] = _misplaced(id_, shard) or _astray(queue_id, topic_id, owners) or left
    for id_, shard, group_id, queue_id, is_there in resting:
        left = _HELD if is_there else LOST
        whys[~id_] = _misplaced(id_, shard) or _astray(queue_id, -group_id, owners) or left
    return whys


async def find(tx: Transaction, shard: int, now: int) -> dict[str, str]:
    """What is wrong with the first rows of a shard of `delay` or `retry` that have been due for a while, for an
    operator: a reason by the name of each row."""
    until = first_id(now - _LATE)
    ids = [id_ for id_, _ in await tx.fetch("delay.due", tuple[int, int], shard, _LOWEST, until, _LOOKED_AT)]
    retries = await tx.fetch("retry.due", int, shard, _LOWEST, until, _LOOKED_AT) if shard < SHARDS else []
    below = [*(f"message {id_}" for id_ in ids if id_ < 0), *(f"retry {id_}" for id_ in retries if id_ < 0)]
    ids = [id_ for id_ in ids if id_ >= 0]
    whys = await passed_over(tx, [*ids, *(~id_ for id_ in retries if id_ >= 0)], now - _LATE)
    whys = {entry: why for entry, why in whys.items() if why not in (_HELD, _NO_COURSE, _UNASKED)}
    whys |= dict.fromkeys(await taken(tx, ids), TAKEN)
    if shard >= SHARDS:
        unpointed = await tx.fetch("delay.unpointed", int, shard, _LOOKED_AT)
        whys |= dict.fromkeys([id_ for id_ in unpointed if id_ >= 0], _UNPOINTED)
    return dict.fromkeys(below, _BELOW) | {name_of(entry): why for entry, why in whys.items()}


def name_of(entry: int) -> str:
    """The name of a wheel entry for people."""
    return f"message {entry}" if entry >= 0 else f"retry {~entry}"


def _misplaced(id_: int, shard: int) -> str | None:
    if shard % SHARDS == shard_of(id_):
        return None
    return f"it lies in shard {shard}, and its id is of shard {shard_of(id_)}"


def _astray(queue_id: int, owner: int, owners: dict[int, int]) -> str | None:
    if queue_id not in owners:
        return f"there is no queue {queue_id}"
    return None if owners[queue_id] == owner else not_of(queue_id, owner)

"""Sets and cancels timers by key in a user's own transaction; they change when that is committed.

As everything in `outbox`, this locks only what it changes: the timer's row and that of its message. Another transaction
that sets the same timer meanwhile waits, or is told that it is locked.
"""

from attrs import frozen

from ..ids import IdMaker, shard_of
from ..records import Verdict
from ..rows import TimerRow
from ..timers.keyed import Mode
from . import outbox
from .outbox import Entry, OutboxTransaction


@frozen
class Armed:
    """The message that a timer has from the commit on."""

    id: int
    revision: int
    deliver_at: int
    replaced: int | None
    """The id of the message that it replaced."""


async def set_timer(
    tx: OutboxTransaction,
    ids: IdMaker,
    topic_name: str,
    key: str,
    entry: Entry,
    max_delay: int,
    *,
    mode: Mode = "replace",
    longest: int | None = None,
) -> Armed:
    """Sets a timer; see `timers.keyed`. `entry` has the timer's key. Raises `TopicMissing`, `WrongQueue`, `TooFar` and
    `Expired` before anything is written."""
    topic = await outbox.named_topic(tx, topic_name)
    queue, now = outbox.queue_for(topic, entry), await tx.now()
    at = outbox.deliver_at(entry, now, max_delay)
    timer = await _lock(tx, topic.id, key)
    waiting = await outbox.lock_waiting(tx, timer.id) if timer.id else None
    if waiting is not None and mode == "keep":
        return Armed(timer.id, timer.revision, waiting.deliver_at, None)
    first_at = now if waiting is None else timer.first_at
    if mode == "debounce" and longest is not None:
        at = min(at, first_at + longest)
    (id_,) = await outbox.add(tx, ids, topic, [(entry, queue, at)], now)
    if waiting is not None:
        await outbox.remove_waiting(tx, waiting)
        await tx.execute("label.remove", [(topic.id, waiting.key, waiting.id)])
        await tx.execute_many(
            "outbox_cancel.add_replaced", [(shard_of(waiting.id), waiting.id, topic.id, waiting.uncounted, 1)]
        )
    revision = max(now, timer.revision + 1)
    await tx.execute("timer.change", id_, revision, first_at, topic.id, key.encode())
    return Armed(id_, revision, at, None if waiting is None else waiting.id)


async def cancel_timer(tx: OutboxTransaction, topic_name: str, key: str) -> Verdict:
    """Cancels the waiting message of the key. The verdict is as exact as over HTTP."""
    topic = await outbox.named_topic(tx, topic_name)
    timer = await _lock(tx, topic.id, key)
    if not timer.id:
        await tx.execute("timer.remove", [(topic.id, key.encode())])
        return Verdict("not_found")
    (verdict,) = await outbox.cancel(tx, [timer.id])
    return verdict


async def _lock(tx: OutboxTransaction, topic_id: int, key: str) -> TimerRow:
    await tx.execute("timer.lock_or_add", topic_id, key.encode())
    (timer,) = await tx.fetch("timer.locked", TimerRow, topic_id, key.encode())
    return timer

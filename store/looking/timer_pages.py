"""Pages of the timers of a topic, in the order of their keys, each with the state of its message.

A page takes as many statements as a single timer. Timers whose messages are long gone are left out; so a page may be
short and still not be the last: `TimerPage.after` tells.
"""

from collections.abc import Sequence

from attrs import frozen

from ..ids import places_of
from ..ports import Transaction
from ..records import Topic
from ..rows import Cancelled, TimerRow
from ..timers.keyed import Standing

_LOOKS = 2
"""How many times timers are looked up: one that was set again between two statements is looked up once more."""


@frozen
class TimerPage:
    """A page of timers in order of their keys. `after`: the next page begins behind this key; None: this is the
    last."""

    timers: tuple[tuple[str, Standing], ...]
    after: str | None


async def find(tx: Transaction, topic: Topic, after: str, limit: int) -> TimerPage:
    """A page of the timers of a topic, behind the key `after`."""
    rows = await tx.fetch("timer.of_topic", TimerRow, topic.id, after.encode(), limit)
    found: dict[bytes, Standing] = {}
    left = rows
    for _ in range(_LOOKS):
        found |= await _standings(tx, topic, left)
        missing = [(topic.id, row.key) for row in rows if row.key not in found]
        left = await tx.fetch("timer.find", TimerRow, missing) if missing else []
    timers = tuple((row.key.decode(), found[row.key]) for row in rows if row.key in found)
    return TimerPage(timers, rows[-1].key.decode() if len(rows) == limit else None)


async def _standings(tx: Transaction, topic: Topic, rows: Sequence[TimerRow]) -> dict[bytes, Standing]:
    """The states of the timers by key. Reads the tables in the order in which a message can move, so that none is
    missed."""
    if not rows:
        return {}
    ids = [row.id for row in rows]
    waiting = dict(await tx.fetch("delay.times", tuple[int, int], places_of(ids)))
    cancelled = {row.id: row for row in await tx.fetch("cancelled.find", Cancelled, ids)}
    streamed = {id_: place for id_, *place in await tx.fetch("message.standing", tuple[int, int, int, int], ids)}
    numbers = {queue.id: queue.number for queue in topic.queues}
    found: dict[bytes, Standing] = {}
    for row in rows:
        if row.id in streamed:
            queue_id, offset, deliver_at = streamed[row.id]
            found[row.key] = Standing("published", row.id, row.revision, deliver_at, numbers.get(queue_id), offset)
        elif (gone := cancelled.get(row.id)) is not None:
            found[row.key] = Standing(gone.state, row.id, row.revision, gone.deliver_at)
        elif row.id in waiting:
            found[row.key] = Standing("scheduled", row.id, row.revision, waiting[row.id])
    return found

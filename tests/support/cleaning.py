"""Retention as the service carries it out: batch after batch, until a round is over."""

from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from support.stores import HOUR, Stage
from tarry.store.cleaning import retention
from tarry.store.cleaning.retention import Limits, Removed
from tarry.store.records import Topic

DAY = 24 * HOUR
LIMITS = Limits(retention=7 * DAY, hard=28 * DAY, history=28 * DAY, dead=90 * DAY)


async def whole_round(stage: Stage, batch: Callable[..., Coroutine[Any, Any, Removed]], **how: Any) -> Removed:
    rows, start, expired = 0, 0, Counter[int]()
    while True:
        done = await stage.store.write(batch, now=stage.now, start=start, **how)
        rows, start = rows + done.rows, done.next
        expired.update(done.expired)
        if done.done:
            return Removed(rows, start, True, dict(expired))


async def clean(
    stage: Stage, topic: Topic, *, after: int = 0, limits: Limits = LIMITS, limit: int = 3, queue: int = 0
) -> Removed:
    """A whole round over one queue, so much time later, in small batches."""
    stage.now += after
    place = {"topic": topic, "queue": topic.queues[queue]}
    return await whole_round(stage, retention.clean_messages, **place, limits=limits, limit=limit)

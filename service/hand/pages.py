"""The rows of a stretch of time, page by page: for who loads the wheel, and for a sweep that finds many."""

from collections.abc import Awaitable, Callable, Sequence

from ...store.ids import due_of, first_id
from ...store.store import Store
from ...store.timers import timers

Page = Callable[[int], Awaitable[bool]]
"""Reads the next page of at most so many rows, and tells whether there may be more."""


def pages(
    store: Store, shard: int, since: int, until: int, add: Callable[[Sequence[timers.Scan]], None]
) -> tuple[Page, Page, Page]:
    """What falls due in a shard between two milliseconds, a reader for each table; `add` is given (entry, due)."""
    after = {"delay": first_id(since), "retry": first_id(since)}
    after_moved = (since - 1, 0)

    async def messages(limit: int) -> bool:
        rows = await store.read(timers.due_messages, shard, after["delay"], until, limit)
        if rows:
            after["delay"], _ = rows[-1]
            after["delay"] += 1
        add(rows)
        return len(rows) == limit

    async def moved(limit: int) -> bool:
        nonlocal after_moved
        rows = await store.read(timers.due_moved, shard, after_moved, until, limit)
        if rows:
            id_, due = rows[-1]
            after_moved = (due, id_)
        add(rows)
        return len(rows) == limit

    async def retries(limit: int) -> bool:
        ids = await store.read(timers.due_retries, shard, after["retry"], until, limit)
        if ids:
            after["retry"] = ids[-1] + 1
        add([(~id_, due_of(id_)) for id_ in ids])
        return len(ids) == limit

    return messages, moved, retries

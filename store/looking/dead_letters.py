"""The dead letters of a group: a page of them, and a search.

A search reads what it needs of the letters in the order of their ids, a bounded number in one call. So a page may be
short, or empty, and still not the last: what says so is `DeadPage.after`.
"""

from collections.abc import Iterable

import msgspec
from attrs import frozen

from ..ports import Row, Transaction
from ..records import DeadLetter, Delivered, Group
from ..stream.stretches import CLAIM_BYTES
from ..text import decode, encode

_PAGE = 500
_PAGES = 20
"""A call reads this many pages at most: 10,000 letters."""


@frozen
class DeadSearch:
    """Which letters; None is any."""

    key: str | None = None
    reason: str | None = None
    """A part of the last attempt's reason, upper and lower case alike."""
    since: int | None = None
    until: int | None = None
    """Unix milliseconds of `dead_at`; the end is not of it."""


@frozen
class DeadPage:
    """Some letters by message id. `after`: the next page begins behind this id; None: there is none."""

    letters: tuple[DeadLetter, ...]
    after: int | None


async def page(tx: Transaction, group: Group, after: int, limit: int) -> list[DeadLetter]:
    """Dead letters by message id, from behind `after`."""
    return _letters(group, await tx.fetch("dead.list", group.id, after, limit))


async def find(tx: Transaction, group: Group, search: DeadSearch, after: int, limit: int) -> DeadPage:
    """Letters that fit, by message id, from behind `after`."""
    found: list[int] = []
    size = limit if search == DeadSearch() else _PAGE
    for _ in range(_PAGES):
        rows = await tx.fetch("dead.scan", group.id, after, size)
        for row in rows:
            after = row[0]
            if _fits(search, row):
                found.append(row[0])
            if len(found) == limit:
                return await _up_to_bytes(tx, group, found, after)
        if len(rows) < size:
            return await _up_to_bytes(tx, group, found, None)
    return await _up_to_bytes(tx, group, found, after)


async def _up_to_bytes(tx: Transaction, group: Group, ids: list[int], after: int | None) -> DeadPage:
    """Those of these letters that a page has room for, one at the least; the next page begins with the others."""
    weights: dict[int, int] = dict(await tx.fetch("dead.weights", ids, [group.id])) if ids else {}
    total = 0
    for place, id_ in enumerate(ids):
        total += int(weights.get(id_, 0))
        if place and total > CLAIM_BYTES:
            ids, after = ids[:place], ids[place - 1]
            break
    return DeadPage(await _whole(tx, group, ids), after)


def _fits(search: DeadSearch, row: Row) -> bool:
    _, dead_at, key, history = row
    if search.key is not None and key != encode(search.key):
        return False
    if search.since is not None and dead_at < search.since:
        return False
    if search.until is not None and dead_at >= search.until:
        return False
    if search.reason is None:
        return True
    attempts = msgspec.json.decode(history, type=list[dict[str, str | int | None]])
    reason = attempts[-1].get("reason") if attempts else None
    return isinstance(reason, str) and search.reason.casefold() in reason.casefold()


async def _whole(tx: Transaction, group: Group, ids: list[int]) -> tuple[DeadLetter, ...]:
    return tuple(_letters(group, await tx.fetch("dead.whole", group.id, ids))) if ids else ()


def _letters(group: Group, rows: Iterable[Row]) -> list[DeadLetter]:
    numbers = {queue.id: queue.number for queue in group.topic.queues}
    letters: list[DeadLetter] = []
    for row in rows:
        id_, dead_at, history, queue_id, offset, key, ordering_key, tag, headers, content_type, body, *times = row
        attempt = len(msgspec.json.decode(history))
        message = Delivered(
            id=id_,
            queue=numbers[queue_id],
            offset=offset,
            attempt=attempt,
            key=decode(key),
            ordering_key=decode(ordering_key),
            tag=decode(tag),
            headers=headers,
            content_type=decode(content_type),
            body=body,
            published_at=times[0],
            deliver_at=times[1],
            streamed_at=dead_at,
        )
        letters.append(DeadLetter(message, dead_at, history))
    return letters

"""Pages and searches of the dead letters of a group.

A search reads letters in the order of their ids, a bounded number in one call. So a page may be short, or empty, and
still not be the last: `DeadPage.after` tells.
"""

from typing import NamedTuple

from attrs import frozen
from msgspec.structs import asdict

from ..history import last_reason, since_redrive
from ..ports import Transaction
from ..records import DeadLetter, Delivered, Group
from ..rows import Letter
from ..stream.stretches import CLAIM_BYTES

_PAGE = 500
_PAGES = 20
"""A call reads this many pages at most: 10,000 letters."""


@frozen
class DeadSearch:
    """The letters to search for; None means any."""

    key: str | None = None
    reason: str | None = None
    """A part of the last attempt's reason, ignoring case."""
    since: int | None = None
    until: int | None = None
    """Unix milliseconds of `dead_at`; the end is not included."""


@frozen
class DeadPage:
    """A page of letters in order of their message ids. `after`: the next page begins behind this id; None: this is the
    last page."""

    letters: tuple[DeadLetter, ...]
    after: int | None


class _Scanned(NamedTuple):
    id: int
    dead_at: int
    key: str | None
    history: bytes


async def find(tx: Transaction, group: Group, search: DeadSearch, after: int, limit: int) -> DeadPage:
    """A page of matching letters in order of their message ids, behind `after`."""
    found: list[int] = []
    size = limit if search == DeadSearch() else _PAGE
    for _ in range(_PAGES):
        rows = await tx.fetch("dead.scan", _Scanned, group.id, after, size)
        for row in rows:
            after = row.id
            if _fits(search, row):
                found.append(row.id)
            if len(found) == limit:
                return await _up_to_bytes(tx, group, found, after)
        if len(rows) < size:
            return await _up_to_bytes(tx, group, found, None)
    return await _up_to_bytes(tx, group, found, after)


async def _up_to_bytes(tx: Transaction, group: Group, ids: list[int], after: int | None) -> DeadPage:
    """As many of these letters as fit into a page, at least one; the next page begins with the others."""
    weights = dict(await tx.fetch("dead.weights", tuple[int, int], ids, [group.id])) if ids else {}
    total = 0
    for place, id_ in enumerate(ids):
        total += weights.get(id_, 0)
        if place and total > CLAIM_BYTES:
            ids, after = ids[:place], ids[place - 1]
            break
    return DeadPage(await _whole(tx, group, ids), after)


def _fits(search: DeadSearch, row: _Scanned) -> bool:
    if search.key is not None and row.key != search.key:
        return False
    if search.since is not None and row.dead_at < search.since:
        return False
    if search.until is not None and row.dead_at >= search.until:
        return False
    if search.reason is None:
        return True
    reason = last_reason(row.history)
    return reason is not None and search.reason.casefold() in reason.casefold()


async def _whole(tx: Transaction, group: Group, ids: list[int]) -> tuple[DeadLetter, ...]:
    """The letters with their contents. A letter of a queue that the topic does not have, written by SQL from outside,
    is shown with queue -1."""
    numbers = {queue.id: queue.number for queue in group.topic.queues}
    letters: list[DeadLetter] = []
    for row in await tx.fetch("dead.whole", Letter, group.id, ids) if ids else ():
        attempt = len(since_redrive(row.history))
        message = Delivered(
            **asdict(row.content),
            id=row.id,
            queue=numbers.get(row.queue_id, -1),
            offset=row.offset,
            attempt=attempt,
            streamed_at=row.dead_at,
        )
        letters.append(DeadLetter(message, row.dead_at, row.history))
    return tuple(letters)

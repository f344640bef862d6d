"""What clients hold: open claims, and queues of ordered topics. Also looks up claims by their names, open or ended.

A caller may name thousands of claims that do not exist: all claims of a request are looked up together.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import TypeVar

from attrs import frozen

from ..ports import Transaction
from ..records import ClaimKey
from ..rows import encode

T = TypeVar("T")

_TOGETHER = 500
"""How many claims are looked up at once: for many more MySQL would read the whole table."""


@frozen
class Holding:
    """What a client holds in a queue, which is the topic's own or a retry queue of the group."""

    client: str
    group_id: int
    queue_id: int
    claims: int
    """How many open claims."""
    owner: bool = False
    """Ordered topics: the client owns the queue, so it alone may claim from it."""


async def holders(tx: Transaction, after: str, limit: int) -> list[str]:
    """Names of clients that hold open claims, in order, behind `after`."""
    return await tx.fetch("claim.clients", str, encode(after), limit)


async def open_claims(tx: Transaction, clients: Sequence[str]) -> list[ClaimKey]:
    """The open claims of these clients."""
    return await tx.fetch("claim.of_clients", ClaimKey, [encode(client) for client in clients])


async def find_open(tx: Transaction, keys: Collection[ClaimKey]) -> dict[ClaimKey, int]:
    """The claims among these that are open with the same token, and how many offsets each has."""
    rows: list[tuple[int, int, int, int, int]] = []
    for some in _pieces(keys):
        spans = sorted({(key.group_id, key.queue_id, key.number, key.number + 1) for key in some})
        rows += await tx.fetch("claim.find", tuple[int, int, int, int, int], spans)
    return _under_their_tokens(keys, rows)


async def find_ended(tx: Transaction, keys: Collection[ClaimKey]) -> dict[ClaimKey, bytes]:
    """The claims among these that have ended, with the outcomes of their messages."""
    rows: list[tuple[int, int, int, int, bytes]] = []
    for some in _pieces(keys):
        spans = sorted({(key.group_id, key.queue_id, key.first, key.first + 1) for key in some})
        rows += await tx.fetch("delivery.find_all", tuple[int, int, int, int, bytes], spans)
    return _under_their_tokens(keys, rows)


async def find_places(tx: Transaction, keys: Sequence[ClaimKey]) -> dict[ClaimKey, dict[int, int]]:
    """For each of these claims that exists with its token, open or ended: the positions by message id."""
    sizes = await find_open(tx, keys)
    ended = await find_ended(tx, [key for key in keys if key not in sizes])
    sizes |= {key: len(outcome) for key, outcome in ended.items()}
    if not sizes:
        return {}
    spans = [(key.queue_id, key.first, key.first + size) for key, size in sizes.items()]
    rows = await tx.fetch("redelivery.ids_within", tuple[int, int, int], spans)
    rows += await tx.fetch("message.ids_within", tuple[int, int, int], spans)
    ids = {(queue_id, offset): id_ for queue_id, offset, id_ in rows if id_ >= 0}
    return {
        key: {id_: place for place in range(size) if (id_ := ids.get((key.queue_id, key.first + place))) is not None}
        for key, size in sizes.items()
    }


async def find_places_now(tx: Transaction, keys: Sequence[ClaimKey]) -> dict[ClaimKey, dict[int, int]]:
    """The same, and that there are none is true: see `Transaction.note`."""
    await tx.note()
    return await find_places(tx, keys)


def _under_their_tokens(keys: Collection[ClaimKey], rows: Iterable[tuple[int, int, int, int, T]]) -> dict[ClaimKey, T]:
    """The values found for these claims, matched by group, queue, number and token."""
    found = {(*claim,): one for *claim, one in rows}
    named = [(key, (key.group_id, key.queue_id, key.number, key.token)) for key in keys]
    return {key: found[name] for key, name in named if name in found}


def _pieces(keys: Collection[ClaimKey]) -> list[list[ClaimKey]]:
    every = list(keys)
    return [every[start : start + _TOGETHER] for start in range(0, len(every), _TOGETHER)]


async def over(tx: Transaction, now: int, limit: int) -> list[tuple[ClaimKey, int]]:
    """Claims whose lease has run out, each with the end of its lease, oldest first."""
    rows = await tx.fetch("claim.over", tuple[int, int, int, int, int, int], now, limit)
    return [(ClaimKey(*key), lease_until) for *key, lease_until in rows]


async def of_clients(tx: Transaction, clients: Sequence[str]) -> list[Holding]:
    """Everything that these clients hold."""
    names = [encode(client) for client in clients]
    claims = await tx.fetch("claim.counts_of_clients", tuple[str, int, int, int], names)
    owned = await tx.fetch("queue_owner.of_clients", tuple[str, int, int], names)
    return [*(Holding(*row) for row in claims), *(Holding(*row, 0, owner=True) for row in owned)]

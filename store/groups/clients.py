"""Registered clients, whose liveness is watched: each has a row, which alone says whether the client is alive.

Several nodes hear of a client, and any of them may find it dead. So a sign of life only ever raises `renewed_at`, and a
client is removed only if that has not changed meanwhile. With the row go its offsets on broadcast topics, and the
leases of its claims end, all in one transaction: the next transaction finds all of this or nothing.

A row that another transaction holds may be about to get a sign of life. So a client whose row is locked is never found
dead.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from attrs import frozen

from ..ports import Asked, Transaction, Value
from ..records import ClaimKey
from ..rows import encode
from ..stream import readers
from . import members
from .locked_rows import ClaimRow

_EVER = 1 << 62


class _Watched(NamedTuple):
    name: str
    registered_at: int
    renewed_at: int


@frozen
class Registration:
    """When a client registered, and its last recorded sign of life."""

    registered_at: int
    renewed_at: int


@frozen
class Left:
    """What a client left behind. `watched`: it was registered, and had given no sign of life since."""

    watched: bool
    claims: tuple[ClaimKey, ...] = ()
    """The claims whose leases were ended; not those that a user's own transaction held at that moment."""


async def all_watched(tx: Transaction) -> dict[str, Registration]:
    """All clients that are watched, by name."""
    return _registrations(await tx.fetch("client.all", _Watched))


def _registrations(rows: Iterable[_Watched]) -> dict[str, Registration]:
    return {row.name: Registration(row.registered_at, row.renewed_at) for row in rows}


async def renew(tx: Transaction, signs: Mapping[str, int], register: Collection[str] = ()) -> dict[str, Registration]:
    """Records signs of life of clients, as Unix milliseconds by name; those to `register` are watched from now on.

    Returns those of them that are watched now. The others were found dead, deregistered, or never registered.
    """
    return await _note(tx, await tx.fetch("client.lock", _Watched, _names(signs)), signs, register)


async def renew_free(
    tx: Transaction, signs: Mapping[str, int], register: Collection[str] = ()
) -> tuple[dict[str, Registration], set[str]]:
    """As `renew`, but without waiting; also returns the clients whose rows another transaction holds."""
    free, there = Asked("client.free", _Watched, _names(signs)), Asked("client.there", tuple[str, int], _names(signs))
    await tx.fetch_all([free, there])
    locked = {name for name, _ in there.rows} - {row.name for row in free.rows}
    heard = {name: at for name, at in signs.items() if name not in locked}
    return await _note(tx, free.rows, heard, register), locked


def _names(clients: Iterable[str]) -> list[Value]:
    return list[Value](sorted(name.encode() for name in clients))


async def _note(
    tx: Transaction, rows: Iterable[_Watched], signs: Mapping[str, int], register: Collection[str]
) -> dict[str, Registration]:
    """Records signs of life; `rows` are the locked rows of watched clients."""
    watched = _registrations(rows)
    changed: dict[str, Registration] = {}
    for name, at in sorted(signs.items()):
        before = watched.get(name)
        if before is not None and before.renewed_at < at:
            changed[name] = Registration(before.registered_at, at)
        elif before is None and name in register:
            changed[name] = Registration(at, at)
    if changed:
        puts = [(encode(name), one.registered_at, one.renewed_at) for name, one in changed.items()]
        await tx.execute_many("client.put", puts)
    return watched | changed


async def remove(tx: Transaction, clients: Mapping[str, int | None], now: int) -> dict[str, Left]:
    """Removes clients that are dead, if their last sign of life is not later than the time given for each; those with
    None deregister, and are removed in any case."""
    left = {name: Left(watched=False) for name in sorted(clients)}
    dead: list[Value] = [name.encode() for name in left if clients[name] is not None]
    free = {row.name for row in await tx.fetch("client.free", _Watched, dead)} if dead else set[str]()
    for name in left:
        renewed_by = clients[name]
        if renewed_by is not None and name not in free:
            continue
        watched = await tx.execute("client.bury", encode(name), _EVER if renewed_by is None else renewed_by) > 0
        left[name] = Left(watched)
    gone = [name for name, one in left.items() if one.watched or clients[name] is None]
    if gone:
        await readers.forget(tx, gone)
        await members.leave(tx, gone)
        for name, claims in (await _end_leases(tx, gone, now)).items():
            left[name] = Left(left[name].watched, tuple(claims))
    return left


async def _end_leases(tx: Transaction, clients: list[str], now: int) -> dict[str, list[ClaimKey]]:
    """Ends the leases of all claims of these clients; returns the claims by client."""
    numbers: defaultdict[tuple[int, int], dict[int, ClaimKey]] = defaultdict(dict)
    for key in await tx.fetch("claim.of_clients", ClaimKey, [encode(name) for name in clients]):
        numbers[key.group_id, key.queue_id][key.number] = key
    ended: defaultdict[str, list[ClaimKey]] = defaultdict(list)
    for cursor, keys in sorted(numbers.items()):
        for claim in await tx.fetch("claim.lock", ClaimRow, *cursor, sorted(keys)):
            if keys[claim.number].token != claim.token:
                continue
            ended[claim.client].append(keys[claim.number])
            if claim.lease_until > now:
                kept = bytes(claim.outcome), bytes(claim.settled_at)
                await tx.execute("claim.change", now, *kept, *cursor, claim.number)
    return ended

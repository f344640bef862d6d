"""Nodes: the servers that are at work on the database, a row each, renewed for as long as they are.

A slot is a small number that no other node has: the rows of `tally` that it counts in are its own.
"""

from collections.abc import Sequence

from attrs import evolve, frozen

from .ports import Transaction
from .rows import encode


@frozen
class NodeRow:
    """A server. Times are Unix milliseconds; `level` is the newest migration that it knows."""

    boot: str
    name: str
    slot: int
    level: int
    started_at: int
    renewed_at: int
    facts: bytes
    """What it tells of itself: JSON."""


@frozen
class SeenNode(NodeRow):
    """A server as it was seen; `asked_at` is Unix microseconds of the database, 0 where the host has the clock, and
    where the database takes no writes."""

    asked_at: int


async def all_nodes(tx: Transaction) -> list[NodeRow]:
    """By slot."""
    return await tx.fetch("node.all", NodeRow)


async def look(tx: Transaction) -> list[SeenNode]:
    """By slot, and what time it is at the database."""
    return await tx.fetch("node.look", SeenNode)


async def enter(tx: Transaction, node: NodeRow) -> NodeRow:
    """The node with the lowest slot that is free. Raises `DuplicateKey` when another took that just now."""
    taken = {one.slot for one in await all_nodes(tx)}
    node = evolve(node, slot=next(slot for slot in range(len(taken) + 1) if slot not in taken))
    names = (encode(node.boot), encode(node.name))
    await tx.execute_many("node.add", [(*names, node.slot, node.level, node.started_at, node.renewed_at, node.facts)])
    return node


async def renew(tx: Transaction, boot: str, now: int, facts: bytes) -> bool:
    """False when it was taken for dead meanwhile."""
    return await tx.execute("node.renew", now, facts, encode(boot)) > 0


async def bury(tx: Transaction, dead: Sequence[NodeRow]) -> list[str]:
    """Removes those among these that have not renewed since they were read so; their boots."""
    return [row.boot for row in dead if await tx.execute("node.bury", encode(row.boot), row.renewed_at)]


async def leave(tx: Transaction, boot: str) -> None:
    """It stops, and its slot is free."""
    await tx.execute("node.remove", encode(boot))

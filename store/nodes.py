"""Nodes: the servers that run on the database, a row each, which the node renews while it runs.

A slot is a small number that no other node has, so that each node counts in rows of `tally` of its own.
"""

from collections.abc import Sequence

from attrs import evolve, frozen

from .ports import Transaction
from .rows import encode


@frozen
class NodeRow:
    """A node. Times are Unix milliseconds; `level` is the newest migration that it knows."""

    boot: str
    name: str
    slot: int
    level: int
    started_at: int
    renewed_at: int
    facts: bytes
    """What the node tells about itself, as JSON."""


@frozen
class SeenNode(NodeRow):
    """A node, and when it was read: `asked_at` is the database's time in Unix microseconds, and 0 where the host's
    clock is used, or where the database takes no writes."""

    asked_at: int


async def all_nodes(tx: Transaction) -> list[NodeRow]:
    """All nodes in order of their slots."""
    return await tx.fetch("node.all", NodeRow)


async def look(tx: Transaction) -> list[SeenNode]:
    """All nodes in order of their slots, with the database's time."""
    return await tx.fetch("node.look", SeenNode)


async def enter(tx: Transaction, node: NodeRow) -> NodeRow:
    """Adds the node with the lowest free slot and returns it. Raises `DuplicateKey` when another took the slot just
    now."""
    taken = {one.slot for one in await all_nodes(tx)}
    node = evolve(node, slot=next(slot for slot in range(len(taken) + 1) if slot not in taken))
    names = (encode(node.boot), encode(node.name))
    await tx.execute_many("node.add", [(*names, node.slot, node.level, node.started_at, node.renewed_at, node.facts)])
    return node


async def renew(tx: Transaction, boot: str, now: int, facts: bytes) -> bool:
    """Renews the node's row; returns False when it was removed meanwhile, since the node was taken for dead."""
    return await tx.execute("node.renew", now, facts, encode(boot)) > 0


async def bury(tx: Transaction, dead: Sequence[NodeRow]) -> list[str]:
    """Removes those of these nodes that have not renewed since they were read; returns their boots."""
    return [row.boot for row in dead if await tx.execute("node.bury", encode(row.boot), row.renewed_at)]


async def leave(tx: Transaction, boot: str) -> None:
    """Removes the node, which stops, and so frees its slot."""
    await tx.execute("node.remove", encode(boot))

"""Which node of a Galera the servers of Tarry write to: one and the same.

Locks are of one node. What is locked at one is given out by another; and of two that decide by a row that both have
locked, each at its own node, only one is undone, and only if both change that row. So each server tells the others in
its row of `node` where it writes, and goes to another node only when none that lives tells of a different one.
"""

from typing import Any

import msgspec

from ..errors import Refused
from ..nodes import WRITES_TO, SeenNode
from ..rows import read
from .connection import Connection
from .statements import bind

_ALIVE = 5_000
"""Milliseconds after which a server that has not renewed its row is dead: `service.engine.cluster.nodes.LEASE`."""
_NO_SUCH_TABLE = 1146


async def told(connection: Connection, boot: str, *, before: bool = False) -> set[str]:
    """Where the other living servers write: all of them, or those `before` the one of this boot, by slot."""
    try:
        rows = read(SeenNode, await connection.fetch(bind("node.look", ())))
    except Refused as error:
        if error.code == _NO_SUCH_TABLE:
            return set()
        raise
    own = next((row.slot for row in rows if row.boot == boot), -1)
    others = [row for row in rows if row.boot != boot and (row.slot < own or not before)]
    alive = [row for row in others if row.asked_at / 1000 - row.renewed_at <= _ALIVE]
    return {name for row in alive for name in _names(row.facts)}


def _names(facts: bytes) -> list[str]:
    try:
        known: dict[str, Any] = msgspec.json.decode(facts, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []
    return [str(name) for name in known.get(WRITES_TO, ())]

"""Which node of a Galera the servers of Tarry write to: one and the same.

Locks are of one node. What is locked at one is given out by another; and of two that decide by a row that both have
locked, each at its own node, only one is undone, and only if both change that row. So the node that is written to holds
a lease, which all servers that write there keep up. Nobody goes to another before it is over: of two who take it at two
nodes one is undone.
"""

from .. import leases
from ..errors import Refused
from ..ports import Transaction

_WRITER = "writer"
_HELD = 6_000
"""Milliseconds; it is kept up each second. A Galera that has lost a node commits nothing for about as long."""
_NO_SUCH_TABLE = 1146


async def hold(tx: Transaction, node: str, now: int) -> str | None:
    """Takes the lease for this node, or keeps it up; or which node has it."""
    if await leases.hold(tx, _WRITER, node, now, now + _HELD):
        return None
    return await holder(tx, node, now)


async def holder(tx: Transaction, node: str, now: int) -> str | None:
    """Which other node has it; None: none has, or there is no schema yet."""
    try:
        lease = await leases.find(tx, _WRITER)
    except Refused as error:
        if error.code == _NO_SUCH_TABLE:
            return None
        raise
    return lease.holder if lease is not None and lease.until > now and lease.holder != node else None

"""The lease that makes all servers of Tarry write to the same node of a Galera.

A lock holds on one node only: a row that is locked there is handed out by another node. Of two transactions that decide
by a row which each has locked at a node of its own, one is undone only if both change that row. So the node that is
written to has a lease, which all servers that write there renew. No server changes to another node before the lease is
over. If two take it at two nodes at once, one of the transactions is undone.
"""

from .. import leases
from ..errors import Refused
from ..ports import Transaction

_WRITER = "writer"
_HELD = 6_000
"""Milliseconds; it is renewed each second. A Galera that has lost a node commits nothing for about as long."""
_NO_SUCH_TABLE = 1146


async def hold(tx: Transaction, node: str, now: int) -> str | None:
    """Takes or renews the lease for this node, and returns None; if another node has it, returns that node's name."""
    if await leases.hold(tx, _WRITER, node, now, now + _HELD):
        return None
    return await holder(tx, node, now)


async def holder(tx: Transaction, node: str, now: int) -> str | None:
    """The name of the other node that has the lease; None if no other has it, or there is no schema yet."""
    try:
        lease = await leases.find(tx, _WRITER)
    except Refused as error:
        if error.code == _NO_SUCH_TABLE:
            return None
        raise
    return lease.holder if lease is not None and lease.until > now and lease.holder != node else None

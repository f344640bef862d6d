"""A rehearsal: writes what a publish would, to each of its tables, and keeps none of it. Whether one would be taken? Of
the tables of messages that failed or were given a new time, no more is tried than whether they may be written to.

A store may take a small write and not a large one (a full disk), one table and not another (rights, a lock), a
statement and not its commit. So a message is written and taken away again in one transaction, which nobody else sees.
Where all tables are in one file that leaves nothing to be committed: the answer to a request that there never was is
committed too, is past its time already, and goes next.
"""

from ..ids import random_nonces, shard_of
from ..ports import Transaction

_NOWHERE = 0
"""No queue and no topic has this number."""


async def rehearse(tx: Transaction, id_: int, now: int, filling: bytes) -> None:
    """Writes a message of this id and content, to the stream and to those that wait."""
    (nonce,) = random_nonces(1)
    key, shard = str(id_).encode(), shard_of(id_)
    await tx.execute_many("idempotency.add", [(_NOWHERE, key, bytes(32), filling, now)])
    await tx.execute_many("label.add", [(_NOWHERE, key, id_)])
    await tx.execute("label.remove", [(_NOWHERE, key, id_)])
    await tx.execute_many("delay.add_bare", [(shard, id_, now, nonce, _NOWHERE, _NOWHERE, filling, now, now)])
    await tx.execute("delay.remove_locked", shard, id_)
    await tx.execute("moved.remove", shard, now, id_)
    await tx.execute("retry.remove", [id_])
    await tx.execute("tally.count", 0, 0, 0, 0, _NOWHERE, _NOWHERE)
    await tx.execute("queue.advance", 0, _NOWHERE)
    await tx.execute_many("message.add_bare", [(_NOWHERE, id_, id_, nonce, filling, now, now, now)])
    await tx.execute("message.remove", _NOWHERE, id_, id_ + 1)


async def clear_away(tx: Transaction, id_: int, now: int) -> None:
    """Behind it: what was committed."""
    await tx.execute("idempotency.remove", _NOWHERE, [str(id_).encode()], now)

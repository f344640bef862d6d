"""A rehearsal of a publish: tests whether the store would accept one, by writing to each of its tables and keeping none
of it. The tables of retries and of rescheduled messages are only tested for whether they may be written to.

A store may accept a small write but not a large one (a full disk), one table but not another (rights, a lock), or a
statement but not its commit. So a message is written and removed again in one transaction, which nobody else sees.
Where all tables are in one file that would leave nothing to commit. Therefore the answer to a request that never
existed is committed, too; it is out of date already, and is removed next.
"""

from ..ids import random_nonces, shard_of
from ..ports import Transaction

_NOWHERE = 0
"""No queue and no topic has this number."""


async def rehearse(tx: Transaction, id_: int, now: int, filling: bytes) -> None:
    """Writes a message with this id and content to the stream and to the waiting messages, and removes it."""
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
    """Removes what `rehearse` has committed."""
    await tx.execute("idempotency.remove", _NOWHERE, [str(id_).encode()], now)

"""Signed-out browser sessions: remembered by the ids in their cookies until they would have expired.

They are stored with the idempotency keys, under no topic, where entries whose time is over are removed by themselves.
"""

from ..ports import Transaction

_NO_TOPIC = 0


async def end(tx: Transaction, session: bytes, until: int) -> None:
    """Records that a session is signed out; `until` is when it would have expired. Raises `DuplicateKey` when it was
    signed out before."""
    await tx.execute_many("idempotency.add", [(_NO_TOPIC, _key(session), bytes(32), b"", until)])


async def is_ended(tx: Transaction, session: bytes) -> bool:
    """Whether the session was signed out, at any node."""
    return bool(await tx.fetch("idempotency.find", tuple[bytes, bytes, bytes, int], _NO_TOPIC, [_key(session)]))


def _key(session: bytes) -> bytes:
    return b"session " + session.hex().encode()

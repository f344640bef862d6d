"""Sessions that were signed out: remembered until their time is over, by the ids in their cookies.

They lie with the requests that are remembered, of no topic: what is past its time goes there by itself.
"""

from ..ports import Transaction

_NO_TOPIC = 0


async def end(tx: Transaction, session: bytes, until: int) -> None:
    """It is over, `until` when it would have been anyway. Raises `DuplicateKey` where it was before."""
    await tx.execute_many("idempotency.add", [(_NO_TOPIC, _key(session), bytes(32), b"", until)])


async def is_ended(tx: Transaction, session: bytes) -> bool:
    """Whether it was signed out, at whichever server."""
    return bool(await tx.fetch("idempotency.find", tuple[bytes, bytes, bytes, int], _NO_TOPIC, [_key(session)]))


def _key(session: bytes) -> bytes:
    return b"session " + session.hex().encode()

"""Requests that were answered before: known by their idempotency key, per topic, for a while."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Set

from ..ports import Transaction

Known = dict[tuple[int, str], tuple[bytes, bytes]]
"""By topic and key: the fingerprint of the request, and its answer."""
Request = tuple[str, bytes]
"""Its idempotency key, and its fingerprint."""


async def known(tx: Transaction, asked: Mapping[int, Collection[str]], now: int) -> Known:
    """Those of these keys, by topic, that were used within their window. What is past it is removed."""
    found: Known = {}
    for topic_id in sorted(asked):
        over: list[bytes] = []
        keys = sorted(key.encode() for key in asked[topic_id])
        rows = await tx.fetch("idempotency.find", tuple[bytes, bytes, bytes, int], topic_id, keys)
        for key, fingerprint, answer, expires_at in rows:
            if expires_at <= now:
                over.append(key)
            else:
                found[topic_id, key.decode()] = fingerprint, answer
        if over:
            await tx.execute("idempotency.remove", topic_id, over, now)
    return found


async def seen(tx: Transaction, topic_id: int, asked: Set[Request], now: int) -> set[Request]:
    """Those of these requests to a topic that were answered within their window."""
    keys = sorted({key.encode() for key, _ in asked})
    rows = await tx.fetch("idempotency.find", tuple[bytes, bytes, bytes, int], topic_id, keys)
    return {*asked} & {(key.decode(), fingerprint) for key, fingerprint, _, expires_at in rows if expires_at > now}


async def forget(tx: Transaction, now: int, limit: int) -> int:
    """Removes a batch of keys whose window is over; returns how many."""
    past: dict[int, list[bytes]] = defaultdict(list)
    for topic_id, key in await tx.fetch("idempotency.past", tuple[int, bytes], now, limit):
        past[topic_id].append(key)
    return sum(
        [await tx.execute("idempotency.forget", topic_id, sorted(past[topic_id]), now) for topic_id in sorted(past)]
    )

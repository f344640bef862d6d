"""Idempotency keys: finds requests to a topic that were answered before, for as long as their keys are kept."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Set

from ..ports import Transaction

Known = dict[tuple[int, str], tuple[bytes, bytes]]
"""By topic and key: the fingerprint of the request, and its answer."""
Request = tuple[str, bytes]
"""The idempotency key of a request, and its fingerprint."""


async def known(tx: Transaction, asked: Mapping[int, Collection[str]], now: int) -> Known:
    """The keys among these, given by topic, that were used within their window. Removes those whose window is over."""
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
    """The requests among these, to a topic, that were answered and whose window is not over."""
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

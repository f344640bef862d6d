"""Finds the topics of many messages that are due at once, by a best-effort query that locks nothing.

If most of them are of one topic, the burst, only the topics of the others are returned: the database skips the rows of
the burst at a fraction of the cost of returning them. The query reads the rows that promotion is about to read.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from ..ids import SEQUENCE_BITS, SHARDS, due_of, first_id, places_of
from ..ports import Transaction
from .timers import Timer

_GAP = 1_000
"""Milliseconds between two messages from which on they are read by two ranges of the key, so that rows between them are
not read."""
_FEW = 200
"""In a range with at most this many messages, each is looked up by itself."""
_SAMPLE = 500
"""How many messages are sampled to find the topic of most of them."""
_LIST = 5_000
"""How many ids a statement has at most."""


async def topic_of_burst(tx: Transaction, second: int) -> int:
    """The topic of most messages that are due in a second since 1970, judged by the first messages of one shard; 0 if
    no topic has most of them."""
    topics = await tx.fetch("delay.first_topics", int, 0, *_ids_of(second), _SAMPLE)
    for topic, many in Counter(topics).most_common(1):
        return topic if 2 * many > len(topics) else 0
    return 0


async def others(tx: Transaction, second: int, shard: int, burst: int, limit: int) -> dict[int, int]:
    """By id the topics of messages of a shard that are due in a second since 1970, without those of topic `burst`, and
    without rescheduled ones."""
    return dict(await tx.fetch("delay.others_of_shard", tuple[int, int], shard, *_ids_of(second), burst, limit))


def _ids_of(second: int) -> tuple[int, int]:
    """The first id of a second, and of the next."""
    return first_id(second * 1_000), first_id(second * 1_000 + 1_000)


async def topics_of(tx: Transaction, timers: Sequence[Timer], burst: int) -> tuple[dict[int, int], dict[int, int]]:
    """By entry the topics of these messages, which are in order of their time, and the groups of these retries.

    Entries that are gone are missing, and so are messages of topic `burst` that were not looked up by themselves.
    """
    # No function call per message, since the service's event loop stands still meanwhile.
    plain = [id_ for due, id_ in timers if id_ >> SEQUENCE_BITS == due]
    singly: list[int] = []
    if len(plain) < len(timers):
        singly = [id_ for due, id_ in timers if id_ >= 0 and due_of(id_) != due]  # rescheduled: they lie elsewhere
    stretches: list[tuple[int, int, int]] = []
    for stretch in _stretches(plain):
        if len(stretch) <= _FEW:
            singly += stretch
        else:
            shards = {id_ & (SHARDS - 1) for id_ in stretch}
            stretches += [(shard, stretch[0], stretch[-1] + 1) for shard in sorted(shards)]
    topics: dict[int, int] = {}
    if stretches:
        topics |= await tx.fetch("delay.other_topics", tuple[int, int], stretches, burst)
    for ids in _lists(singly):
        topics |= await tx.fetch("delay.topics", tuple[int, int], places_of(ids))
    groups: dict[int, int] = {}
    for ids in _lists([~entry for _, entry in timers if entry < 0]):
        groups |= {~id_: group for id_, group in await tx.fetch("retry.groups", tuple[int, int], ids)}
    return topics, groups


def _stretches(ids: Sequence[int]) -> Iterable[Sequence[int]]:
    """Splits the ids, which are in order, where there is a gap."""
    if ids and due_of(ids[-1]) - due_of(ids[0]) <= _GAP:
        return [ids]
    cuts = [place for place, (a, b) in enumerate(pairwise(ids), 1) if due_of(b) - due_of(a) > _GAP]
    return [ids[begin:end] for begin, end in pairwise([0, *cuts, len(ids)])]


def _lists(ids: Sequence[int]) -> Iterable[Sequence[int]]:
    return [ids[begin : begin + _LIST] for begin in range(0, len(ids), _LIST)]

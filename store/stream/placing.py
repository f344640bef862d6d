"""Chooses the queue of its topic that a message goes to: the one that is named, that of its ordering key, or any.

All ways to publish use this, so that an ordering key always has the same queue: order is kept within a queue.
"""

import zlib

from ..errors import StoreError
from ..ids import SHARDS, shard_for
from ..records import Queue, Topic


class WrongQueue(StoreError):
    """There is no such queue, or it is not the queue of the ordering key."""


def queues_there(many: int) -> str:
    """Which queues a topic has, in words."""
    return "1 queue, number 0" if many == 1 else f"{many} queues, 0 to {many - 1}"


def queue_of_key(topic: Topic, ordering_key: str) -> Queue:
    """The queue of all messages of an ordering key that name none."""
    return topic.queues[zlib.crc32(ordering_key.encode()) % len(topic.queues)]


def shard_of_order(topic_id: int, ordering_key: str | None, queue_id: int, *, ordered: bool) -> int | None:
    """The shard of all waiting messages of one order, so that one node has all of them in its wheel: those of an
    ordering key, or those without a key in a queue of an ordered topic. None: any shard will do."""
    if ordering_key is not None:
        return shard_for(topic_id, ordering_key)
    return queue_id % SHARDS if ordered else None


def own_queues(place: int, nodes: int, queues: int) -> range:
    """The queues of a topic that belong to the node with this `place` among the nodes, counted from 0: every
    `nodes`-th. So each queue belongs to one node; with fewer queues than nodes, nodes share a queue."""
    return range(place % queues, queues, nodes)


def own_queue(place: int, nodes: int, queues: int, turn: int) -> int:
    """The one of its own queues that a node uses in this turn; all of them one after the other."""
    own = own_queues(place, nodes, queues)
    return own[turn % len(own)]


def named_queue(topic: Topic, number: int, ordering_key: str | None) -> Queue:
    """The queue of this number. Raises `WrongQueue`; in an ordered topic also for a key of another queue."""
    queue = next((queue for queue in topic.queues if queue.number == number), None)
    if queue is None:
        raise WrongQueue(f"topic {topic.name!r} has {queues_there(len(topic.queues))}, and no {number}")
    if topic.ordered and ordering_key is not None and queue != (own := queue_of_key(topic, ordering_key)):
        raise WrongQueue(
            f"topic {topic.name!r} is ordered, and this ordering_key has its order in queue {own.number}: "
            "leave queue out"
        )
    return queue

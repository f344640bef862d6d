"""The dead letters of a group."""

import msgspec

from .ports import Transaction
from .records import DeadLetter, Delivered, Group
from .text import decode


async def page(tx: Transaction, group: Group, after: int, limit: int) -> list[DeadLetter]:
    """Dead letters by message id, from behind `after`."""
    numbers = {queue.id: queue.number for queue in group.topic.queues}
    letters: list[DeadLetter] = []
    for row in await tx.fetch("dead.list", group.id, after, limit):
        id_, dead_at, history, queue_id, offset, key, ordering_key, tag, headers, content_type, body, *times = row
        attempt = len(msgspec.json.decode(history))
        message = Delivered(
            id=id_,
            queue=numbers[queue_id],
            offset=offset,
            attempt=attempt,
            key=decode(key),
            ordering_key=decode(ordering_key),
            tag=decode(tag),
            headers=headers,
            content_type=decode(content_type),
            body=body,
            published_at=times[0],
            deliver_at=times[1],
            streamed_at=dead_at,
        )
        letters.append(DeadLetter(message, dead_at, history))
    return letters

"""A small program over a store: it publishes messages with a guard, or promotes them with the guard's answers, and may
kill itself with SIGKILL at a named point, see `tarry.bench.killing`.

    python -P -m support.guarded_program DSN publish MANY
    python -P -m support.guarded_program DSN promote POINT N ID...

Messages are due at once. On promotion the guard answers yes for the first, no for the second, and so on.
"""

import sys
from collections.abc import Sequence
from typing import Any

import trio

from tarry.bench.killing import Killer, WatchedBackend, WatchedTransaction
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.opening import open_backend
from tarry.store.records import Conflict, Draft, Publication
from tarry.store.store import Store

NOW = 1_700_000_000_000
"""The program's time, which is in the past; Unix milliseconds."""


async def publish(dsn: str, many: int) -> None:
    """Publishes messages and prints their ids, one a line."""
    backend = await open_backend(dsn)
    await backend.migrate()
    store = Store(backend)
    topic = await store.write(catalogue.add_topic, TopicDraft("orders"), NOW)
    drafts = [
        Draft(topic=topic, queue=topic.queues[0], body=b"%d" % n, deliver_at=NOW + 1, key=f"order-{n}", guard="unpaid")
        for n in range(many)
    ]
    (receipts,) = await store.publish([Publication(tuple(drafts))], NOW)
    assert not isinstance(receipts, Conflict)
    for receipt in receipts:
        print(receipt.id)
    await backend.aclose()


async def promote(dsn: str, point: str, times: int, ids: Sequence[int]) -> None:
    """Promotes the messages, and repeats it until none is left that another transaction had locked."""
    backend = await open_backend(dsn)
    watched: Any = WatchedBackend(backend, Killer(point, times), WatchedTransaction)
    store = Store(watched)
    left = {id_: place % 2 == 0 for place, id_ in enumerate(ids)}
    with trio.fail_after(30):
        while left:
            _, _, held = await store.promote_guarded(left, NOW + 1000, lambda: True)
            left = {id_: answer for id_, answer in left.items() if id_ in held}
    await backend.aclose()


if __name__ == "__main__":
    dsn, what, *rest = sys.argv[1:]
    if what == "publish":
        trio.run(publish, dsn, int(rest[0]))
    else:
        trio.run(promote, dsn, rest[0], int(rest[1]), [int(id_) for id_ in rest[2:]])

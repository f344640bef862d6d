"""Does a reader that asks for the messages after the last offset it saw get every acknowledged message?

    python -m tarry.bench.offsets --dsn mysql://root@127.0.0.1:3306/any [--publishers 4 20] [--seconds 5] [--runs 3]

    published       the published design: INCR in Redis, then INSERT and COMMIT; `offset > last`
    published_tx    the same, with the INCR inside the transaction
    store           Tarry, offsets drawn under the lock of the queue's row
    redis           Tarry, offsets drawn from Redis, read up to the first hole

Nothing is killed and nothing is delayed. When the publishers have ended, the reader reads on until nothing more comes;
a message that was acknowledged but not seen by then counts as skipped: no later read will find it.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import trio

from ..store.catalogue import TopicDraft
from ..store.mysql.connection import connect
from ..store.mysql.dsn import Dsn
from ..store.mysql.literals import Statement
from ..store.records import Conflict, Draft, Publication
from ..store.stream import stretches
from . import databases, published_design
from .report import Figures, spreads, summarize
from .subject import BODY, add_topic, group_commit, now, opened

_BEHIND = Statement("SELECT `offset` FROM published WHERE queue_id = 1 AND `offset` > ? ORDER BY `offset` LIMIT 1000")
_QUIET = 1.5
"""Seconds without a message after which the reader has read everything it ever will."""


def main() -> None:
    parser = databases.options("offsets", __doc__, runs=3)
    parser.add_argument("--publishers", type=databases.count, nargs="+", default=[4, 20], help="at a time")
    parser.add_argument("--seconds", type=databases.seconds, default=5, help="of publishing")
    arguments = parser.parse_args()
    if arguments.dsn.startswith("sqlite"):
        parser.error("SQLite has one writer at a time: the question is one of MySQL and MariaDB")
    with databases.server(arguments.dsn) as dsn, databases.redis() as redis_port:
        for publishers in arguments.publishers:
            compare(dsn, redis_port, publishers, arguments.seconds, arguments.runs)


def compare(dsn: str, redis_port: int, publishers: int, seconds: float, runs: int) -> None:
    """Runs all four in turn, with this number of publishers."""
    contestants: dict[str, Callable[[str], Figures]] = {
        "published": lambda scratch: trio.run(published, scratch, redis_port, publishers, seconds, False),
        "published_tx": lambda scratch: trio.run(published, scratch, redis_port, publishers, seconds, True),
        "store": lambda scratch: trio.run(tarry, scratch, redis_port, publishers, seconds, False),
        "redis": lambda scratch: trio.run(tarry, scratch, redis_port, publishers, seconds, True),
    }
    found = databases.alternate(dsn, "offsets", runs, contestants, publishers=publishers)
    shares = [
        {subject: 100 * figures["skipped"] / figures["acknowledged"] for subject, figures in run.items()}
        for run in found
    ]
    summarize("offsets", publishers=publishers, skipped_percent=spreads(shares, 2))


async def _race(
    publish: Sequence[Callable[[], Awaitable[list[int]]]], read: Callable[[], Awaitable[list[int]]], seconds: float
) -> Figures:
    """Runs the publishers until the time is over and the reader until no more messages come."""
    acknowledged: list[int] = []
    seen: set[int] = set()
    ends = trio.current_time() + seconds
    over = trio.Event()

    async def go_on(act: Callable[[], Awaitable[list[int]]]) -> None:
        while trio.current_time() < ends:
            acknowledged.extend(await act())

    async def follow() -> None:
        last = trio.current_time()
        while not over.is_set() or trio.current_time() - last < _QUIET:
            found = await read()
            seen.update(found)
            if found:
                last = trio.current_time()
            else:
                await trio.sleep(0.001)

    async with trio.open_nursery() as reading:
        reading.start_soon(follow)
        async with trio.open_nursery() as publishing:
            for act in publish:
                publishing.start_soon(go_on, act)
        over.set()
    return {"acknowledged": len(acknowledged), "skipped": len(set(acknowledged) - seen)}


async def published(dsn: str, redis_port: int, publishers: int, seconds: float, within: bool) -> Figures:
    """Measures the published design; with `within` the offset is drawn inside the transaction."""
    callers = await published_design.join(dsn, redis_port, publishers)
    reader = await connect(Dsn.parse(dsn), write=False)
    position = 0

    async def read() -> list[int]:
        nonlocal position
        found = [row[0] for row in await reader.fetch(_BEHIND.bind(position))]
        position = found[-1] if found else position
        return found

    async def publish(caller: published_design.Caller) -> list[int]:
        return [await caller.publish(within=within)]

    try:
        return await _race([partial(publish, caller) for caller in callers], read, seconds)
    finally:
        reader.close()
        for caller in callers:
            await caller.aclose()


async def tarry(dsn: str, redis_port: int, publishers: int, seconds: float, by_redis: bool) -> Figures:
    """Measures Tarry's store under its group commit; with Redis each read first seals the queue, as the sealer does."""
    async with opened(dsn, f"redis://127.0.0.1:{redis_port}/0") as store:
        topic = await add_topic(store, TopicDraft("bench", sequencer="redis" if by_redis else "store"))
        queue = topic.queues[0]
        store.backend.sequence([queue.id], by_redis=by_redis)
        position = 0

        async def read() -> list[int]:
            nonlocal position
            if by_redis:
                await store.seal(queue.id, now())
            found = await store.read(stretches.pull, queue, position, 1000)
            position = found[-1].offset + 1 if found else position
            return [message.id for message in found]

        combiner = group_commit(store, writers=4)

        async def publish() -> list[int]:
            answer = await combiner.ask(Publication((Draft(topic=topic, queue=queue, body=BODY),)))
            if isinstance(answer, Conflict):
                raise AssertionError("nobody has named an idempotency key")
            return [receipt.id for receipt in answer]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(combiner.run)
            figures = await _race([publish] * publishers, read, seconds)
            nursery.cancel_scope.cancel()
        return figures


if __name__ == "__main__":
    main()

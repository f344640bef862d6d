"""Does a reader that asks for what is behind the last offset it saw get every message that was acknowledged?

    python -m tarry.bench.offsets --dsn mysql://root@127.0.0.1:3306/any [--publishers 4 20] [--seconds 5] [--runs 3]

    published       the published design: INCR in Redis, then INSERT and COMMIT; `offset > last`
    published_tx    the same, with the INCR inside the transaction
    store           Tarry, offsets drawn under the lock of the queue's row
    redis           Tarry, offsets drawn from Redis, read up to the first hole

Nothing is killed and nothing is delayed. When the publishers have ended, the reader reads on until nothing more comes;
what was acknowledged and not seen by then is skipped: no later read will find it.
"""

import argparse
from collections.abc import Awaitable, Callable, Sequence

import trio

from ..service.commit.combiner import Combiner
from ..store import catalogue
from ..store.catalogue import TopicDraft
from ..store.mysql.connection import Connection, connect
from ..store.mysql.dsn import Dsn
from ..store.mysql.literals import Statement
from ..store.opening import open_backend
from ..store.records import Conflict, Draft, Publication, Receipt
from ..store.store import Store
from ..store.stream import stretches
from . import databases
from .publish import BODY, now
from .published_design import TABLE
from .report import Figures, say, show, spread

_INSERT = Statement("INSERT INTO published (queue_id, `offset`, accepted_at, body) VALUES (1, ?, ?, ?)")
_BEHIND = Statement("SELECT `offset` FROM published WHERE queue_id = 1 AND `offset` > ? ORDER BY `offset` LIMIT 1000")
_INCR = b"*2\r\n$4\r\nINCR\r\n$6\r\noffset\r\n"
_QUIET = 1.5
"""Seconds without a message after which the reader has read everything it ever will."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tarry.bench.offsets", description=(__doc__ or "").splitlines()[0])
    databases.add_dsn(parser)
    parser.add_argument("--publishers", type=int, nargs="+", default=[4, 20], help="at a time (default: 4 20)")
    parser.add_argument("--seconds", type=float, default=5, help="of publishing (default: 5)")
    parser.add_argument("--runs", type=int, default=3, help="runs, of which the share is the median (default: 3)")
    arguments = parser.parse_args()
    if min(arguments.publishers) < 1 or arguments.seconds <= 0 or arguments.runs < 1:
        parser.error("at least one publisher, one run and some time")
    if arguments.dsn.startswith("sqlite"):
        parser.error("SQLite has one writer at a time: the question is one of MySQL and MariaDB")
    with databases.server(arguments.dsn) as dsn, databases.redis() as redis_port:
        for publishers in arguments.publishers:
            compare(dsn, redis_port, publishers, arguments.seconds, arguments.runs)


def compare(dsn: str, redis_port: int, publishers: int, seconds: float, runs: int) -> None:
    """All four in turn, with so many publishers."""
    contestants: dict[str, Callable[[str], Figures]] = {
        "published": lambda scratch: trio.run(published, scratch, redis_port, publishers, seconds, False),
        "published_tx": lambda scratch: trio.run(published, scratch, redis_port, publishers, seconds, True),
        "store": lambda scratch: trio.run(tarry, scratch, redis_port, publishers, seconds, False),
        "redis": lambda scratch: trio.run(tarry, scratch, redis_port, publishers, seconds, True),
    }
    shares: dict[str, list[float]] = {subject: [] for subject in contestants}
    for run in range(1, runs + 1):
        for subject, measure in contestants.items():
            say(f"{publishers} publishers, run {run} of {runs}: {subject}")
            with databases.scratch(dsn) as scratch:
                figures = measure(scratch)
            shares[subject].append(100 * figures["skipped"] / figures["acknowledged"])
            show({"bench": "offsets", "subject": subject, "publishers": publishers, "run": run, **figures})
    show(
        {
            "bench": "offsets",
            "summary": "medians of the runs",
            "publishers": publishers,
            "skipped_percent": {subject: spread(some, 2) for subject, some in shares.items()},
        }
    )


async def _race(
    publish: Sequence[Callable[[], Awaitable[list[int]]]], read: Callable[[], Awaitable[list[int]]], seconds: float
) -> Figures:
    """Publishers until the time is over, the reader until nothing more comes."""
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
    """The published design; `within`: the offset is drawn when the transaction has begun."""
    with databases.log_in(dsn) as admin, admin.cursor() as cursor:
        cursor.execute(TABLE)
    place = Dsn.parse(dsn)
    reader = await connect(place, write=False)
    position = 0

    async def read() -> list[int]:
        nonlocal position
        found = [row[0] for row in await reader.fetch(_BEHIND.bind(position))]
        position = found[-1] if found else position
        return found

    def caller(connection: Connection, counter: trio.SocketStream) -> Callable[[], Awaitable[list[int]]]:
        async def publish() -> list[int]:
            await connection.begin()
            if within:
                await connection.fetch(b"SELECT 1")
            await counter.send_all(_INCR)
            offset = int((await counter.receive_some(64))[1:])
            await connection.execute(_INSERT.bind(offset, now(), BODY))
            await connection.commit()
            return [offset]

        return publish

    counters = [await trio.open_tcp_stream("127.0.0.1", redis_port) for _ in range(publishers)]
    await counters[0].send_all(b"*2\r\n$3\r\nDEL\r\n$6\r\noffset\r\n")
    await counters[0].receive_some(64)
    connections = [await connect(place, write=True, timeout=30) for _ in range(publishers)]
    try:
        callers = [caller(connection, counter) for connection, counter in zip(connections, counters, strict=True)]
        return await _race(callers, read, seconds)
    finally:
        for connection in (reader, *connections):
            connection.close()
        for counter in counters:
            await counter.aclose()


async def tarry(dsn: str, redis_port: int, publishers: int, seconds: float, by_redis: bool) -> Figures:
    """Tarry's store under its group commit; with Redis the queue is sealed as the service's sealer does."""
    backend = await open_backend(dsn, f"redis://127.0.0.1:{redis_port}/0")
    try:
        await backend.migrate()
        store = Store(backend)
        draft = TopicDraft("bench", sequencer="redis" if by_redis else "store")
        topic = await store.write(catalogue.add_topic, draft, now())
        queue = topic.queues[0]
        backend.sequence([queue.id], by_redis=by_redis)

        async def write(publications: Sequence[Publication]) -> list[list[Receipt] | Conflict]:
            return await store.publish(publications, now())

        position = 0

        async def read() -> list[int]:
            nonlocal position
            if by_redis:
                await store.seal(queue.id, now())
            found = await store.read(stretches.pull, queue, position, 1000)
            position = found[-1].offset + 1 if found else position
            return [message.id for message in found]

        combiner: Combiner[Publication, list[Receipt] | Conflict] = Combiner(write, writers=4)

        async def publish() -> list[int]:
            answer = await combiner.ask(Publication((Draft(topic, queue, BODY),)))
            if isinstance(answer, Conflict):
                raise AssertionError("nobody has named an idempotency key")
            return [receipt.id for receipt in answer]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(combiner.run)
            figures = await _race([publish] * publishers, read, seconds)
            nursery.cancel_scope.cancel()
        return figures
    finally:
        await backend.aclose()


if __name__ == "__main__":
    main()

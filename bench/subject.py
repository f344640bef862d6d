"""Sets up what a bench measures: a store with the service's group commit or a real server, filled with messages."""

import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import trio

from ..service.clock import Clock
from ..service.demo.server_process import ServerProcess
from ..service.engine.batching.combiner import Combiner
from ..store import catalogue
from ..store.catalogue import TopicDraft
from ..store.ids import first_id
from ..store.opening import open_backend
from ..store.records import Conflict, Draft, Publication, Receipt, Topic
from ..store.store import Store
from .closed_loop import in_tasks
from .report import Figures, say

BODY = b'"' + b"x" * 198 + b'"'

CHUNK = 50_000
"""Rows in one bulk statement."""
_PAGE = 1000
_PUBLISHERS = 8
_BATCH_BYTES = 2 << 20  # the same as the node's
_MAX_WAITING = 64 << 20


def now() -> int:
    """Unix milliseconds by this host's clock, for uses that no other clock has to agree with."""
    return time.time_ns() // 1_000_000


@contextmanager
def served(
    dsn: str, log_level: str = "info", program: Sequence[str] = ("tarry.service.cli.app",)
) -> Generator[ServerProcess, None, None]:
    """Starts a server on this database and stops it at the end; adds the end of its log to an exception.

    `program`: a module that acts as `tarry`.
    """
    with tempfile.TemporaryDirectory(prefix="tarry-bench-") as folder:
        server = ServerProcess(Path(folder), dsn, environment={"TARRY_LOG_LEVEL": log_level}, program=program)
        server.start()
        try:
            yield server
        except Exception as error:
            error.add_note(f"the end of the server's log:\n{server.tail()}")
            raise
        finally:
            server.stop()


@asynccontextmanager
async def opened(dsn: str, redis: str | None = None) -> AsyncGenerator[Store, None]:
    """Opens the store of this database, creates its tables and closes it at the end."""
    backend = await open_backend(dsn, redis)
    try:
        await backend.migrate()
        yield Store(backend)
    finally:
        await backend.aclose()


async def add_topic(store: Store, draft: TopicDraft | None = None) -> Topic:
    """Adds a topic; without a draft, `bench` with a single queue."""
    return await store.write(catalogue.add_topic, draft or TopicDraft("bench"), await store.now())


def group_commit(
    store: Store, clock: Callable[[], int] = now, *, writers: int = 2
) -> Combiner[Publication, list[Receipt] | Conflict]:
    """A combiner that writes publishes together, as a node does, with up to `writers` batches at a time."""

    async def write(publications: Sequence[Publication]) -> list[list[Receipt] | Conflict]:
        return await store.publish(publications, clock())

    return Combiner(
        write,
        weigh=lambda publication: publication.weight,
        batch=_BATCH_BYTES,
        waiting=_MAX_WAITING,
        writers=lambda: writers,
    )


async def publish_beside(
    store: Store,
    topic: Topic,
    seconds: float,
    disturb: Callable[[], Awaitable[None]],
    note: Callable[[int], None] = lambda windows: None,
) -> tuple[Figures, list[Figures]]:
    """Measures publishers alone, and then in windows of `seconds` while `disturb` runs, until it ends.

    `note` is called after each window with the number of windows so far.
    """
    clock = Clock(store.now)
    await clock.take()
    combiner = group_commit(store, clock.now)
    over = trio.Event()

    async def publish() -> None:
        await combiner.ask(Publication((Draft(topic=topic, queue=topic.queues[0], body=BODY),)))

    async def run() -> None:
        await disturb()
        over.set()

    during: list[Figures] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(combiner.run)
        say("publishing, undisturbed")
        before = await in_tasks([publish] * _PUBLISHERS, seconds)
        nursery.start_soon(run)
        while not over.is_set():
            say(f"publishing, disturbed, window {len(during) + 1}")
            during.append(await in_tasks([publish] * _PUBLISHERS, seconds))
            note(len(during))
        nursery.cancel_scope.cancel()
    return before, during


async def fill(store: Store, topic: Topic, rows: int, due: Callable[[int], int | None] = lambda number: None) -> None:
    """Publishes `rows` messages, page by page; `due` gives the due time of each by its number, None for now."""
    at = await store.now()
    for start in range(0, rows, _PAGE):
        say(f"publishing {start} of {rows}")
        numbers = range(start, min(start + _PAGE, rows))
        drafts = tuple(
            Draft(topic=topic, queue=topic.queues[0], body=BODY, deliver_at=due(number)) for number in numbers
        )
        await store.publish([Publication(drafts)], at)


def bulk_sql(execute: Callable[[str], object], queue: int, begin: int, rows: int, at: int, key: str) -> None:
    """Appends messages of the time `at` to a queue with SQL only; `key` is an SQL expression with {} for the offset."""
    columns = "queue_id, `offset`, id, nonce, `key`, body, accepted_at, deliver_at, streamed_at"
    values = f"{queue}, {begin}, {first_id(at) + begin}, 0, x'30', x'{BODY.hex()}', {at}, {at}, {at}"
    execute(f"INSERT INTO message ({columns}) VALUES ({values})")
    there = 1
    while there < rows:
        say(f"filling {there} of {rows}")
        more = min(there, rows - there, CHUNK)
        # The ids rise in steps of one, far from those that the clock gives now.
        execute(
            f"INSERT INTO message ({columns}) SELECT queue_id, `offset` + {there}, id + {there}, 0,"
            f" {key.format(f'`offset` + {there}')}, body, accepted_at, deliver_at, streamed_at"
            f" FROM message WHERE queue_id = {queue} AND `offset` >= {begin} AND `offset` < {begin + more}"
        )
        there += more
    end = begin + rows
    execute(f"UPDATE queue SET next_offset = {end}, straight = {end} WHERE id = {queue}")

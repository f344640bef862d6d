"""How many durable publishes a second, and how long does each take?

    python -m tarry.bench.publish --dsn mysql://root@127.0.0.1:3306/any [--callers 20 200] [--seconds 5] [--runs 5]

So many callers with one message of 200 bytes under way each, answered after its commit:

    publish      Tarry's store under the service's group commit; the offset is drawn in the same transaction
    schedule     the same, for messages due tomorrow
    published    the published design, see bench/published_design.py; on SQLite one transaction per message
    threads      the same with PyMySQL and redis-py, in threads
    autocommit   the same as `published`, in autocommit mode, which saves each message a round trip

All alternate, run after run, each on an empty database. Ratios are within each run, to the faster of `published` and
`threads`, and to `autocommit`.
"""

import argparse
import time
from collections.abc import Callable, Sequence

import trio

from ..service.commit.combiner import Combiner
from ..service.upkeep.collector import tame_collector
from ..store import catalogue
from ..store.catalogue import TopicDraft
from ..store.opening import open_backend
from ..store.records import Conflict, Draft, Publication, Receipt
from ..store.store import Store
from . import databases, published_design
from .closed_loop import in_tasks
from .report import Figures, ratios, say, show, spread

BODY = b'"' + b"x" * 198 + b'"'

_DAY = 24 * 3600 * 1000
_BATCH_BYTES = 2 << 20  # as the engine's
_MAX_WAITING = 64 << 20


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tarry.bench.publish", description=(__doc__ or "").splitlines()[0])
    databases.add_dsn(parser)
    parser.add_argument("--callers", type=int, nargs="+", default=[20, 200], help="callers at a time (default: 20 200)")
    parser.add_argument("--seconds", type=float, default=5, help="of each measurement (default: 5)")
    parser.add_argument("--runs", type=int, default=5, help="runs, of which the ratios are medians (default: 5)")
    arguments = parser.parse_args()
    if min(arguments.callers) < 1 or arguments.seconds <= 0 or arguments.runs < 1:
        parser.error("at least one caller, one run and some time")
    tame_collector()
    with databases.server(arguments.dsn) as dsn, databases.redis() as redis_port:
        for callers in arguments.callers:
            compare(dsn, redis_port, callers, arguments.seconds, arguments.runs)


def compare(dsn: str, redis_port: int, callers: int, seconds: float, runs: int) -> None:
    """All contestants in turn, with so many callers."""
    with databases.scratch(dsn) as scratch:
        settings = databases.durability(scratch)
    contestants = contestants_on(dsn, redis_port, callers, seconds)
    rates: list[dict[str, float]] = []
    for run in range(1, runs + 1):
        rates.append({})
        for subject, (table, measure) in contestants.items():
            say(f"{callers} callers, run {run} of {runs}: {subject}")
            with databases.scratch(dsn) as scratch:
                figures = measure(scratch)
                check(scratch, table, figures)
            rates[-1][subject] = figures["per_s"]
            show({"bench": "publish", "subject": subject, "callers": callers, "run": run, **figures})
        rates[-1]["baseline"] = max(rates[-1]["published"], rates[-1].get("threads", 0))
    show(
        {
            "bench": "publish",
            "summary": "medians of the runs",
            "callers": callers,
            "seconds": seconds,
            "runs": runs,
            **settings,
            "per_s": {subject: spread([one[subject] for one in rates]) for subject in contestants},
            "times_the_published_design": {
                subject: ratios(rates, subject, "baseline") for subject in ("publish", "schedule")
            },
            "times_autocommit": {
                subject: ratios(rates, subject, "autocommit")
                for subject in ("publish", "schedule")
                if "autocommit" in contestants
            },
        }
    )


def contestants_on(
    dsn: str, redis_port: int, callers: int, seconds: float
) -> dict[str, tuple[str, Callable[[str], Figures]]]:
    """The table that each fills, and its measurement on an empty database."""
    contestants: dict[str, tuple[str, Callable[[str], Figures]]] = {
        "publish": ("message", lambda empty: trio.run(measure, empty, callers, seconds, False)),
        "schedule": ("delay", lambda empty: trio.run(measure, empty, callers, seconds, True)),
    }
    if dsn.startswith(databases.SQLITE):
        contestants["published"] = ("published", lambda empty: published_design.measure_sqlite(empty, seconds, BODY))
        return contestants
    contestants["published"] = (
        "published",
        lambda empty: trio.run(published_design.measure_tasks, empty, redis_port, callers, seconds, BODY, False),
    )
    contestants["threads"] = (
        "published",
        lambda empty: published_design.measure_threads(empty, redis_port, callers, seconds, BODY),
    )
    contestants["autocommit"] = (
        "published",
        lambda empty: trio.run(published_design.measure_tasks, empty, redis_port, callers, seconds, BODY, True),
    )
    return contestants


async def measure(dsn: str, callers: int, seconds: float, later: bool) -> Figures:
    """The store's port under the service's group commit."""
    backend = await open_backend(dsn)
    try:
        await backend.migrate()
        store = Store(backend)
        topic = await store.write(catalogue.add_topic, TopicDraft("bench"), await backend.now())

        async def write(publications: Sequence[Publication]) -> list[list[Receipt] | Conflict]:
            return await store.publish(publications, now())

        combiner: Combiner[Publication, list[Receipt] | Conflict] = Combiner(
            write, weigh=lambda publication: publication.weight, batch=_BATCH_BYTES, waiting=_MAX_WAITING, writers=2
        )
        due = now() + _DAY if later else None

        async def publish() -> None:
            await combiner.ask(Publication((Draft(topic, topic.queues[0], BODY, deliver_at=due),)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(combiner.run)
            figures = await in_tasks([publish] * callers, seconds)
            nursery.cancel_scope.cancel()
        return {**figures, "transactions": backend.statistics()["transactions"]}
    finally:
        await backend.aclose()


def check(dsn: str, table: str, figures: Figures) -> None:
    """Every answered message is in the database, and nothing else is."""
    ((rows,),) = databases.ask(dsn, f"SELECT COUNT(*) FROM {table}")
    if rows != figures["answered"]:
        raise AssertionError(f"{figures['answered']} messages were acknowledged, {rows} are in {table}")


def now() -> int:
    """The host's clock will do: nothing here waits to be due."""
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    main()

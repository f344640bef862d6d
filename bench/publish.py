"""How many durable publishes a second does Tarry make, and how long does each take?

    python -m tarry.bench.publish --dsn mysql://root@127.0.0.1:3306/any [--callers 20 200] [--seconds 5] [--runs 5]

Each of --callers callers publishes one message of 200 bytes at a time, answered after its commit:

    publish      Tarry's store under the service's group commit; the offset is drawn in the same transaction
    schedule     the same, for messages due tomorrow
    published    the published design, see bench/published_design.py; on SQLite one transaction per message

All alternate, run after run, each on an empty database. Ratios are within each run.
"""

from collections.abc import Callable

import trio

from ..service.upkeep.collector import tame_collector
from ..store.records import Draft, Publication
from . import databases, published_design
from .closed_loop import in_tasks
from .report import Figures, column, ratios, spreads, summarize
from .subject import BODY, add_topic, group_commit, now, opened

_DAY = 24 * 3600 * 1000


def main() -> None:
    parser = databases.options("publish", __doc__, runs=5)
    parser.add_argument("--callers", type=databases.count, nargs="+", default=[20, 200], help="callers at a time")
    parser.add_argument("--seconds", type=databases.seconds, default=5, help="of each measurement")
    arguments = parser.parse_args()
    tame_collector()
    with databases.server(arguments.dsn) as dsn, databases.redis() as redis_port:
        for callers in arguments.callers:
            compare(dsn, redis_port, callers, arguments.seconds, arguments.runs)


def compare(dsn: str, redis_port: int, callers: int, seconds: float, runs: int) -> None:
    """Runs all contestants in turn, with this number of callers."""
    settings = databases.durability(dsn)
    contestants = contestants_on(redis_port, callers, seconds)
    rates = column(databases.alternate(dsn, "publish", runs, contestants, callers=callers), "per_s")
    summarize(
        "publish",
        callers=callers,
        seconds=seconds,
        runs=runs,
        **settings,
        per_s=spreads(rates),
        times_the_published_design={
            subject: ratios(rates, subject, "published") for subject in ("publish", "schedule")
        },
    )


def contestants_on(redis_port: int, callers: int, seconds: float) -> dict[str, Callable[[str], Figures]]:
    """The contestants by name; each runs on an empty database, which must hold every answered message at the end."""

    def counted(table: str, act: Callable[[str], Figures]) -> Callable[[str], Figures]:
        def measure_and_count(empty: str) -> Figures:
            figures = act(empty)
            databases.expect_rows(empty, table, figures["answered"])
            return figures

        return measure_and_count

    def published(empty: str) -> Figures:
        if empty.startswith(databases.SQLITE):
            return published_design.measure_sqlite(empty, seconds)
        return trio.run(published_design.measure_tasks, empty, redis_port, callers, seconds)

    return {
        "publish": counted("message", lambda empty: trio.run(measure, empty, callers, seconds, False)),
        "schedule": counted("delay", lambda empty: trio.run(measure, empty, callers, seconds, True)),
        "published": counted("published", published),
    }


async def measure(dsn: str, callers: int, seconds: float, later: bool) -> Figures:
    """Measures Tarry's store under the service's group commit; with `later` the messages are due tomorrow."""
    async with opened(dsn) as store:
        topic = await add_topic(store)
        combiner = group_commit(store)
        due = now() + _DAY if later else None

        async def publish() -> None:
            await combiner.ask(Publication((Draft(topic=topic, queue=topic.queues[0], body=BODY, deliver_at=due),)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(combiner.run)
            figures = await in_tasks([publish] * callers, seconds)
            nursery.cancel_scope.cancel()
        return {**figures, "transactions": store.backend.statistics()["transactions"]}


if __name__ == "__main__":
    main()

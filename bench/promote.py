"""How many due messages a second can be promoted, that is, moved from the timers into the stream?

    python -m tarry.bench.promote --dsn mysql://root@127.0.0.1:3306/any [--rows 200000] [--batches 100 1000 10000]

Messages of 200 bytes, spread over the milliseconds of a minute, are scheduled; then the store's `promote` takes them in
the order of their time, batch after batch, each batch locked, copied, deleted, counted and committed:

    promote     Tarry's store
    by_key      the timers' key is (due, id) with an index on id; SKIP LOCKED, INSERT ... SELECT, DELETE; MySQL only

The last one is in bench/rival_promotions.py. All alternate, run after run; ratios are within each run.
"""

import time
from collections.abc import Callable

import trio

from ..service.upkeep.collector import tame_collector
from ..store.store import Store
from . import databases, rival_promotions
from .report import Figures, chosen, column, percentile, ratios, say, spreads, summarize
from .subject import add_topic, fill, opened

_SPAN = 60_000


def main() -> None:
    parser = databases.options("promote", __doc__, runs=5)
    parser.add_argument("--rows", type=databases.count, default=200_000, help="messages to promote")
    parser.add_argument("--batches", type=databases.count, nargs="+", default=[100, 1000, 10_000], help="their sizes")
    parser.add_argument("--seconds", type=databases.seconds, default=10, help="of a rival's measurement, at most")
    arguments = parser.parse_args()
    if arguments.rows < max(arguments.batches):
        parser.error("at least a batch's worth of rows")
    tame_collector()
    with databases.server(arguments.dsn) as dsn:
        settings = databases.durability(dsn)
        for batch in arguments.batches:
            contestants = contestants_on(dsn, arguments.rows, batch, arguments.seconds)
            rates = column(databases.alternate(dsn, "promote", arguments.runs, contestants, batch=batch), "per_s")
            summarize(
                "promote",
                batch=batch,
                **chosen(arguments, "rows", "runs"),
                **settings,
                per_s=spreads(rates),
                times={other: ratios(rates, "promote", other) for other in rates[0] if other != "promote"},
            )


def contestants_on(dsn: str, rows: int, batch: int, seconds: float) -> dict[str, Callable[[str], Figures]]:
    """The promotion of each from an empty database."""
    contestants: dict[str, Callable[[str], Figures]] = {
        "promote": lambda empty: trio.run(measure, empty, rows, batch),
    }
    if not dsn.startswith(databases.SQLITE):
        contestants["by_key"] = lambda empty: measure_rival(empty, rows, batch, seconds)
    return contestants


async def measure(dsn: str, rows: int, batch: int) -> Figures:
    """The store's own promotion, of every row."""
    async with opened(dsn) as store:
        await schedule(store, rows)
        timers = databases.ask(dsn, "SELECT due, id FROM delay ORDER BY due, id")  # as the wheel gives them
        say(f"batch {batch}: promote")
        due = timers[-1][0]
        times: list[float] = []
        promoted = 0
        began = time.perf_counter()
        for start in range(0, rows, batch):
            at = time.perf_counter()
            promoted += len(await store.promote([id_ for _, id_ in timers[start : start + batch]], due))
            times.append(time.perf_counter() - at)
        took = time.perf_counter() - began
        times.sort()
    if promoted != rows:
        raise AssertionError(f"of {rows} rows {promoted} were promoted")
    databases.expect_rows(dsn, "message", rows)
    return {
        "per_s": round(rows / took),
        "rows": rows,
        "batch_p50_ms": round(percentile(times, 0.5) * 1000, 2),
        "batch_max_ms": round(times[-1] * 1000, 2),
    }


def measure_rival(dsn: str, rows: int, batch: int, seconds: float) -> Figures:
    """The other way, batch after batch, for so long at most."""

    async def make() -> None:
        async with opened(dsn) as store:
            await schedule(store, rows)

    trio.run(make)
    promoted, per_s = rival_promotions.measure(dsn, batch, seconds)
    databases.expect_rows(dsn, "rival_stream", promoted)
    return {"per_s": round(per_s), "rows": promoted}


async def schedule(store: Store, rows: int) -> None:
    """Rows due in a minute that is an hour away."""
    topic = await add_topic(store)
    first = await store.now() + 3_600_000
    await fill(store, topic, rows, lambda number: first + number * _SPAN // rows)


if __name__ == "__main__":
    main()

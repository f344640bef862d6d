"""How many due messages a second can be promoted, that is, moved from the timers into the stream?

    python -m tarry.bench.promote --dsn mysql://root@127.0.0.1:3306/any [--rows 200000] [--batches 100 1000 10000]

Messages of 200 bytes are scheduled over the milliseconds of a minute; then the store's `promote` moves them in the
order of their due times, batch after batch. Each batch is locked, copied, deleted, counted and committed.
"""

import time
from functools import partial

import trio

from ..service.upkeep.collector import tame_collector
from . import databases
from .report import Figures, chosen, column, say, spreads, summarize
from .subject import add_topic, fill, opened

_SPAN = 60_000


def main() -> None:
    parser = databases.options("promote", __doc__, runs=5)
    parser.add_argument("--rows", type=databases.count, default=200_000, help="messages to promote")
    parser.add_argument("--batches", type=databases.count, nargs="+", default=[100, 1000, 10_000], help="their sizes")
    arguments = parser.parse_args()
    rows = arguments.rows
    if rows < max(arguments.batches):
        parser.error("at least a batch's worth of rows")
    tame_collector()
    with databases.server(arguments.dsn) as dsn:
        settings = databases.durability(dsn)
        contestants = {f"batch_{size}": partial(_run, rows, size) for size in arguments.batches}
        rates = column(databases.alternate(dsn, "promote", arguments.runs, contestants), "per_s")
        summarize("promote", **chosen(arguments, "rows", "runs"), **settings, per_s=spreads(rates))


def _run(rows: int, batch: int, dsn: str) -> Figures:
    return trio.run(measure, dsn, rows, batch)


async def measure(dsn: str, rows: int, batch: int) -> Figures:
    """Promotes every row with the store's own `promote`."""
    async with opened(dsn) as store:
        topic = await add_topic(store)
        first = await store.now() + 3_600_000
        await fill(store, topic, rows, lambda number: first + number * _SPAN // rows)
        timers = databases.ask(dsn, "SELECT due, id FROM delay ORDER BY due, id")  # as the wheel gives them
        say(f"batch {batch}: promote")
        due = timers[-1][0]
        promoted = 0
        began = time.perf_counter()
        for start in range(0, rows, batch):
            promoted += len(await store.promote([id_ for _, id_ in timers[start : start + batch]], due))
        took = time.perf_counter() - began
    if promoted != rows:
        raise AssertionError(f"of {rows} rows {promoted} were promoted")
    databases.expect_rows(dsn, "message", rows)
    return {"per_s": round(rows / took), "rows": rows}


if __name__ == "__main__":
    main()

"""What does it cost to keep the forecast, and what does it save who asks?

    python -m tarry.bench.forecast --dsn mysql://root@127.0.0.1:3306/any [--rows 100000] [--batch 1000] [--runs 5]

Messages of 200 bytes, due at random times of the coming 30 days, are scheduled, batch after batch, each in one
transaction; then it is asked how many fall due in each of 100 stretches of those days:

    kept        Tarry's store: a row beside each batch says which minutes change
    scanned     the same without that row; what falls due is counted row by row

Both alternate, run after run, each on an empty database; ratios are within each run. `add_up_ms` is what it takes in
all, later and beside, to add up the rows of the batches.
"""

import random
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext

import trio

from ..service.upkeep.collector import tame_collector
from ..store.looking import upcoming
from ..store.records import Draft, Publication
from ..store.timers import forecast
from . import databases
from .report import Figures, chosen, column, ratios, say, spreads, summarize
from .subject import BODY, add_topic, opened

_SPAN = 30 * 24 * 3_600_000
_BUCKETS = 100


def main() -> None:
    parser = databases.options("forecast", __doc__, runs=5)
    parser.add_argument("--rows", type=databases.count, default=100_000, help="messages to schedule")
    parser.add_argument("--batch", type=databases.count, default=1000, help="of them in one transaction")
    arguments = parser.parse_args()
    tame_collector()
    with databases.server(arguments.dsn) as dsn:
        settings = databases.durability(dsn)
        runs = databases.alternate(
            *(dsn, "forecast", arguments.runs, contestants_of(arguments.rows, arguments.batch)), batch=arguments.batch
        )
        rates, asked = column(runs, "per_s"), column(runs, "asked_ms")
        summarize(
            "forecast",
            **chosen(arguments, "rows", "batch", "runs"),
            **settings,
            per_s=spreads(rates),
            asked_ms=spreads(asked),
            times={"scanned": ratios(rates, "kept", "scanned")},
        )


def contestants_of(rows: int, batch: int) -> dict[str, Callable[[str], Figures]]:
    """Both, from an empty database."""
    return {
        "kept": lambda empty: trio.run(measure, empty, rows, batch, True),
        "scanned": lambda empty: trio.run(measure, empty, rows, batch, False),
    }


async def measure(dsn: str, rows: int, batch: int, kept: bool) -> Figures:
    """How fast they are scheduled, and how soon it is known what falls due."""
    chance = random.Random(7)  # it is to be the same in each run
    async with opened(dsn) as store:
        topic = await add_topic(store)
        now = await store.now()
        say("forecast: schedule")
        dues = [now + 120_000 + chance.randrange(_SPAN) for _ in range(rows)]
        with nullcontext() if kept else _untold():
            began = time.perf_counter()
            for start in range(0, rows, batch):
                drafts = tuple(
                    Draft(topic=topic, queue=topic.queues[0], body=BODY, deliver_at=due)
                    for due in dues[start : start + batch]
                )
                await store.publish([Publication(drafts)], now)
            took = time.perf_counter() - began
        began = time.perf_counter()
        while await store.write(forecast.add_up, now):
            pass
        added = time.perf_counter()
        begin, width = now // 60_000 * 60_000, (_SPAN // _BUCKETS // 60_000 + 1) * 60_000
        if kept:
            found = await store.read(upcoming.read, topic, begin, width, _BUCKETS, now)
        else:
            found = await store.read(upcoming.scan, topic, begin, width, _BUCKETS)
        asked = time.perf_counter()
    if found.until is None and sum(found.counts) != rows:
        raise AssertionError(f"of {rows} messages {sum(found.counts)} were counted")
    return {
        "per_s": round(rows / took),
        "add_up_ms": round((added - began) * 1000),
        "asked_ms": round((asked - added) * 1000, 1),
        "counted": sum(found.counts),
    }


@contextmanager
def _untold() -> Generator[None, None, None]:
    """As it was before there was a forecast."""
    told = forecast.changes
    forecast.changes = lambda now, come=(), gone=(): []
    try:
        yield
    finally:
        forecast.changes = told


if __name__ == "__main__":
    main()

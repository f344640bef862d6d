"""How many due messages a second can be promoted, that is, moved from the timers into the stream?

    python -m tarry.bench.promote --dsn mysql://root@127.0.0.1:3306/any [--rows 200000] [--batches 100 1000 10000]

Messages of 200 bytes, spread over the milliseconds of a minute, are scheduled; then the store's `promote` takes them in
the order of their time, batch after batch, each batch locked, copied, deleted, counted and committed:

    promote     Tarry's store
    by_key      the timers' key is (due, id) with an index on id; SKIP LOCKED, INSERT ... SELECT, DELETE; MySQL only
    singly      a transaction for each row; MySQL only

The last two are in bench/rival_promotions.py. All alternate, run after run; ratios are within each run.
"""

import argparse
import time

import trio

from ..store import catalogue
from ..store.catalogue import TopicDraft
from ..store.opening import open_backend
from ..store.records import Draft, Publication
from ..store.store import Store
from . import databases, rival_promotions
from .report import Figures, ratios, say, show, spread

BODY = b'"' + b"x" * 198 + b'"'

_PAGE = 1000
_SPAN = 60_000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tarry.bench.promote", description=(__doc__ or "").splitlines()[0])
    databases.add_dsn(parser)
    parser.add_argument("--rows", type=int, default=200_000, help="messages to promote (default: 200000)")
    parser.add_argument("--batches", type=int, nargs="+", default=[100, 1000, 10_000], help="(default: 100 1000 10000)")
    parser.add_argument("--seconds", type=float, default=10, help="of a rival's measurement, at most (default: 10)")
    parser.add_argument("--runs", type=int, default=5, help="runs, of which the ratios are medians (default: 5)")
    arguments = parser.parse_args()
    if min(arguments.batches) < 1 or arguments.rows < max(arguments.batches) or arguments.runs < 1:
        parser.error("at least one run and a batch's worth of rows")
    with databases.server(arguments.dsn) as dsn:
        with databases.scratch(dsn) as scratch:
            settings = databases.durability(scratch)
        for batch in arguments.batches:
            rates = [
                compare(dsn, arguments.rows, batch, arguments.seconds, run) for run in range(1, arguments.runs + 1)
            ]
            show(
                {
                    "bench": "promote",
                    "summary": "medians of the runs",
                    "batch": batch,
                    "rows": arguments.rows,
                    "runs": arguments.runs,
                    **settings,
                    "per_s": {subject: spread([one[subject] for one in rates]) for subject in rates[0]},
                    "times": {
                        subject: ratios(rates, "promote", subject) for subject in rates[0] if subject != "promote"
                    },
                }
            )


def compare(dsn: str, rows: int, batch: int, seconds: float, run: int) -> dict[str, float]:
    """Rows a second of each contestant in one run."""
    rates: dict[str, float] = {}

    def note(subject: str, figures: Figures) -> None:
        rates[subject] = figures["per_s"]
        show({"bench": "promote", "subject": subject, "batch": batch, "run": run, **figures})

    with databases.scratch(dsn) as scratch:
        note("promote", trio.run(measure, scratch, rows, batch))
    if dsn.startswith(databases.SQLITE):
        return rates
    for subject in ("by_key", "singly"):
        with databases.scratch(dsn) as scratch:
            say(f"scheduling for {subject}")
            due = trio.run(schedule_for_rivals, scratch, rows)
            rival_promotions.fill(scratch)
            say(f"batch {batch}, run {run}: {subject}")
            promotions = (
                rival_promotions.by_key(scratch, batch, due)
                if subject == "by_key"
                else rival_promotions.singly(scratch, due)
            )
            promoted, per_s = rival_promotions.rate(promotions, seconds)
            ((streamed,),) = databases.ask(scratch, "SELECT COUNT(*) FROM stream")
            if streamed != promoted:
                raise AssertionError(f"{streamed} rows are in the stream, {promoted} were promoted")
        note(subject, {"per_s": round(per_s), "rows": promoted})
    return rates


async def measure(dsn: str, rows: int, batch: int) -> Figures:
    """The store's own promotion, of every row."""
    backend = await open_backend(dsn)
    try:
        store = Store(backend)
        timers = await schedule(store, rows)
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
    finally:
        await backend.aclose()
    ((streamed,),) = databases.ask(dsn, "SELECT COUNT(*) FROM message")
    if not rows == promoted == streamed:
        raise AssertionError(f"of {rows} rows {promoted} were promoted and {streamed} are in the stream")
    return {
        "per_s": round(rows / took),
        "rows": rows,
        "batch_p50_ms": round(times[len(times) // 2] * 1000, 2),
        "batch_max_ms": round(times[-1] * 1000, 2),
    }


async def schedule_for_rivals(dsn: str, rows: int) -> int:
    """The same rows for everybody; returns the last due time."""
    backend = await open_backend(dsn)
    try:
        return (await schedule(Store(backend), rows))[-1][0]
    finally:
        await backend.aclose()


async def schedule(store: Store, rows: int) -> list[tuple[int, int]]:
    """Rows due in a minute that is an hour away; (due, id) of each in order of time, as the wheel gives them."""
    await store.backend.migrate()
    now = await store.backend.now()
    topic = await store.write(catalogue.add_topic, TopicDraft("bench"), now)
    first = now + 3_600_000
    timers: list[tuple[int, int]] = []
    for start in range(0, rows, _PAGE):
        say(f"scheduling {start} of {rows}")
        drafts = tuple(
            Draft(topic, topic.queues[0], BODY, deliver_at=first + (start + i) * _SPAN // rows)
            for i in range(min(_PAGE, rows - start))
        )
        (receipts,) = await store.publish([Publication(drafts)], now)
        if not isinstance(receipts, list):
            raise TypeError(f"no idempotency key was given, and yet: {receipts}")
        timers += [(receipt.due, receipt.id) for receipt in receipts]
    timers.sort()
    return timers


if __name__ == "__main__":
    main()

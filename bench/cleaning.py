"""Does clearing up settled messages hold up publishers?

    python -m tarry.bench.cleaning --dsn mysql://root@127.0.0.1:3306/any [--rows 10000000] [--windows 30]

Bulk SQL writes a log of old 200-byte messages with keys, all of them acknowledged. Eight publishers then run for a
while without cleaning, and after that while the service's own cleaner removes the log at its own pace: to the last row,
or for --windows windows. `times_before` is the p99 of a publish during the cleaning divided by the p99 before it, in
the same run; the goal is at most 2. Messages published meanwhile must still be there at the end.
"""

from collections.abc import Sequence
from statistics import median

import trio

from ..service.clock import Clock
from ..service.engine.cluster.ownership import whole
from ..service.engine.state.cleaning_notes import CleaningNotes
from ..service.engine.state.directory import Directory
from ..service.engine.state.pending import Pending
from ..service.engine.state.releases import Releases
from ..service.metrics import Metrics
from ..service.settings import Settings
from ..service.upkeep.cleaner import Cleaner
from ..service.upkeep.logs import set_up_logs
from ..store.records import Topic
from ..wheel.horizon import Horizon
from ..wheel.timing_wheel import TimingWheel
from . import databases
from .report import Figures, chosen, show
from .subject import CHUNK, bulk_sql, opened, publish_beside

_DAY = 24 * 3600 * 1000
_AGE = 8 * _DAY


def main() -> None:
    parser = databases.options("cleaning", __doc__)
    parser.add_argument("--rows", type=databases.count, default=10_000_000, help="messages to be removed")
    parser.add_argument("--seconds", type=databases.seconds, default=10, help="of a window that p99 is taken of")
    parser.add_argument("--windows", type=databases.count, help="end after so many of them, not with the last row")
    arguments = parser.parse_args()
    with databases.server(arguments.dsn) as dsn, databases.scratch(dsn) as scratch:
        settings = databases.durability(dsn)
        figures = trio.run(measure, scratch, arguments.rows, arguments.seconds, arguments.windows)
    show({"bench": "cleaning", **chosen(arguments, "rows"), **settings, **figures})


async def measure(dsn: str, rows: int, seconds: float, windows: int | None, name: str = "bench") -> Figures:
    """Measures publishing before and during the cleaning of a new topic, `name`, and checks the rows that are left."""
    set_up_logs("warning", "console")
    async with opened(dsn) as store:
        clock = Clock(store.now)
        await clock.take()
        directory = Directory(store, clock, auto_create=True)
        topic = await directory.topic(name, create=True)
        group = await directory.group(topic, "bench", create=True)
        await trio.to_thread.run_sync(fill, dsn, topic, group.id, clock.now() - _AGE, rows)
        now, ownership = clock.now(), whole()
        pending = Pending(TimingWheel(now), Horizon(now), clock, Releases({}, ownership, clock))
        cleaner = Cleaner(store, directory, clock, Metrics(), Settings(), pending, CleaningNotes())
        took = 0

        async def clean() -> None:
            nonlocal took
            began = clock.now()
            await cleaner.clean()
            took = clock.now() - began

        def note(many: int) -> None:
            if many == windows:
                cleaner.stop()

        before, during = await publish_beside(store, topic, seconds, clean, note)
        published = sum(window["answered"] for window in (before, *during))
        ((left,),) = databases.ask(dsn, f"SELECT COUNT(*) FROM message WHERE queue_id = {topic.queues[0].id}")
        ((floor,),) = databases.ask(dsn, f"SELECT MAX(floor) FROM cleaned WHERE queue_id = {topic.queues[0].id}")
        removed = int(floor)
        if left != published + rows - removed or (windows is None and removed != rows):
            raise AssertionError(f"of {rows} messages and {published} more, {removed} were removed and {left} are left")
        return _summary(before, during, took, removed)


def _summary(before: Figures, during: Sequence[Figures], took: int, removed: int) -> Figures:
    p99 = [window["p99_ms"] for window in during]
    return {
        "before": before,
        "windows": len(during),
        "during": {
            "per_s": round(median(window["per_s"] for window in during)),
            "p50_ms": round(median(window["p50_ms"] for window in during), 2),
            "p99_ms": round(median(p99), 2),
            "worst_p99_ms": max(p99),
        },
        "cleaning_s": round(took / 1000, 1),
        "removed": removed,
        "removed_per_s": round(removed / max(took, 1) * 1000),
        "times_before": {
            "p99": round(median(p99) / before["p99_ms"], 2),
            "worst_p99": round(max(p99) / before["p99_ms"], 2),
        },
    }


def fill(dsn: str, topic: Topic, group_id: int, at: int, rows: int) -> None:
    """Writes the log in statements of many rows, as if a group had read and acknowledged all of it."""
    binary = "BLOB" if dsn.startswith(databases.SQLITE) else "BINARY"
    queue = topic.queues[0].id
    with databases.bulk(dsn) as execute:
        bulk_sql(execute, queue, 0, rows, at, f"CAST({{}} AS {binary})")
        for start in range(0, rows, CHUNK):
            execute(
                f"INSERT INTO label (topic_id, `key`, id) SELECT {topic.id}, `key`, id FROM message"
                f" WHERE queue_id = {queue} AND `offset` >= {start} AND `offset` < {start + CHUNK}"
            )
        read = f"position = {rows}, acked = {rows}"
        execute(f"UPDATE `cursor` SET {read} WHERE group_id = {group_id} AND queue_id = {queue}")


if __name__ == "__main__":
    main()

"""The archive: what the store has and the lake has not goes there, each row once, in bounded steps.

A step plans ranges from the lake's positions on, lets tasks write them as files, and commits files and positions in one
entry of the table's log. Killed before that, nothing has happened; killed after it, the next run sees the positions.
Then the positions are noted in the store, so that retention may delete.

Messages go by (queue, offset) below the queue's end, deliveries by the number of the log, both in the order of commits.
Dead letters, cancelled messages and fires of schedules have no such order: they are looked for by time, some hours
back, since a transaction of a user's own may be that late, and what the lake has is left out.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from attrs import define, field

from ..arrow import Batch, pa
from ..columns import arrow_schema
from ..errors import LakeError
from ..schemas import LAKE_DAYS, TABLES
from ..session import Later
from ..sinks import drain
from ..source import source
from ..source.facts import Facts, facts_of, read_facts
from ..source.spans import bundle, ends, head, plan
from ..store_connection import StoreConnection, absolute, name_of
from . import erasures, local_reads
from .archiver_lease import ArchiverLease
from .lake import Lake, Snapshot
from .lake_writer import Added, write_spans, write_tables
from .object_store import Access

CAP = 1_000_000
"""Rows to a commit, about."""
OVERLAP = 3 * 3_600_000
"""Milliseconds that a user's transaction may stay open and still be found."""
RANGED = ("messages", "deliveries")
TIMED = {
    "dead": ("group_id", "id", "dead_at"),
    "cancelled": ("id",),
    "fires": ("schedule_id", "fire_at", "at"),
}
"""With what tells two rows apart."""
HERE = 10_000
"""Rows that are written in this process, about, rather than by Spark: it starts in seconds."""
_LONGEST = 30
"""Seconds to a commit, about, where a rate makes it slow: what is read by then is not read again after a kill."""
_SELDOM = 3_600_000
"""Milliseconds after which the place to look from is moved, though nothing came."""

Progress = Callable[[str, int], None]
"""Told of a table and the rows of each commit."""


@define
class Archiver:
    """The one archiver of a store, under its `lease`. Steps may be asked for from several threads."""

    spark: Later
    """Opened for what is worth it: few rows are written by this process."""
    dsn: str
    lake: Lake
    lease: ArchiverLease
    cap: int = CAP
    progress: Progress = lambda _table, _rows: None
    rate: float | None = None
    """Messages and deliveries a second at the most; None is as fast as it goes."""
    rows: dict[str, int] = field(factory=dict[str, int])
    """Archived by this process, by table."""
    erased: dict[str, int] = field(factory=dict[str, int])
    """Rows that were written anew without what they said, by table."""
    planned: int = 0
    """About how many there were to archive when it began."""
    _lock: Any = field(factory=threading.Lock)
    _over: bool = False
    _moving: bool = False
    """The store is moved to this lake by the first commit."""

    def begin(self, *, new_lake: bool = False) -> None:
        """Checks that lake and store belong together, switches archiving on, tells the store what the lake has.

        With `new_lake` the store is moved to another lake, and hears of it with the first commit there: until then
        nothing has changed.
        """
        positions, times = self._come()
        holds = any(positions.values()) or any(time is not None for time in times.values())
        self._moving = not self.lease.admit(self.lake.identity(), holds=holds, anew=new_lake)
        if not self._moving:
            self.lease.adopt(self.lake.identity())
            self.lease.switch_on()
            self._tell(positions, times)

    def _come(self) -> tuple[dict[str, dict[str, int]], dict[str, int | None]]:
        """How far the lake has come, by ranges and by time."""
        facts = facts_of(self.dsn)
        positions = {table: self._positions(self.lake.ensure(table), facts) for table in RANGED}
        return positions, {table: self.lake.ensure(table).position("") for table in TIMED}

    def _tell(self, positions: Mapping[str, Mapping[str, int]], times: Mapping[str, int | None]) -> None:
        for table, marks in positions.items():
            self.lease.record(table, marks)
        self.lease.record("", {"": min(time or 0 for table, time in times.items() if table != "fires")})
        self.lease.record("fires", {"": times["fires"] or 0})

    def run(self) -> None:
        """All there is now."""
        self.catch_up()
        self.step_timed()
        self.erase()

    def catch_up(self, over: threading.Event | None = None) -> None:
        """The messages and deliveries there are now, or those until `over` is set. What comes meanwhile is not of it:
        beside publishers it would never end."""
        facts = facts_of(self.dsn)
        self.planned = sum(self._planned(table, facts) for table in RANGED)
        if self.planned > HERE:
            self.spark()
        for table in RANGED:
            upto = ends(table, facts)
            while not (over is not None and over.is_set()) and self.step(table, upto):
                pass

    def step(self, table: str, upto: Mapping[str, int] | None = None) -> bool:
        """One commit of messages or deliveries; False when there was nothing to archive below `upto`."""
        with self._lock:
            if self._over:
                return False
            facts = facts_of(self.dsn)
            snapshot = self.lake.ensure(table)
            before = self._positions(snapshot, facts)
            spans = head(plan(table, facts, before, upto), self._rows_to_a_commit)
            if not spans:
                return False
            after = {span.mark: span.last for span in spans}  # in order: the last of a mark stays
            work = bundle(spans)
            write = partial(write_spans, absolute(self.dsn), Access.here(), snapshot.place, table)
            if not self.spark.is_open:
                files = write(spans, rate=self.rate)
            else:
                context = self.spark().sparkContext
                share = None if self.rate is None else self.rate / min(len(work), context.defaultParallelism)
                files = context.parallelize(work, len(work)).flatMap(partial(write, rate=share)).collect()
            self._commit(table, files, {mark: before.get(mark) for mark in after}, after)
            return True

    def _planned(self, table: str, facts: Facts) -> int:
        """About how many rows there are to archive."""
        before = self._positions(self.lake.ensure(table), facts)
        return sum(span.weight for span in plan(table, facts, before))

    @property
    def _rows_to_a_commit(self) -> int:
        return self.cap if self.rate is None else max(1, min(self.cap, int(self.rate * _LONGEST)))

    def finish(self) -> None:
        """Waits for the step that is under way; those that are asked for later do nothing."""
        with self._lock:
            self._over = True

    def step_timed(self) -> None:
        """What came of dead letters, cancelled messages and fires."""
        with self._lock:
            with StoreConnection(self.dsn) as connection:
                until, facts = connection.now() - OVERLAP, read_facts(connection)
            for table, keys in TIMED.items():
                snapshot = self.lake.ensure(table)
                before = snapshot.position("")
                since = before or 0
                rows = None if self.spark.is_open else local_reads.fresh(self.dsn, facts, snapshot, keys, since)
                if rows is None:
                    files = self._write_timed(snapshot, keys, since)
                else:
                    files = write_tables(Access.here(), snapshot.place, table, [rows] if rows.num_rows else [])
                if files or before is None or until > since + _SELDOM:
                    written: dict[str, int] = {}
                    for file in files:
                        written[file.topic] = written.get(file.topic, 0) + file.rows
                    counts = {topic: snapshot.position(topic) for topic in written}
                    after = {topic: (counts[topic] or 0) + many for topic, many in written.items()}
                    self._commit(table, files, {"": before, **counts}, {"": max(since, until), **after}, tell=False)
            for table in ("", "fires"):
                self.lease.record(table, {"": until})

    def erase(self) -> None:
        """What the store has erased goes from the lake, too; also of what has just come there."""
        with self._lock:
            if self._over or self._moving:
                return
            self.lease.check()
            for table, many in erasures.apply(self.dsn, self.lake).items():
                self.erased[table] = self.erased.get(table, 0) + many

    def _write_timed(self, snapshot: Snapshot, keys: Sequence[str], since: int) -> list[Added]:
        """What the store has from `since` on and the lake has not, written by tasks."""
        spark, table = self.spark(), snapshot.table
        source.register(spark)
        unread = set(TABLES[table].names) - {*keys, LAKE_DAYS[table]}
        known = snapshot.frame(spark, since=since, unread=unread).select(*keys)
        reader = spark.read.format("tarry").option("dsn", self.dsn).option("table", table)
        fresh = reader.option("since", str(since)).load().join(known, list(keys), "left_anti")
        written = drain(
            fresh.select(*TABLES[table].names), partial(_write_batches, Access.here(), snapshot.place, table)
        )
        return [file for files in written for file in files]

    def _commit(
        self,
        table: str,
        files: Sequence[Added],
        before: Mapping[str, int | None],
        after: Mapping[str, int],
        *,
        tell: bool = True,
    ) -> None:
        self.lease.check()
        self.lake.commit(table, files, before, after)
        if self._moving:
            self.lease.adopt(self.lake.identity())
            self.lease.switch_on()
            self._tell(*self._come())
            self._moving = False
        if tell:
            self.lease.record(table, after)
        rows = sum(file.rows for file in files)
        self.rows[table] = self.rows.get(table, 0) + rows
        self.progress(table, rows)

    def _positions(self, snapshot: Snapshot, facts: Facts) -> dict[str, int]:
        known = ends(snapshot.table, facts)
        positions = snapshot.positions(known)
        for mark, position in positions.items():
            if position > known[mark]:
                raise LakeError(
                    f"the lake is ahead of {name_of(self.dsn)}: it has {snapshot.table} of {mark} up to {position}, and"
                    f" the store ends at {known[mark]}. Was the store put back from a backup? Archive it to a new lake"
                )
        return positions


def _write_batches(access: Access, place: str, table: str, batches: Iterable[Batch]) -> list[Added]:
    schema = arrow_schema(TABLES[table])
    return write_tables(access, place, table, (pa.Table.from_batches([batch]).cast(schema) for batch in batches))


assert set(RANGED) | set(TIMED) == set(LAKE_DAYS)  # noqa: S101

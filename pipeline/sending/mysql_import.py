"""Imports drafts into MySQL: each task writes its own rows, a chunk per transaction, none twice while remembered.

A chunk is one transaction: the marks of its rows (`import_marks`), the messages in `delay`, with ids as an outbox makes
them, and their number in a tally that is the task's own, so that it waits for nobody. A row whose mark is there is
passed over. If the answer to a COMMIT is lost, the chunk is written again: its marks tell whether it was committed.

This runs in Spark's workers, and uses neither Spark's session nor trio.
"""

import random
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from typing import Any, NamedTuple

import pymysql
from attrs import define, frozen

from ...client.bodies import wrong_json
from ...client.coroutines import drive
from ...client.outbox.cursors import CursorTransaction
from ...store.content import ATTRIBUTES, Attributes, columns
from ...store.errors import DuplicateKey
from ...store.ids import MAX_MS, SHARDS, IdMaker, due_of, random_nonce
from ...store.mysql.errors import ROLLED_BACK
from ...store.ports import Queries
from ...store.stream.placing import shard_of_order
from ...store.stream.publishing import add_waiting
from ...store.stream.tallies import count
from ...store.timers import forecast
from ..arrow import Batch
from ..errors import StoreAway
from ..pace import Pace
from ..store_connection import Connection, open_mysql
from .import_marks import Marks
from .row_counts import Address, tell

CHUNK = 4000
"""Most rows of a transaction."""
_CHUNK_BYTES = 3 << 20
"""Bytes of its bodies and headers; a statement has them as hexadecimal digits."""
_TIMEOUT = 120
"""Seconds without a byte: a chunk is written in one statement."""
_SETTINGS = "sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', wait_timeout = 60, innodb_lock_wait_timeout = 5"
"""Much as in the service's own sessions."""
_AGAIN = {1205, 1213}
"""Lock wait and deadlock: the same transaction may succeed on another try."""
_LOST = {2003, 2006, 2013, 2014, 1053, 1927, 1040, 4031} | ROLLED_BACK
"""The connection is gone: the transaction may or may not be kept."""
_TRIES = 8
_SPREAD = 1000
"""Milliseconds over which the chunks of messages for now are spread, so that two tasks do not meet in one."""
_MAKERS = range(1000, 1240)
"""Numbers of tallies for imports. Those below are for servers."""


@frozen
class Target:
    """The topic to which a task writes, and how."""

    dsn: str
    topic_id: int
    name: str
    """The name of the import."""
    window: int
    """How long a row is remembered, milliseconds."""
    ordered: bool
    rate: float | None
    """Rows a second of one task."""
    bare: bool
    """Whether rows have only a body: no column of `ATTRIBUTES`."""
    watcher: Address | None = None


@define
class Written:
    """The rows of a task, by what it did with them."""

    imported: int = 0
    skipped: int = 0
    refused: int = 0


class _Row(NamedTuple):
    part: int
    mark: bytes
    deliver_at: int | None
    delay: int | None
    queue_id: int
    body: bytes
    of: Attributes

    @property
    def size(self) -> int:
        return len(self.body) + len(self.of.headers or "")

    @property
    def is_readable(self) -> bool:
        """Whether the server would take the body over HTTP: Spark reads numbers and depths that others cannot."""
        return self.of.content_type is not None or wrong_json(self.body) is None


_PLAIN = _Row._fields[:-1]
_BARE = Attributes()


def connect(dsn: str) -> Connection:
    """A connection that writes. Raises `StoreAway` or another `PipelineError`, and ValueError for an invalid DSN."""
    return open_mysql(dsn, seconds=_TIMEOUT, autocommit=False, settings=_SETTINGS)


def write(target: Target, batches: Iterable[Batch]) -> Written:
    """Writes all rows of a task. Raises `StoreAway`."""
    with closing(_Writer(target)) as writer:
        for chunk in _chunks(target, batches, writer.pace.at_a_time(CHUNK)):
            writer.pace.take(len(chunk))
            good = [row for row in chunk if row.is_readable]
            if good:
                writer.write(good)
            writer.written.refused += len(chunk) - len(good)
            tell(target.watcher, len(chunk))
        writer.pace.finish()
    return writer.written


def _chunks(target: Target, batches: Iterable[Batch], most: int) -> Iterator[list[_Row]]:
    chunk: list[_Row] = []
    size = 0
    names = _PLAIN if target.bare else (*_PLAIN, *ATTRIBUTES)
    for batch in batches:
        for values in zip(*[batch.column(name).to_pylist() for name in names], strict=True):
            more = values[len(_PLAIN) :]
            row = _Row._make((*values[: len(_PLAIN)], Attributes(*more) if more else _BARE))
            if chunk and (len(chunk) == most or size + row.size > _CHUNK_BYTES):
                yield chunk
                chunk, size = [], 0
            chunk.append(row)
            size += row.size
    if chunk:
        yield chunk


def _may_succeed(error: Exception) -> bool:
    """Whether another try may succeed."""
    code = error.args[0] if error.args else 0
    return isinstance(error, pymysql.err.InterfaceError) or code in _LOST or code in _AGAIN


class _Writer:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._connection: Connection | None = None
        self._ids = IdMaker(outbox=True, climbing=True)
        self._marks = Marks(target.topic_id, target.name)
        self._latest = 0
        self._maker = random.choice(_MAKERS)  # noqa: S311  # it spreads writers, it guards nothing
        self.pace = Pace(target.rate)
        self.written = Written()

    def close(self) -> None:
        if self._connection is not None:
            with suppress(pymysql.err.MySQLError):
                self._connection.close()
            self._connection = None

    def write(self, chunk: Sequence[_Row]) -> None:
        """Writes a chunk: until it is in the database, or known to have been there before."""
        absent: set[bytes] | None = None
        """The marks that were not there at the first look: if they are there later, this task wrote them."""
        tried = 0
        while True:
            try:
                if self._connection is None:
                    self._connection = connect(self._target.dsn)
                tx = CursorTransaction(self._connection.cursor(), None)
                now, new = drive(self._look(tx, chunk))
                if absent is None:
                    absent = {row.mark for row in new}
                if new:
                    drive(self._add(tx, new, now, tried))
                self._connection.commit()
                self._marks.landed()
                break
            except (DuplicateKey, pymysql.err.MySQLError) as error:
                tried += 1
                taken = isinstance(error, DuplicateKey)
                if tried >= _TRIES or not (taken or _may_succeed(error)):
                    said = error.args[-1] if error.args else type(error).__name__
                    raise StoreAway(f"the store refuses, and the job stopped: {said}") from error
                if taken:
                    absent = None  # another run of the same import may be at work
                self._roll_back(error)
            except StoreAway:
                tried += 1
                if tried >= _TRIES:
                    raise
            self._marks.forget()
            time.sleep(min(2.0, 0.05 * 2**tried))
        self.written.imported += len(absent)
        self.written.skipped += len(chunk) - len(absent)

    def _roll_back(self, error: Exception) -> None:
        try:
            if error.args and error.args[0] in ROLLED_BACK:
                self.close()  # the server is read-only, and another may take the writes by now
            if self._connection is not None:
                self._connection.rollback()
        except pymysql.err.MySQLError:
            self.close()

    async def _look(self, tx: CursorTransaction, chunk: Sequence[_Row]) -> tuple[int, list[_Row]]:
        """The database's clock, and the rows that have not been imported yet."""
        now = await tx.now()
        await self._marks.look(tx, (row.part for row in chunk), now)
        return now, [row for row in chunk if not self._marks.has(row.part, row.mark)]

    async def _add(self, tx: Queries, rows: Sequence[_Row], now: int, tried: int) -> None:
        target = self._target
        marks: dict[int, list[bytes]] = {}
        for row in rows:
            marks.setdefault(row.part, []).append(row.mark)
        await self._marks.add(tx, marks, now + target.window)
        spread = 0 if not tried or target.ordered else min(4**tried, _SPREAD)
        # Messages due at once get one millisecond, that of their chunk; on ordered topics it rises.
        at_once = max(now, self._latest) if target.ordered else now + random.randrange(_SPREAD)  # noqa: S311  # it spreads ids
        self._latest = at_once
        if tried:
            self._ids = IdMaker(outbox=True, climbing=True)
        waiting: list[tuple[Any, ...]] = []
        labels: list[tuple[int, bytes, int]] = []
        latest = MAX_MS - 2000
        for row in rows:
            at = now if row.deliver_at is None else row.deliver_at
            if row.delay is not None:
                at = now + row.delay
            due = at if at > now else at_once
            if spread:
                due += random.randrange(spread)  # noqa: S311  # likewise
            # One shard for a part: its rows, in the order of their times, are written in one place of the table.
            shard = shard_of_order(target.topic_id, row.of.ordering_key, row.queue_id, ordered=target.ordered)
            shard = row.part % SHARDS if shard is None else shard
            id_ = self._ids.make(min(due, latest), shard=shard)
            place = (shard, id_, due_of(id_), random_nonce(), target.topic_id, row.queue_id)
            details = () if target.bare else columns(row.of)
            waiting.append((*place, *details, row.body, now, min(at, latest)))
            if row.of.key is not None:
                labels.append((target.topic_id, row.of.key.encode(), id_))
        await add_waiting(tx, sorted(waiting), bare=target.bare)
        if labels:
            await tx.execute_many("label.add", sorted(labels))
        if come := forecast.changes(now, [(target.topic_id, row[2]) for row in waiting]):
            await tx.execute_many("forecast_change.add", come)
        # Last of all, so that a row that others may want is locked for a moment only.
        await count(tx, target.topic_id, self._maker, scheduled=len(rows))

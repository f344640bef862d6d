"""Drafts into MySQL: each task writes its rows itself, a chunk to a transaction, each row at most once for ever.

A chunk is one transaction: the marks of its rows (`import_marks`), the messages in `delay`, with ids as an outbox makes
them, and their number in a tally that is the task's own, so that it waits for nobody. A row whose mark is there is
passed over. When the answer to a COMMIT is lost, the chunk is written again: its marks tell.

This runs in Spark's workers; neither Spark's session nor trio is known here.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import pymysql
from attrs import define, field, frozen

from ...store.ids import (
    COUNT_BITS,
    MAX_MS,
    OUTBOX_COUNTS,
    SEQUENCE_BITS,
    SHARD_BITS,
    SHARDS,
    apart,
    random_nonce,
    shard_for,
)
from ...store.mysql.statements import statement
from ..arrow import Batch
from ..errors import StoreAway
from ..pace import Pace
from .import_marks import Marks
from .mysql_link import DUPLICATE, Session, code, connect, may_succeed, rest, said
from .row_counts import Place, tell

CHUNK = 4000
"""Rows of a transaction."""
_CHUNK_BYTES = 6 << 20
"""Of the text of its messages: below the max_allowed_packet that a server has unless told otherwise."""
_TRIES = 8
_SPREAD = 1000
"""Milliseconds over which the chunks of messages for now are spread, so that two tasks do not meet in one."""
_MAKERS = range(16, 256)
"""Of tallies, for imports. Those below are the servers'."""
_FIRST_COUNT = (1 << COUNT_BITS) - OUTBOX_COUNTS


@frozen
class Target:
    """Where a task writes to, and how."""

    dsn: str
    topic_id: int
    name: str
    """Of the import."""
    window: int
    """How long a row is remembered, milliseconds."""
    ordered: bool
    rate: float | None
    """Rows a second of one task."""
    bare: bool
    """Of no row there is more than the body: no column of `DETAILS`."""
    watcher: Place | None = None


@define
class Written:
    """What a task did."""

    imported: int = 0
    skipped: int = 0
    refused: int = 0


@define
class _Ids:
    """Ids that climb: within a millisecond and shard each is higher than the one before, so that ordered topics keep
    the order in which their rows come. They are of the outbox's part, and begin anywhere in its lower half."""

    _counts: dict[int, int] = field(factory=dict[int, int], init=False)

    def make(self, due: int, shard: int) -> int:
        counts = self._counts
        while True:
            place = due << SEQUENCE_BITS | shard
            count = counts.get(place)
            if count is None:
                if len(counts) > 200_000:
                    counts.clear()
                count = random.randrange(OUTBOX_COUNTS >> 1)  # noqa: S311  # it spreads ids, it guards nothing
            if count < OUTBOX_COUNTS:
                counts[place] = count + 1
                return place | (_FIRST_COUNT + count) << SHARD_BITS
            due += 1  # this millisecond is full: a later one, never an earlier


class _Row(NamedTuple):
    part: int
    mark: bytes
    deliver_at: int | None
    delay: int | None
    ordering_key: str | None
    key: str | None
    """As a literal."""
    middle: str
    """Of its VALUES, from the topic to the body."""


_BODY = ("part", "mark", "deliver_at", "delay", "queue_id", "body")
DETAILS = ("key", "ordering_key", "tag", "headers", "content_type")
"""All of them are among the columns, or none, of a target that is `bare`."""


def write(target: Target, batches: Iterable[Batch]) -> Written:
    """All rows of a task. Raises `StoreAway`."""
    writer = _Writer(target)
    try:
        for chunk in _chunks(target, batches, writer.pace.at_a_time(CHUNK)):
            writer.pace.take(len(chunk))
            writer.write(chunk)
            tell(target.watcher, len(chunk))
        writer.pace.finish()
    finally:
        writer.close()
    return writer.written


def _chunks(target: Target, batches: Iterable[Batch], most: int) -> Iterator[list[_Row]]:
    chunk: list[_Row] = []
    size = 0
    for batch in batches:
        for row in _rows(target, batch):
            width = len(row.middle)
            if chunk and (len(chunk) == most or size + width > _CHUNK_BYTES):
                yield chunk
                chunk, size = [], 0
            chunk.append(row)
            size += width
    if chunk:
        yield chunk


def _rows(target: Target, batch: Batch) -> Iterator[_Row]:
    columns = [_listed(batch, name) for name in _BODY]
    if target.bare:
        for part, mark, deliver_at, delay, queue_id, body in zip(*columns, strict=True):
            yield _Row(part, mark, deliver_at, delay, None, None, f"{target.topic_id},{queue_id},x'{body.hex()}'")
        return
    details = zip(*[_listed(batch, name) for name in DETAILS], strict=True)
    for (part, mark, deliver_at, delay, queue_id, body), texts in zip(zip(*columns, strict=True), details, strict=True):
        literals = [_literal(text) for text in texts]
        key = None if texts[0] is None else literals[0]
        middle = f"{target.topic_id},{queue_id},{','.join(literals)},x'{body.hex()}'"
        yield _Row(part, mark, deliver_at, delay, texts[1], key, middle)


def _listed(batch: Batch, name: str) -> list[Any]:
    values: list[Any] = batch.column(name).to_pylist()
    return values


def _literal(text: str | None) -> str:
    return "NULL" if text is None else f"x'{text.encode().hex()}'"


class _Writer:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._session: Session | None = None
        self._ids = _Ids()
        self._marks = Marks(target.topic_id, target.name)
        self._latest = 0
        self._maker = random.choice(_MAKERS)  # noqa: S311  # it spreads writers, it guards nothing
        self.pace = Pace(target.rate)
        self.written = Written()

    def close(self) -> None:
        if self._session is not None:
            with suppress(pymysql.err.MySQLError):
                self._session.connection.close()
            self._session = None

    def write(self, chunk: Sequence[_Row]) -> None:
        """Until it is in the database, or known to have been there before."""
        absent: set[bytes] | None = None
        """The marks that were not there at the first look: when they are there later, this task put them."""
        tried = 0
        while True:
            try:
                if self._session is None:
                    self._session = Session(connect(self._target.dsn))
                now = self._session.now()
                self._marks.look(self._session, (row.part for row in chunk), now)
                new = [row for row in chunk if not self._marks.has(row.part, row.mark)]
                if absent is None:
                    absent = {row.mark for row in new}
                if new:
                    self._insert(self._session, new, now, tried)
                self._session.connection.commit()
                self._marks.landed()
                break
            except pymysql.err.MySQLError as error:
                tried += 1
                again = may_succeed(error) or code(error) == DUPLICATE
                if not again or tried >= _TRIES:
                    raise StoreAway(f"the store refuses, and the job stopped: {said(error)}") from error
                if code(error) == DUPLICATE:
                    absent = None  # another run of the same import may be at work
                self._roll_back()
            except StoreAway:
                tried += 1
                if tried >= _TRIES:
                    raise
            self._marks.forget()
            rest(tried)
        self.written.imported += len(absent)
        self.written.skipped += len(chunk) - len(absent)

    def _roll_back(self) -> None:
        try:
            if self._session is not None:
                self._session.connection.rollback()
        except pymysql.err.MySQLError:
            self.close()

    def _insert(self, session: Session, rows: Sequence[_Row], now: int, tried: int) -> None:
        target = self._target
        marks: dict[int, list[bytes]] = {}
        for row in rows:
            marks.setdefault(row.part, []).append(row.mark)
        self._marks.add(session, marks, now + target.window)
        spread = 0 if not tried else min(4**tried, _SPREAD)
        # What is due at once is written as of one millisecond, a chunk's own; ordered topics' climbs.
        at_once = max(now, self._latest) if target.ordered else now + random.randrange(_SPREAD)  # noqa: S311  # it spreads ids
        self._latest = at_once
        if tried:
            self._ids = _Ids()
        written: list[tuple[int, int, str]] = []
        labels: list[str] = []
        latest = MAX_MS - 2000
        for part, _, deliver_at, delay, ordering_key, key, middle in rows:
            at = now if deliver_at is None else deliver_at
            if delay is not None:
                at = now + delay
            due = at if at > now else at_once
            if spread:
                due += random.randrange(spread)  # noqa: S311  # likewise
            # One shard for a part, whose rows come by their times: they are written in one place of the table.
            shard = part % SHARDS if ordering_key is None else shard_for(target.topic_id, ordering_key)
            id_ = self._ids.make(min(due, latest), shard)
            text = f"({shard},{id_},{id_ >> SEQUENCE_BITS},{random_nonce()},{middle},{now},{min(at, latest)})"
            written.append((shard, id_, text))
            if key is not None:
                labels.append(f"({target.topic_id},{key},{id_})")
        written.sort()
        query = "delay.add_bare" if target.bare else "delay.add"
        session.run(_inserting(query, [text for _, _, text in written]))
        if labels:
            session.run(_inserting("label.add", sorted(labels)))
        ids = [id_ for _, id_, _ in written]
        # A message keeps its id when it leaves `delay`: who is given it again could be cancelled in its stead.
        if session.fetch("delay.used", apart(ids), ids, ids):
            raise pymysql.err.IntegrityError(DUPLICATE, "an id is that of a message which has left before")
        self._count(session, len(written))

    def _count(self, session: Session, messages: int) -> None:
        """Last of all: a row that others may want is held for a moment only."""
        place = (self._target.topic_id, self._maker)
        if not session.change("tally.count", messages, 0, *place) and session.fetch("topic.lock", place[0]):
            session.run(_inserting("tally.add", [f"({place[0]},{place[1]},0,0)"]))
            session.change("tally.count", messages, 0, *place)


def _inserting(query: str, rows: Iterable[str]) -> str:
    """An INSERT of rows that are written out already, of numbers and hexadecimal literals."""
    before, _, after = statement(query)[0].sql.partition("VALUES ?")
    return f"{before}VALUES {','.join(rows)}{after}"

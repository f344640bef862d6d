"""Drafts into MySQL: each task writes its rows itself, a chunk to a transaction, each row at most once for ever.

A chunk is one transaction: the marks of its rows in `idempotency`, and the messages in `delay`, as an outbox writes
them: no queue, no cursor and no counter is touched, and whoever takes them further counts them. A row whose mark is
there is passed over. When the answer to a COMMIT is lost, the chunk is written again: its marks tell.

This runs in Spark's workers; neither Spark's session nor trio is known here.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pymysql
from attrs import define, field, frozen

from ..store.ids import COUNT_BITS, MAX_MS, OUTBOX_COUNTS, SEQUENCE_BITS, SHARD_BITS, SHARDS, shard_for
from ..store.mysql.statements import bind, statement
from ..store.ports import Value
from .arrow import Batch
from .errors import StoreAway
from .mysql_link import DUPLICATE, Session, code, connect, may_succeed, rest, said
from .pace import Pace

CHUNK = 4000
"""Rows of a transaction."""
_CHUNK_BYTES = 6 << 20
"""Of the text of its messages: below the max_allowed_packet that a server has unless told otherwise."""
_TRIES = 8
_SPREAD = 1000
"""Milliseconds over which the chunks of messages for now are spread, so that two tasks do not meet in one."""
_FIRST_COUNT = (1 << COUNT_BITS) - OUTBOX_COUNTS


@frozen
class Target:
    """Where a task writes to, and how."""

    dsn: str
    topic_id: int
    window: int
    """How long a row is remembered, milliseconds."""
    ordered: bool
    rate: float | None
    """Rows a second of one task."""
    fresh: bool
    """There was no mark of this import when it began: they are looked for only when one is in the way."""


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

    _shard: int = field(default=0, alias="shard")
    _counts: dict[int, int] = field(factory=dict[int, int], init=False)

    def make(self, due: int, shard: int | None) -> int:
        if shard is None:
            self._shard = shard = (self._shard + 1) % SHARDS
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


_Row = tuple[str, int | None, int | None, str, str | None, str | None]
"""mark, deliver_at, delay, the middle of its VALUES, its key as a literal, its ordering key."""


def write(target: Target, batches: Iterable[Batch]) -> Written:
    """All rows of a task. Raises `StoreAway`."""
    writer = _Writer(target)
    try:
        for chunk in _chunks(batches):
            writer.pace.take(len(chunk))
            writer.write(chunk)
    finally:
        writer.close()
    return writer.written


def _chunks(batches: Iterable[Batch]) -> Iterator[list[_Row]]:
    chunk: list[_Row] = []
    size = 0
    for batch in batches:
        columns: list[list[Any]] = [batch.column(name).to_pylist() for name in _COLUMNS]
        for row in zip(*columns, strict=True):
            width = len(row[3])
            if chunk and (len(chunk) == CHUNK or size + width > _CHUNK_BYTES):
                yield chunk
                chunk, size = [], 0
            chunk.append(row)
            size += width
    if chunk:
        yield chunk


_COLUMNS = ("mark", "deliver_at", "delay", "middle", "key", "ordering_key")


class _Writer:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._session: Session | None = None
        self._ids = _Ids(shard=random.randrange(SHARDS))  # noqa: S311  # it spreads ids
        self._latest = 0
        self.pace = Pace(target.rate)
        self.written = Written()

    def close(self) -> None:
        if self._session is not None:
            with suppress(pymysql.err.MySQLError):
                self._session.connection.close()
            self._session = None

    def write(self, chunk: Sequence[_Row]) -> None:
        """Until it is in the database, or known to have been there before."""
        absent: set[str] | None = None
        """The marks that were not there at the first look: when they are there later, this task put them."""
        tried = 0
        while True:
            try:
                if self._session is None:
                    self._session = Session(connect(self._target.dsn))
                known = set[str]() if self._target.fresh and not tried else self._known(self._session, chunk)
                if absent is None:
                    absent = {row[0] for row in chunk} - known
                self._insert(self._session, [row for row in chunk if row[0] not in known], tried)
                self._session.connection.commit()
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
            rest(tried)
        self.written.imported += len(absent)
        self.written.skipped += len(chunk) - len(absent)

    def _roll_back(self) -> None:
        try:
            if self._session is not None:
                self._session.connection.rollback()
        except pymysql.err.MySQLError:
            self.close()

    def _known(self, session: Session, chunk: Sequence[_Row]) -> set[str]:
        topic_id = self._target.topic_id
        rows = session.fetch("idempotency.find", topic_id, sorted(row[0].encode() for row in chunk))
        if not rows:
            return set()
        now = session.now()
        over = [row[0] for row in rows if row[3] <= now]
        if over:
            session.run(bind("idempotency.remove", (topic_id, over)).decode())
        return {row[0].decode() for row in rows if row[3] > now}

    def _insert(self, session: Session, rows: Sequence[_Row], tried: int) -> None:
        if not rows:
            return
        target = self._target
        now = session.now()
        expires = now + target.window
        marks = [f"({target.topic_id},x'{row[0].encode().hex()}','','[]',{expires})" for row in rows]
        session.run(_inserting("idempotency.add", sorted(marks)))
        spread = 0 if not tried else min(4**tried, _SPREAD)
        # What is due at once is written as of one millisecond, a chunk's own; ordered topics' climbs.
        at_once = max(now, self._latest) if target.ordered else now + random.randrange(_SPREAD)  # noqa: S311  # likewise
        self._latest = at_once
        if tried:
            self._ids = _Ids(shard=random.randrange(SHARDS))  # noqa: S311  # it spreads ids
        written: list[tuple[int, int, str]] = []
        labels: list[str] = []
        latest = MAX_MS - 2000
        for _, deliver_at, delay, middle, key, ordering_key in rows:
            at = now if deliver_at is None else deliver_at
            if delay is not None:
                at = now + delay
            due = at if at > now else at_once
            if spread:
                due += random.randrange(spread)  # noqa: S311  # likewise
            shard = None if ordering_key is None else shard_for(target.topic_id, ordering_key)
            id_ = self._ids.make(min(due, latest), shard)
            nonce = random.getrandbits(63)
            text = f"({id_ & 15},{id_},{id_ >> SEQUENCE_BITS},{nonce},{middle},{now},{min(at, latest)},1)"
            written.append((id_ & 15, id_, text))
            if key is not None:
                labels.append(f"({target.topic_id},{key},{id_})")
        written.sort()
        session.run(_inserting("delay.add_uncounted", [text for _, _, text in written]))
        if labels:
            session.run(_inserting("label.add", sorted(labels)))
        ids: list[Value] = [id_ for _, id_, _ in written]
        # A message keeps its id when it leaves `delay`: who is given it again could be cancelled in its stead.
        if session.fetch("delay.used", ids, ids):
            raise pymysql.err.IntegrityError(DUPLICATE, "an id is that of a message which has left before")


def _inserting(query: str, rows: Iterable[str]) -> str:
    """An INSERT of rows that are written out already, of numbers and hexadecimal literals."""
    before, _, after = statement(query)[0].sql.partition("VALUES ?")
    return f"{before}VALUES {','.join(rows)}{after}"

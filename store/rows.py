"""Rows as what they are: from the columns that a server gives to typed values.

Who asks says what a row is, and gets that: `await tx.fetch("queue.ends", tuple[int, int], ids)` is a
`list[tuple[int, int]]`. A NamedTuple or an attrs class has a field for each column, by its name and in order; a tuple
type says only what the columns hold; a plain type stands for the value of the only column. Columns hold text as UTF-8:
what is to be a `str` is decoded here, and where it is no UTF-8 U+FFFD stands for what cannot be read.
tests/store/test_queries.py holds every such wish against the query.

What several parts of the store read is declared below; what one part reads, there.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import repeat, starmap
from types import GenericAlias
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_type_hints, overload

from .content import Content
from .ids import SHARDS

R = TypeVar("R")
_new: Callable[..., Any] = tuple.__new__  # pyright: ignore  # of any tuple


@overload
def encode(text: str) -> bytes: ...
@overload
def encode(text: str | None) -> bytes | None: ...
def encode(text: str | None) -> bytes | None:
    """Text for a column."""
    return None if text is None else text.encode()


class TopicRow(NamedTuple):
    """A topic; see `catalogue` for the numbers."""

    id: int
    name: str
    kind: int
    ordered: int
    retention: int | None
    ladder: bytes | None
    sequencer: int
    created_at: int
    max_pending: int | None
    max_rate: int | None
    release_rate: int | None


class QueueRow(NamedTuple):
    """A queue; `group_id` is 0 for a topic's own."""

    id: int
    topic_id: int
    group_id: int
    number: int


class GroupRow(NamedTuple):
    """A consumer group."""

    id: int
    topic_id: int
    name: str
    ladder: bytes | None
    on_exhausted: int
    concurrency: int | None
    created_at: int
    paused: int


class CursorState(NamedTuple):
    """A cursor, and its queue; `group_id` is 0 for a topic's own."""

    number: int
    group_id: int
    position: int
    next_offset: int
    acked: int
    dead: int
    retried: int
    origin: int
    expired: int
    skipped: int
    queue_id: int
    sought: int
    redriven: int
    cleared: int
    parked: int


class Waiting(NamedTuple):
    """A message that waits, locked, without its content."""

    id: int
    due: int
    topic_id: int
    queue_id: int
    nonce: int
    key: bytes | None
    accepted_at: int
    deliver_at: int
    uncounted: int
    """Whether it came from an outbox: whoever takes it away counts it."""
    expires_at: int | None
    special: int
    """As in `Due`."""
    shard: int

    @property
    def place(self) -> int:
        """Where it lies in `delay`, whatever its time: somebody's own SQL may have changed that and left it there."""
        return self.id if self.shard < SHARDS else ~self.id


class Due(NamedTuple):
    """As `Waiting`, with what promotion wants to know: thousands are read a second."""

    id: int
    due: int
    topic_id: int
    queue_id: int
    uncounted: int
    special: int
    """Bits: `OF_SCHEDULE`, `GUARDED`."""
    shard: int

    @property
    def place(self) -> int:
        """As of `Waiting`."""
        return self.id if self.shard < SHARDS else ~self.id


OF_SCHEDULE = 1
"""Its schedule is to go on."""
GUARDED = 2
"""Its guard is asked whether it is sent."""


class OutboxEnd(NamedTuple):
    """That a message no longer waits, by a user's transaction, which nobody has counted."""

    id: int
    topic_id: int
    scheduled: int
    """Whether its publish is in no counter either."""
    replaced: int
    """Whether another of its timer took its place; else it was cancelled."""


class TimerRow(NamedTuple):
    """The timer of a key."""

    topic_id: int
    key: bytes
    id: int
    revision: int
    first_at: int


class ScheduleRow(NamedTuple):
    """A recurring schedule; see the table. `next_id` is None where it waits for nothing."""

    id: int
    name: str
    topic_id: int
    queue_id: int
    spec: bytes
    revision: int
    paused: int
    made_at: int
    last_at: int
    last_id: int | None
    next_at: int | None
    next_id: int | None


class Scheduled(NamedTuple):
    """A message that waits, whole."""

    id: int
    due: int
    topic_id: int
    queue_id: int
    content: Content


class Streamed(NamedTuple):
    """A message in the stream, whole, and where it lies."""

    id: int
    topic_id: int
    queue_id: int
    number: int
    offset: int
    content: Content
    streamed_at: int


class Cancelled(NamedTuple):
    """A message cancelled in time, or ended by its guard."""

    id: int
    topic_id: int
    key: str | None
    accepted_at: int
    deliver_at: int
    cancelled_at: int
    reason: int
    guard: str | None
    """Who suppressed it."""

    @property
    def state(self) -> Literal["cancelled", "suppressed"]:
        """What became of it."""
        return "suppressed" if self.reason == SUPPRESSED else "cancelled"


SUPPRESSED = 1
"""The reason of a message that its guard ended."""


class ErasedRow(NamedTuple):
    """That a message was erased; topic 0 where the store did not know it."""

    id: int
    topic_id: int
    erased_at: int
    lake_at: int | None
    """Since when the lake has it no more."""


class Scanned(NamedTuple):
    """A message that is met on a walk through a table."""

    id: int
    topic_id: int
    deliver_at: int
    reason: int
    """As of `Cancelled`; 0 of one that waits."""


class Resting(NamedTuple):
    """A message on its rung."""

    id: int
    group_id: int
    return_queue_id: int
    message_queue_id: int
    message_offset: int
    message_id: int
    attempt: int
    history: bytes
    losses: int
    """How often in a row its client died, or let its lease run out."""
    is_there: int
    """Whether its message is; retention takes none that has a retry."""


class Source(NamedTuple):
    """Where a message of a retry queue lies in the topic's own, and what it has behind it."""

    offset: int
    message_queue_id: int
    message_offset: int
    message_id: int
    attempt: int
    history: bytes
    expires_at: int | None
    losses: int = 0
    """As of `Resting`."""


class Aged(NamedTuple):
    """Something at its place, an offset or a number, and since when."""

    place: int
    at: int


class AgedMessage(NamedTuple):
    """A message at its place in a queue, and since when."""

    place: int
    at: int
    id: int
    key: bytes | None
    accepted_at: int
    expires_at: int | None


class OpenClaim(NamedTuple):
    """A claim on a page of them."""

    number: int
    first: int
    size: int
    claimed_at: int
    outcome: bytes


class Return(NamedTuple):
    """That a message came back from the ladder, into a retry queue."""

    message_id: int
    queue_id: int
    offset: int
    attempt: int
    history: bytes
    streamed_at: int


class Letter(NamedTuple):
    """A dead letter, whole."""

    id: int
    group_id: int
    dead_at: int
    history: bytes
    queue_id: int
    offset: int
    content: Content


class LockedDead(NamedTuple):
    """A dead letter, locked, without its content."""

    id: int
    queue_id: int
    offset: int
    dead_at: int
    expires_at: int | None


def columns_of(row: Any) -> list[tuple[str, Any]]:
    """Name and type of each field; without names where the row has none."""
    if isinstance(row, GenericAlias):
        return [("", kind) for kind in get_args(row)]
    return [("", row)] if row in (int, bytes, str) else list(get_type_hints(row).items())


def read(row: type[R], rows: Sequence[tuple[Any, ...]]) -> list[R]:
    """The rows as the server gave them, made into what they are."""
    reader: Callable[[Sequence[tuple[Any, ...]]], list[R]] = _reader(row)  # type: ignore[arg-type]  # a type has a hash
    return reader(rows) if rows else []


def _as_it_is(value: bytes | str | None) -> str | None:
    """Spoilt by somebody's own SQL, one row must not hide all others; nor must a column that was made text."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


@cache
def _reader(row: Any) -> Callable[[Sequence[tuple[Any, ...]]], list[Any]]:
    kinds = [kind for _, kind in columns_of(row)]
    content = kinds.index(Content) if Content in kinds else None
    if content is not None:
        kinds[content : content + 1] = get_type_hints(Content).values()
    text = [place for place, kind in enumerate(kinds) if kind in (str, str | None)]

    def decoded(rows: Iterable[tuple[Any, ...]]) -> Iterable[tuple[Any, ...]]:
        columns = list(zip(*rows, strict=True))
        for place in text:
            try:
                columns[place] = tuple([None if value is None else value.decode() for value in columns[place]])
            except (UnicodeDecodeError, AttributeError):
                columns[place] = tuple(map(_as_it_is, columns[place]))
        if content is not None:
            its = slice(content, content + len(Content.__struct_fields__))
            columns[its] = [tuple(map(Content, *columns[its]))]
        return zip(*columns, strict=True)

    def made(rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        plain = decoded(rows) if text else rows
        if isinstance(row, GenericAlias):
            return list(plain)
        if hasattr(row, "_fields"):
            # What `_make` does, without a call of Python for each row.
            return list(map(_new, repeat(row), plain))
        if row in (int, bytes, str):
            return [value for (value,) in plain]
        return list(starmap(row, plain))

    return made

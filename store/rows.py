"""The rows of queries as typed values: types of rows, and their making from the columns that a server returns.

The caller names the type of a row and gets it: `await tx.fetch("queue.ends", tuple[int, int], ids)` is a
`list[tuple[int, int]]`. A NamedTuple or an attrs class has a field for each column, by its name and in order; a tuple
type gives only the types of the columns; a plain type is that of the only column. Columns hold text as UTF-8: fields of
type `str` are decoded here, and U+FFFD replaces bytes that are not UTF-8. tests/store/test_queries.py checks every such
type against its query.

Types that several parts of the store read are declared below; a type that one part reads is declared in that part.
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
    """A text as the bytes of a column."""
    return None if text is None else text.encode()


class TopicRow(NamedTuple):
    """A topic; `catalogue` has the meaning of the numbers."""

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
    """A cursor, and its queue; `group_id` is 0 for a queue of the topic's own."""

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
    """A waiting message, locked, without its content."""

    id: int
    due: int
    topic_id: int
    queue_id: int
    nonce: int
    key: bytes | None
    accepted_at: int
    deliver_at: int
    uncounted: int
    """Whether it came from an outbox: the transaction that removes the row counts the publish."""
    expires_at: int | None
    special: int
    """As in `Due`."""
    shard: int

    @property
    def place(self) -> int:
        """Where the row lies in `delay`, by its shard; not by its time, which SQL from outside may have changed."""
        return self.id if self.shard < SHARDS else ~self.id


class Due(NamedTuple):
    """As `Waiting`, with only what promotion needs, since thousands are read per second."""

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
        """As `Waiting.place`."""
        return self.id if self.shard < SHARDS else ~self.id


OF_SCHEDULE = 1
"""It is the next message of a schedule, which has to go on when the message is promoted."""
GUARDED = 2
"""It has a guard, which is asked whether the message is sent."""


class OutboxEnd(NamedTuple):
    """A message that a user's own transaction cancelled or replaced, which no counter has counted yet."""

    id: int
    topic_id: int
    scheduled: int
    """Whether its publish has not been counted either."""
    replaced: int
    """Whether another message of its timer replaced it; else it was cancelled."""


class TimerRow(NamedTuple):
    """The timer of a key."""

    topic_id: int
    key: bytes
    id: int
    revision: int
    first_at: int


class ScheduleRow(NamedTuple):
    """A recurring schedule; see the table. `next_id` is None when no message of it waits."""

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
    """A waiting message with its content."""

    id: int
    due: int
    topic_id: int
    queue_id: int
    content: Content


class Streamed(NamedTuple):
    """A message in the stream with its content, and its queue and offset."""

    id: int
    topic_id: int
    queue_id: int
    number: int
    offset: int
    content: Content
    streamed_at: int


class Cancelled(NamedTuple):
    """A message that was cancelled, or suppressed by its guard."""

    id: int
    topic_id: int
    key: str | None
    accepted_at: int
    deliver_at: int
    cancelled_at: int
    reason: int
    guard: str | None
    """The guard that suppressed it."""

    @property
    def state(self) -> Literal["cancelled", "suppressed"]:
        """Which of the two it is."""
        return "suppressed" if self.reason == SUPPRESSED else "cancelled"


SUPPRESSED = 1
"""The value of `reason` of a message that its guard suppressed."""


class ErasedRow(NamedTuple):
    """The erasure of a message; topic 0 if the store did not know the message."""

    id: int
    topic_id: int
    erased_at: int
    lake_at: int | None
    """Since when the message is no longer in the lake."""


class Scanned(NamedTuple):
    """A message found by a scan of a table."""

    id: int
    topic_id: int
    deliver_at: int
    reason: int
    """As `Cancelled.reason`; 0 for a waiting message."""


class Resting(NamedTuple):
    """A message that rests on a rung of the ladder."""

    id: int
    group_id: int
    return_queue_id: int
    message_queue_id: int
    message_offset: int
    message_id: int
    attempt: int
    history: bytes
    losses: int
    """How many times in a row its client died or let the lease run out."""
    is_there: int
    """Whether its message is in the stream; retention removes none that has a retry."""


class Source(NamedTuple):
    """A message of a retry queue: where it lies in the topic's own queue, and its attempts so far."""

    offset: int
    message_queue_id: int
    message_offset: int
    message_id: int
    attempt: int
    history: bytes
    expires_at: int | None
    losses: int = 0
    """As `Resting.losses`."""


class Aged(NamedTuple):
    """An offset or a number of a row, and since when the row is there."""

    place: int
    at: int


class AgedMessage(NamedTuple):
    """A message at its offset in a queue, and since when it is there."""

    place: int
    at: int
    id: int
    key: bytes | None
    accepted_at: int
    expires_at: int | None


class OpenClaim(NamedTuple):
    """An open claim, as read from a page of claims."""

    number: int
    first: int
    size: int
    claimed_at: int
    outcome: bytes


class Return(NamedTuple):
    """A message that came back from the ladder into a retry queue."""

    message_id: int
    queue_id: int
    offset: int
    attempt: int
    history: bytes
    streamed_at: int


class Letter(NamedTuple):
    """A dead letter with its content."""

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
    """Makes values of type `row` from the rows as the server returned them."""
    reader: Callable[[Sequence[tuple[Any, ...]]], list[R]] = _reader(row)  # type: ignore[arg-type]  # a type has a hash
    return reader(rows) if rows else []


def _as_it_is(value: bytes | str | None) -> str | None:
    """Decodes what is not UTF-8 with U+FFFD, and leaves other types as they are: one row that was spoilt by SQL from
    outside, or a column that was changed to text, must not make all other rows unreadable."""
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
            # As `_make`, without a call of a Python function for each row.
            return list(map(_new, repeat(row), plain))
        if row in (int, bytes, str):
            return [value for (value,) in plain]
        return list(starmap(row, plain))

    return made

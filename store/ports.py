"""The interfaces between the store's functions and its two backends: a transaction, a guest and a backend.

Everything the store does is written once, as plain `async` functions over a `Transaction` (see `publishing`,
`timers`, `claims`, ...). A backend runs such a function in a transaction of its own. On MySQL each query is awaited; on
SQLite no query suspends, and the writer thread runs the function to its end in one go. So the functions await nothing
but the transaction. They may run again from the start when the backend meets a deadlock or loses its connection.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from .migrations import Applied
from .rows import R

T = TypeVar("T")

Value = int | bytes | float | None
"""What a column holds. Text is kept as UTF-8 bytes, times as Unix milliseconds."""

Bound = Value | Sequence[Value] | Sequence[Sequence[Value]]
"""What a placeholder takes."""


class Offsets(Protocol):
    """The offsets of the rows that an `append` inserted."""

    def begin(self, queue_id: int) -> int:
        """The first offset in this queue; known once the transaction is committed."""
        ...

    def written(self, text: Sequence[bytes | tuple[int, int]]) -> Any:
        """A value for a later statement of the transaction: a text with offsets in it, each given as a queue's id and
        the number of its row in that queue."""
        ...


class Asked(Generic[R]):
    """A SELECT, the type of its rows (see `rows`) and its values; and its rows, after `fetch_all` has run it."""

    def __init__(self, query: str, row: type[R], *values: Bound) -> None:
        self.query = query
        self.row = row
        self.values = values
        self.rows: list[R] = []


class Queries(Protocol):
    """Runs queries in one open transaction, by their names (see `queries`). The transaction may be a user's own (see
    `outbox`)."""

    async def fetch(self, query: str, row: type[R], /, *values: Bound) -> list[R]:
        """The rows of a SELECT, each a `row`; see `rows`."""
        ...

    async def execute(self, query: str, *values: Bound) -> int:
        """Runs a statement; returns how many rows it matched."""
        ...

    async def execute_many(self, query: str, rows: Sequence[Sequence[Value]]) -> int:
        """Inserts the rows in as few statements as fit; returns how many rows were inserted."""
        ...


class Transaction(Queries, Protocol):
    """One open transaction of the service."""

    async def fetch_all(self, queries: Sequence[Asked[Any]]) -> None:
        """Runs several SELECTs in order, without a wait in between; each then has its rows. The text of all but the
        last must be short."""
        ...

    async def later(self, query: str, *values: Bound) -> None:
        """Runs a statement without waiting for its result: in its place among the others, at the latest with the
        COMMIT. If something is wrong, the transaction fails."""
        ...

    async def later_exactly(self, many: int, query: str, *values: Bound) -> None:
        """Runs a statement as `later` does; the transaction fails unless it matches exactly `many` rows."""
        ...

    async def later_many(self, query: str, rows: Sequence[Sequence[Value]]) -> None:
        """Inserts the rows without waiting for the result, as `later` does."""
        ...

    async def later_each(self, query: str, rows: Sequence[Sequence[Value]]) -> None:
        """Runs an UPDATE by key for each of these rows, many together, as `later` does. The transaction fails unless
        every row is found. Each key may come only once."""
        ...

    async def note(self) -> None:
        """Makes the database commit this transaction as a writing one, though it may write nothing. That proves that
        its reads are current: a server that was replaced by another may not know it yet and read old data, but it can
        commit nothing."""
        ...

    async def draw_elsewhere(self, counts: Mapping[int, int]) -> dict[int, int]:
        """Draws this many offsets for each of the queues that is sequenced elsewhere than by its own row. Returns the
        first offset of each."""
        ...

    async def append(self, query: str, rows: Mapping[int, Sequence[Sequence[Value]]], *, straight: bool) -> Offsets:
        """Draws an offset for each row and inserts the row with (queue_id, offset) in front, as `later` does; once per
        transaction. `rows` are given by the id of their queue.

        A row begins with the message's id and nonce. The sequences are locked in the order of their ids, and the rows
        are serialized before the first lock. `straight`: the messages never waited, and the queues count them.
        """
        ...


Work = Callable[[Transaction], Coroutine[Any, Any, T]]


class Guest(Protocol):
    """What a program other than the server may do with an existing store: `opening.open_guest`. Every method may raise
    the errors of `store.errors`."""

    async def write(self, work: Work[T]) -> T:
        """Runs `work` in a transaction and commits it; a deadlock runs it again, up to five runs in all.

        When the answer to COMMIT is lost, the backend finds out whether the transaction was committed: if so, its
        result is returned, else `work` runs again. So anything that `work` changes outside of the transaction must be
        made anew in each run. Raises `OutcomeUnknown` when the backend cannot find out.
        """
        ...

    async def read(self, work: Work[T]) -> T:
        """Runs `work` without locks; each query sees what was committed when that query began."""
        ...

    async def now(self) -> int:
        """The database's clock, Unix milliseconds; never later than the moment of the answer."""
        ...

    async def applied(self) -> Applied:
        """The migrations that were applied to the database; none when there is no schema yet."""
        ...

    async def aclose(self) -> None:
        """Ends running work and releases files, threads and connections."""
        ...


class Backend(Guest, Protocol):
    """A database. Closed with `aclose`; every method may raise the errors of `store.errors`.

    What has a body here is for a database in this process, which has no server, no sessions and no settings.
    """

    async def write(self, work: Work[T], *, heavy: bool = False) -> T:
        """As a guest's. `heavy`: `work` takes long; where there is one writer, other waiting transactions go first."""
        ...

    async def note(self, work: Work[T]) -> T:
        """Runs `work` with each statement committed by itself, beside all other transactions: for work that may be done
        twice or in part and must not wait its turn."""
        ...

    async def exact_now(self) -> float:
        """As `now`, with fractions of a millisecond."""
        ...

    @property
    def shared(self) -> bool:
        """Whether other servers may use this database at the same time."""
        return False

    def waited_for(self) -> bool:
        """Whether other transactions wait for the heavy work that asks, so that it should end at the next point where
        its result is complete. Always False where transactions run beside each other."""
        return False

    @property
    def server(self) -> str:
        """The unique name of the server that has the database now; empty where there can be only one. A transaction
        that was begun on one server is never written to another: it fails."""
        return ""

    def admit(self, server: str) -> None:
        """Says that what the process knows in memory came from this server. From the first call on, `write` raises
        `Unavailable` while another server has the database, since its numbers and its clock may differ."""
        return

    async def agree(self) -> None:
        """Makes all nodes write to the same server of a cluster in which every server takes writes. To be called each
        second, beginning before the first write."""
        return

    async def rivals(self) -> list[str]:
        """The hosts at which another server takes writes at the same time, as far as known; each call checks one more
        host."""
        return []

    def skew(self) -> int:
        """How many milliseconds the host's clock is ahead of the store's clock, which was set from it at the start.

        0 where the database has a clock of its own.
        """
        return 0

    async def migrate(self) -> list[str]:
        """Brings the schema to this program's version; returns the names of the migrations applied.

        Raises `SchemaError` when the schema needs a newer program, when a migration was changed after it was applied,
        and when a migration needs newer servers than those that are running.
        """
        ...

    def sequence(self, topic_queues: Sequence[int], *, by_redis: bool) -> None:
        """Sets where the offsets of a topic's queues are drawn. Raises `Refused` where there is no choice."""
        ...

    async def reseat(self, ends: Mapping[int, int]) -> list[int]:
        """Tells sequencers outside of the database which offsets are taken: `ends` has the next free one of each queue.
        Returns the queues that have no such sequencer."""
        return list(ends)

    async def durability(self) -> list[str]:
        """The settings under which an acknowledged publish can be lost, one sentence each; empty when all is well."""
        return []

    async def room(self) -> tuple[int, int] | None:
        """How many sessions one process may open, and how many the database allows in all; None where there is no
        limit."""
        return None

    async def advice(self) -> list[str]:
        """Settings that cost only time, one sentence each with what to do; empty when all is well."""
        return []

    async def faults(self) -> list[tuple[str, str]]:
        """Faults that would stop a start, the work after it, or a later migration: for each what was checked, `server`,
        `tables` or `rights`, and a sentence with what to do. Changes nothing."""
        return []

    async def longest_statement(self) -> int | None:
        """How many bytes a statement may have; a message and its attributes must fit into one. None: no limit."""
        return None

    async def largest_transaction(self) -> int | None:
        """How many bytes a transaction may write; None: no limit."""
        return None

    def statistics(self) -> dict[str, int]:
        """The backend's own counters, for `/metrics` and the tests."""
        ...

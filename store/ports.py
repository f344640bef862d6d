"""The seam of the store: what a backend gives, and all that it gives.

Everything the store does is written once, as plain `async` functions over a `Transaction` (see `publishing`,
`timers`, `claims`, ...). A backend runs such a function in a transaction of its own. On MySQL each query is awaited; on
SQLite none ever suspends, and the writer thread drives the function to its end in one go. So the functions await
nothing but the transaction, and may be run again from the start when the backend meets a deadlock or a lost connection.
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
    """Where the rows of an `append` lie."""

    def begin(self, queue_id: int) -> int:
        """The first of a queue, once the transaction is committed."""
        ...

    def written(self, text: Sequence[bytes | tuple[int, int]]) -> Any:
        """A text with offsets in it, each given as the id of a queue and which of its rows, for a statement behind the
        `append`."""
        ...


class Asked(Generic[R]):
    """A SELECT, what a row of it is (see `rows`), and its values; and its rows, when `fetch_all` has asked it."""

    def __init__(self, query: str, row: type[R], *values: Bound) -> None:
        self.query = query
        self.row = row
        self.values = values
        self.rows: list[R] = []


class Queries(Protocol):
    """Queries of one open transaction, by their names (see `queries`). It may be a user's own (see `outbox`)."""

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
    """One open transaction of the service's."""

    async def fetch_all(self, queries: Sequence[Asked[Any]]) -> None:
        """Several SELECTs, run in order without a wait in between; each then has its rows. All but the last ask in few
        bytes."""
        ...

    async def later(self, query: str, *values: Bound) -> None:
        """Runs a statement, in its place, whose outcome nobody waits for: at the latest with the COMMIT. What it does
        when something is wrong is to fail."""
        ...

    async def later_exactly(self, many: int, query: str, *values: Bound) -> None:
        """Runs a statement `later`; the transaction fails unless it matches so many rows."""
        ...

    async def later_many(self, query: str, rows: Sequence[Sequence[Value]]) -> None:
        """Inserts the rows; nobody waits for it, as with `later`."""
        ...

    async def later_each(self, query: str, rows: Sequence[Sequence[Value]]) -> None:
        """Runs an UPDATE of one row by its key for each of these, as `later`: many together. The transaction fails
        unless it finds them all; each key comes once."""
        ...

    async def note(self) -> None:
        """Has the database commit this transaction as one that writes, though it may write nothing. So what it says is
        true: a server that another has taken over from may not know yet, and reads what was; it can commit nothing."""
        ...

    async def draw_elsewhere(self, counts: Mapping[int, int]) -> dict[int, int]:
        """So many offsets of those among the queues that are not sequenced by their own rows; where each begins."""
        ...

    async def append(self, query: str, rows: Mapping[int, Sequence[Sequence[Value]]], *, straight: bool) -> Offsets:
        """Draws an offset for each row by its queue's id, and inserts it behind (queue_id, offset); once, and `later`.

        A row begins with the message's id and nonce. The sequences are locked in the order of their ids, and the rows
        are written out before the first lock. `straight`: the messages never waited, and the queues count them.
        """
        ...


Work = Callable[[Transaction], Coroutine[Any, Any, T]]


class Guest(Protocol):
    """What a program beside the server does with a store that is there: `opening.open_guest`. Every method may raise
    the errors of `store.errors`."""

    async def write(self, work: Work[T]) -> T:
        """Runs `work` in a transaction and commits it; a deadlock runs it again, up to five runs in all.

        When the answer to COMMIT is lost, the backend finds out whether the transaction landed: then its result stands,
        else `work` runs again. So what `work` changes outside of the transaction it must make anew in each run.
        `OutcomeUnknown` when nobody can tell.
        """
        ...

    async def read(self, work: Work[T]) -> T:
        """Runs `work` outside any lock; each query sees what was committed when it began."""
        ...

    async def now(self) -> int:
        """The database's clock, Unix milliseconds; never ahead of the moment of the answer."""
        ...

    async def applied(self) -> Applied:
        """The migrations that the database has; none when there is no schema yet."""
        ...

    async def aclose(self) -> None:
        """Ends what is in flight and lets go of files, threads and connections."""
        ...


class Backend(Guest, Protocol):
    """A database. Closed with `aclose`; every method may raise the errors of `store.errors`."""

    async def write(self, work: Work[T], *, heavy: bool = False) -> T:
        """As a guest's. `heavy`: it takes long, and where there is one writer those that wait go first."""
        ...

    async def note(self, work: Work[T]) -> T:
        """Runs `work` whose statements are committed one by one, beside all others: for what may be done twice, or in
        part, and must not wait in a line."""
        ...

    async def exact_now(self) -> float:
        """`now` with the fraction of its millisecond."""
        ...

    @property
    def shared(self) -> bool:
        """Whether other servers may work on it at the same time."""
        ...

    def waited_for(self) -> bool:
        """Whether the heavy work that asks keeps others waiting: it may end where what it has done stands by itself.
        Never where transactions run beside each other."""
        ...

    @property
    def server(self) -> str:
        """Which server has the database now, by a name that no other has; empty where there can be but one. A
        transaction that was begun with one is not written to another, but fails."""
        ...

    def admit(self, server: str) -> None:
        """What is in memory is this server's. From the first call on `write` is refused as `Unavailable` while another
        has the database: its numbers, and its clock, may be other ones."""
        ...

    async def agree(self) -> None:
        """Sees to it that all servers write to one and the same of a cluster whose servers all take writes; to be
        called each second, from before the first write on."""
        ...

    async def rivals(self) -> list[str]:
        """The hosts at which another server takes writes at the same time, as far as it has looked; each call looks at
        one more."""
        ...

    def skew(self) -> int:
        """By how many milliseconds the host's clock is ahead of where it was when the store's time began with it.

        0 where the database has a clock of its own.
        """
        ...

    async def migrate(self) -> list[str]:
        """Brings the schema to this program's version; returns the names of the migrations applied.

        Raises `SchemaError` when the schema wants a newer program, when a migration was changed after it was applied,
        and when one wants newer servers than are at work.
        """
        ...

    def sequence(self, topic_queues: Sequence[int], *, by_redis: bool) -> None:
        """Says who draws the offsets of a topic's queues. Raises `Refused` where there is no choice."""
        ...

    async def reseat(self, ends: Mapping[int, int]) -> list[int]:
        """Tells a sequencer elsewhere of offsets that are taken; returns those among the queues that have none."""
        ...

    async def durability(self) -> list[str]:
        """Under which settings an acknowledged publish can be lost, one sentence each; empty when all is well."""
        ...

    async def room(self) -> tuple[int, int] | None:
        """How many sessions one process may have, and how many the database lets in, of all; None where nobody
        counts."""
        ...

    async def advice(self) -> list[str]:
        """Which settings cost time and nothing else, one sentence each with what to do; empty when all is well."""
        ...

    async def faults(self) -> list[tuple[str, str]]:
        """What a start would stop at, or the work behind it, or migrations that are to come: of each what was looked
        at, `server`, `tables` or `rights`, and a sentence with what to do. Changes nothing."""
        ...

    async def longest_statement(self) -> int | None:
        """Bytes that the database takes at once, which a message and what else goes with it must fit into; None where
        there is no end."""
        ...

    async def largest_transaction(self) -> int | None:
        """Bytes that a transaction may write; None where there is no end."""
        ...

    def statistics(self) -> dict[str, int]:
        """Counts of the backend's own, for `/metrics` and the tests."""
        ...

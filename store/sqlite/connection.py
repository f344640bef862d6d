"""One connection to the embedded store's file, and transactions over it. Used by one thread at a time."""

import sqlite3
from collections.abc import Coroutine, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from attrs import frozen

from ..errors import StoreError, TopicGone
from ..ports import Asked, Bound, Offsets, Transaction, Value
from ..rows import R, read
from .errors import translate
from .statements import bind, draw, insert

T = TypeVar("T")

_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",  # an acknowledged commit survives power loss, if the disk does not lie
    "PRAGMA cache_size = -65536",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA busy_timeout = 2000",
    "PRAGMA ignore_check_constraints = ON",  # those of `types`: Tarry itself writes integers and bytes only
)


def connect(path: Path) -> sqlite3.Connection:
    """A connection in autocommit mode: transactions are begun and ended by statements."""
    try:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
        connection.text_factory = bytes  # a TEXT that others wrote is read as its bytes, as all columns are
        for pragma in _PRAGMAS:
            connection.execute(pragma)
    except sqlite3.Error as error:
        raise translate(error) from error
    return connection


_MANY, _FEW = 128, 32
"""Rows of one INSERT: `_MANY`, or at most `_FEW`. With each INSERT the thread releases the interpreter's lock, and
waits behind the event loop to get it back; and each number of rows is a statement of its own, which is cached."""


class SQLiteTransaction(Transaction):
    """A transaction whose methods never suspend."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def fetch(self, query: str, row: type[R], /, *values: Bound) -> list[R]:
        text, parameters = bind(query, values)
        try:
            return read(row, self._connection.execute(text, parameters).fetchall())
        except (sqlite3.Error, OverflowError) as error:
            raise translate(error) from error

    async def execute(self, query: str, *values: Bound) -> int:
        text, parameters = bind(query, values)
        try:
            return self._connection.execute(text, parameters).rowcount
        except (sqlite3.Error, OverflowError) as error:
            raise translate(error) from error

    async def execute_many(self, query: str, rows: Sequence[Sequence[Value]]) -> int:
        width, many, begin = len(rows[0]), 0, 0
        try:
            while left := len(rows) - begin:
                together = _MANY if left >= _MANY else min(left, _FEW)
                values = list(chain.from_iterable(rows[begin : begin + together]))
                many += self._connection.execute(insert(query, width, together), values).rowcount
                begin += together
        except (sqlite3.Error, OverflowError) as error:
            raise translate(error) from error
        return many

    async def fetch_all(self, queries: Sequence[Asked[Any]]) -> None:
        for asked in queries:
            asked.rows = await self.fetch(asked.query, asked.row, *asked.values)

    async def later(self, query: str, *values: Bound) -> None:
        """Runs a statement at once: there is no network to save round trips on."""
        await self.execute(query, *values)

    async def later_exactly(self, many: int, query: str, *values: Bound) -> None:
        got = await self.execute(query, *values)
        if got != many:
            raise StoreError(f"{query} matched {got} rows in place of {many}; the transaction is rolled back")

    async def later_many(self, query: str, rows: Sequence[Sequence[Value]]) -> None:
        await self.execute_many(query, rows)

    async def later_each(self, query: str, rows: Sequence[Sequence[Value]]) -> None:
        for row in rows:
            await self.later_exactly(1, query, *row)

    async def note(self) -> None:
        """Does nothing: one server alone uses the file."""

    async def draw_elsewhere(self, counts: Mapping[int, int]) -> dict[int, int]:
        """Draws nothing: every queue here is sequenced by its own row."""
        del counts
        return {}

    async def append(self, query: str, rows: Mapping[int, Sequence[Sequence[Value]]], *, straight: bool) -> "_Drawn":
        begins = dict[int, int]()
        placed: list[Sequence[Value]] = []
        for queue_id, some in rows.items():
            begins[queue_id] = begin = self._draw(queue_id, len(some), straight=straight)
            placed += [(queue_id, offset, *row) for offset, row in enumerate(some, begin)]
        await self.execute_many(query, placed)
        return _Drawn(begins)

    def _draw(self, queue_id: int, many: int, *, straight: bool) -> int:
        """Draws `many` offsets of a queue; returns the first."""
        try:
            found = self._connection.execute(draw(), (many, many if straight else 0, queue_id)).fetchall()
        except (sqlite3.Error, OverflowError) as error:
            raise translate(error) from error
        if not found:
            raise TopicGone("a queue is not there any more")
        end: int = found[0][0]
        return end - many


@frozen
class _Drawn(Offsets):
    """Offsets that are known at once."""

    _begins: dict[int, int]

    def begin(self, queue_id: int) -> int:
        return self._begins[queue_id]

    def written(self, text: Sequence[bytes | tuple[int, int]]) -> bytes:
        return b"".join([one if isinstance(one, bytes) else b"%d" % (self._begins[one[0]] + one[1]) for one in text])


def drive(work: Coroutine[Any, Any, T]) -> T:
    """Runs a function over a SQLite transaction to its end; one step is enough, since it never suspends."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # a coroutine's result comes as StopIteration.value
    work.close()
    raise RuntimeError("a function over a transaction awaited something other than the transaction")

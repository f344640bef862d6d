"""Counts the statements that a call of the store takes, in real transactions."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast
from unittest.mock import patch

import attrs

from tarry.store.ports import Asked, Bound, Transaction, Work
from tarry.store.rows import R
from tarry.store.store import Store

T = TypeVar("T")


@attrs.define
class Count:
    """The statements since the count began; statements sent together are counted one by one."""

    statements: list[str] = attrs.field(factory=list[str])
    rows: int = 0
    """How many rows they returned."""


class _Counted:
    """A transaction that notes its statements."""

    def __init__(self, tx: Transaction, count: Count) -> None:
        self._tx = tx
        self._count = count

    async def fetch(self, query: str, row: type[R], /, *values: Bound) -> list[R]:
        self._count.statements.append(query)
        rows = await self._tx.fetch(query, row, *values)
        self._count.rows += len(rows)
        return rows

    async def fetch_all(self, queries: Sequence[Asked[Any]]) -> None:
        self._count.statements += [asked.query for asked in queries]
        await self._tx.fetch_all(queries)
        self._count.rows += sum(len(asked.rows) for asked in queries)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} of a transaction that only reads")


@asynccontextmanager
async def counted(store: Store) -> AsyncIterator[Count]:
    """Counts the statements of the store's reads within the block."""
    count = Count()
    backend, read = store.backend, store.backend.read

    async def counting(work: Work[T]) -> T:
        async def run(tx: Transaction) -> T:
            return await work(cast("Transaction", _Counted(tx, count)))

        return await read(run)

    with patch.object(backend, "read", counting):
        yield count

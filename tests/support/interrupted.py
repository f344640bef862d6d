"""A store where another server does something between two statements."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, cast

import trio
from attrs import define, field

from tarry.store.ports import Transaction
from tarry.store.store import Store

_HELD = 0.2
"""Seconds after which what is done meanwhile seems to wait for a lock of ours, and goes on by itself."""


@define(eq=False)
class InterruptedStore(Store):
    """Behind the statement of this number, counted from 1 over all reads, something is done once. With a `nursery` over
    all writes as well: there it may wait for a lock of ours, and is not waited for."""

    behind: int = field(default=0, kw_only=True)
    meanwhile: Callable[[], Awaitable[object]] | None = field(default=None, kw_only=True)
    nursery: trio.Nursery | None = field(default=None, kw_only=True)
    statements: int = field(default=0, init=False)

    async def read(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        return await self.backend.read(self._seen(function, *args, **kwargs))

    async def write(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        if self.nursery is None:
            return await self.backend.write(lambda tx: function(tx, *args, **kwargs))
        return await self.backend.write(self._seen(function, *args, **kwargs))

    def _seen(self, function: Any, *args: Any, **kwargs: Any) -> Callable[[Transaction], Coroutine[Any, Any, Any]]:
        return lambda tx: function(cast(Transaction, _Interrupted(tx, self)), *args, **kwargs)

    async def count(self) -> None:
        """One statement more is answered."""
        self.statements += 1
        if self.statements != self.behind or self.meanwhile is None:
            return
        if self.nursery is None:
            await self.meanwhile()
            return
        done = trio.Event()
        self.nursery.start_soon(self._do, self.meanwhile, done)
        with trio.move_on_after(_HELD):
            await done.wait()

    async def _do(self, meanwhile: Callable[[], Awaitable[object]], done: trio.Event) -> None:
        await meanwhile()
        done.set()


class _Interrupted:
    """The statements of a transaction, each counted."""

    def __init__(self, tx: Transaction, store: InterruptedStore) -> None:
        self._tx = tx
        self._store = store

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        verb = getattr(self._tx, name)

        async def run(*args: Any, **kwargs: Any) -> Any:
            done = await verb(*args, **kwargs)
            await self._store.count()
            return done

        return run

"""A store that lets a test do something, as another server, between two statements."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, cast

import trio
from attrs import define, field

from tarry.store.ports import Transaction
from tarry.store.store import Store

_HELD = 0.2
"""Seconds after which the interruption seems to wait for a lock of this transaction, which then goes on."""


@define(eq=False)
class InterruptedStore(Store):
    """Calls `meanwhile` once, after statement number `behind`, counted from 1 over all reads. With a `nursery` it
    counts writes, too; there `meanwhile` may wait for a lock of this transaction, and is not waited for."""

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
        """Counts an answered statement, and interrupts if it is the one."""
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
    """A transaction that counts each of its statements."""

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

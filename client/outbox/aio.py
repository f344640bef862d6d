"""The outbox over asynchronous cursors: trio-mysql, aiomysql, asyncmy, and others whose `execute` is awaited.

from tarry.client.outbox import aio
await aio.publish(cursor, "orders", {"order": 7}, delay="30m")
"""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from inspect import isawaitable
from typing import Any, Unpack

from anyio import CancelScope, move_on_after

from ..durations import Duration
from ..records import Claim, Draft, Fields, Message, Named, Receipt, Timer, TimerFields
from ..stock import PATIENCE
from ..timers import Mode
from . import guards
from .box import Steps
from .cursors import AsyncCursor
from .settling import AsyncConnection, DoneBefore, NoCursor


class AsyncOutbox(Steps):
    """`Outbox`, awaited. Its methods do and raise the same."""

    async def publish(self, cursor: AsyncCursor, topic: str, body: Any, **fields: Unpack[Fields]) -> Receipt:
        """Publishes a message; see `Outbox.publish`."""
        (receipt,) = await self._publish(self._tx(cursor), topic, [Draft(body=body, **fields)])
        return receipt

    async def publish_many(
        self, cursor: AsyncCursor, topic: str, messages: Iterable[Draft | dict[str, Any]]
    ) -> list[Receipt]:
        """Publishes drafts, or dicts of a draft's fields; see `Outbox.publish_many`."""
        return await self._publish(self._tx(cursor), topic, messages)

    async def cancel(
        self,
        cursor: AsyncCursor,
        *,
        id: Named | None = None,  # noqa: A002 - the contract's word
        topic: str | None = None,
        key: str | None = None,
    ) -> list[str]:
        """Cancels one message, or all that wait under a key; see `Outbox.cancel`."""
        return await self._cancel(self._tx(cursor), id, topic, key)

    async def set_timer(
        self,
        cursor: AsyncCursor,
        topic: str,
        key: str,
        body: Any,
        *,
        mode: Mode = "replace",
        max_wait: Duration | None = None,
        **fields: Unpack[TimerFields],
    ) -> Timer:
        """Sets the timer of a key; see `Outbox.set_timer`."""
        draft = Draft(body=body, key=key, **fields)
        return await self._set_timer(self._tx(cursor), topic, draft, mode, max_wait)

    async def cancel_timer(self, cursor: AsyncCursor, topic: str, key: str) -> str:
        """Cancels the message of a key; see `Outbox.cancel_timer`."""
        return await self._cancel_timer(self._tx(cursor), topic, key)

    async def ack(self, cursor: AsyncCursor, message: Message, *, claim: Claim | str | None = None) -> None:
        """Settles a claimed message; see `Outbox.ack`."""
        await self._ack(self._tx(cursor), message, claim)

    async def once(
        self, cursor: AsyncCursor, message: Message, *, key: str | None = None, group: str | None = None
    ) -> bool:
        """False when its work was done before; see `Outbox.once`."""
        return await self._once(self._tx(cursor), message, key, group)

    @asynccontextmanager
    async def settle(
        self,
        connection: AsyncConnection,
        message: Message,
        *,
        key: str | None = None,
        group: str | None = None,
        claim: Claim | str | None = None,
    ) -> AsyncGenerator[Any, None]:
        """`once`, your work and `ack` in one transaction, in an `async with`; see `Outbox.settle`.

        Cancelled, it is rolled back, also where all else is cancelled; a commit that has begun is waited for.
        """
        cursor = connection.cursor()
        if isawaitable(cursor):
            cursor = await cursor
        try:
            first = await self._begin(self._tx(cursor), message, key, group)
            with suppress(DoneBefore):
                yield cursor if first else NoCursor()
            await self.ack(cursor, message, claim=claim)
            with CancelScope(shield=True):
                await connection.commit()
        except BaseException:
            with suppress(Exception), move_on_after(PATIENCE, shield=True):
                await connection.rollback()
            raise
        finally:
            with suppress(Exception):
                closed = (getattr(cursor, "aclose", None) or cursor.close)()
                if isawaitable(closed):
                    await closed

    async def prepare(self, cursor: AsyncCursor) -> None:
        """Makes the guard table. It commits the transaction; see `Outbox.prepare`."""
        await guards.prepare(self._tx(cursor))

    async def forget(self, cursor: AsyncCursor, older_than: Duration = "28d", limit: int = 10_000) -> int:
        """Removes old guards; see `Outbox.forget`."""
        return await self._forget(self._tx(cursor), older_than, limit)


_default = AsyncOutbox()

publish = _default.publish
publish_many = _default.publish_many
cancel = _default.cancel
set_timer = _default.set_timer
cancel_timer = _default.cancel_timer
ack = _default.ack
once = _default.once
settle = _default.settle
prepare = _default.prepare
forget = _default.forget

__all__ = [
    "AsyncOutbox",
    "ack",
    "cancel",
    "cancel_timer",
    "forget",
    "once",
    "prepare",
    "publish",
    "publish_many",
    "set_timer",
    "settle",
]

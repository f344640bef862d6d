"""The outbox over asynchronous cursors: trio-mysql, aiomysql, asyncmy, and others whose `execute` is awaited.

from tarry.client.outbox import aio
await aio.publish(cursor, "orders", {"order": 7}, delay="30m")
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from inspect import isawaitable
from typing import Any

from anyio import CancelScope, move_on_after

from ..fronts import Awaited
from ..records import Claim, Message
from ..stock import PATIENCE
from .box import OutboxCalls
from .cursors import AsyncCursor, CursorTransaction
from .settling import AsyncConnection, DoneBefore, NoCursor


class AsyncOutbox(OutboxCalls[AsyncCursor], Awaited):
    """`Outbox` with awaited methods, which do and raise the same."""

    def _tx(self, cursor: AsyncCursor) -> CursorTransaction:
        return CursorTransaction(cursor, self.database)

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

        If it is cancelled, it rolls back, even in a cancelled scope; a commit that has begun is waited for.
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

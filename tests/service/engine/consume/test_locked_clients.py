"""The row of a client that somebody holds: the others' signs of life are written, and it is not taken for dead."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import cast

import trio

from support.hand_time import HandTime
from support.stores import connect_raw, open_tables, row_lock_waits
from support.waiting import wait_until
from tarry.service.engine.consume.groups import Groups
from tarry.service.engine.consume.liveness import Liveness
from tarry.store.groups import clients
from tarry.store.mysql.backend import MySQLBackend
from tarry.store.records import ClaimKey
from tarry.store.store import Store

TIMEOUT = 15_000


class World(HandTime):
    def __init__(self, dsn: str) -> None:
        super().__init__()
        self.dsn = dsn
        self.dismissed: list[str] = []

    async def dismiss(self, client: str, _: Sequence[ClaimKey]) -> None:
        self.dismissed.append(client)

    @asynccontextmanager
    async def server(self) -> AsyncGenerator[Liveness, None]:
        await self.clock.take()
        backend = MySQLBackend(self.dsn)
        await backend.migrate()
        liveness = Liveness(Store(backend), self.clock, cast(Groups, self), TIMEOUT)
        await liveness.look()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(liveness.run)
            yield liveness
            nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await backend.aclose()


async def test_a_client_lives_whose_row_was_held_for_longer_than_its_time_out(mysql_dsn: str) -> None:
    world = World(mysql_dsn)
    tables = open_tables(mysql_dsn)
    async with world.server() as here, world.server() as there:
        for name in ("ann", "bob", "dead"):
            await here.renew(name)
        async with here.polling("ann"), here.polling("bob"):
            with connect_raw(mysql_dsn) as other, other.cursor() as cursor:
                cursor.execute("SELECT * FROM client WHERE name = 'ann' FOR UPDATE")
                for _ in range(10):
                    world.ms += TIMEOUT // 3
                    await here.look_after()
                    await there.look_after()
                    bob = there.watched("bob")
                    assert bob is not None
                    assert bob[1] >= world.ms - TIMEOUT // 3
                assert world.dismissed == ["dead"]
                # A wait that has just begun is there when the lock goes.
                waits = row_lock_waits(tables)
                await trio.to_thread.run_sync(wait_until, lambda: row_lock_waits(tables) > waits)
                other.rollback()
            # The other server is the first to look. It knows nothing of her since the lock.
            await there.look_after()
            with trio.fail_after(10):
                while (await here._store.read(clients.all_watched))["ann"].renewed_at < world.ms:
                    await there.look_after()
    assert world.dismissed == ["dead"]
    tables.close()

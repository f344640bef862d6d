from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
import trio.testing

from support import servers
from tarry.store.errors import DuplicateKey, Unavailable
from tarry.store.mysql.connection import Connection
from tarry.store.mysql.dsn import Dsn
from tarry.store.mysql.hosts import Hosts
from tarry.store.mysql.pool import Pool

PING = b"\x01\0\0\0\x0e"


@asynccontextmanager
async def pool_of(dsn: Dsn, size: int = 2, *, write: bool = True, connect_timeout: float = 5.0) -> AsyncIterator[Pool]:
    pool = Pool(Hosts(dsn, timeout=connect_timeout), size=size, write=write)
    try:
        yield pool
    finally:
        await pool.aclose()


async def kill(dsn: str, connection: Connection) -> None:
    servers.run_sql(dsn, f"KILL CONNECTION {connection.id}")
    # The server answers the KILL before the session has gone.
    await servers.until(connection.is_stale)


async def test_a_connection_is_used_again(dsn: Dsn) -> None:
    async with pool_of(dsn) as pool:
        async with pool.connection() as first:
            assert await first.fetch(b"SELECT 1") == [(1,)]
            assert pool.statistics() == {"size": 2, "in_use": 1, "idle": 0, "waiting": 0, "made": 1, "dropped": 0}
        async with pool.connection() as second:
            assert second is first
        assert pool.statistics() == {"size": 2, "in_use": 0, "idle": 1, "waiting": 0, "made": 1, "dropped": 0}
    assert first.closed
    assert pool.statistics() == {"size": 2, "in_use": 0, "idle": 0, "waiting": 0, "made": 1, "dropped": 1}


class Rounds(trio.abc.Instrument):
    """Of the event loop."""

    seen = 0

    def before_io_wait(self, timeout: float) -> None:
        del timeout
        self.seen += 1


async def test_a_connection_at_rest_is_handed_out_at_once(dsn: Dsn) -> None:
    """Without a round of the event loop, of which each costs every publish something."""
    async with pool_of(dsn) as pool:
        async with pool.connection():
            pass
        rounds = Rounds()
        trio.lowlevel.add_instrument(rounds)
        async with pool.connection():
            assert rounds.seen == 0
        trio.lowlevel.remove_instrument(rounds)


async def test_who_comes_first_is_served_first(dsn: Dsn) -> None:
    served: list[int] = []

    async def take(pool: Pool, number: int) -> None:
        async with pool.connection():
            served.append(number)
            await trio.lowlevel.checkpoint()

    async with pool_of(dsn, 1) as pool, trio.open_nursery() as nursery, pool.connection():
        for number in range(5):
            nursery.start_soon(take, pool, number)
            await trio.testing.wait_all_tasks_blocked()
        assert pool.statistics()["waiting"] == 5
    assert served == [0, 1, 2, 3, 4]
    assert pool.statistics()["made"] == 1


async def test_no_more_than_its_size(dsn: Dsn) -> None:
    busy = most = 0

    async def take(pool: Pool) -> None:
        nonlocal busy, most
        async with pool.connection() as connection:
            busy += 1
            most = max(most, busy)
            await connection.fetch(b"SELECT SLEEP(0.01)")
            busy -= 1

    async with pool_of(dsn, 3) as pool, trio.open_nursery() as nursery:
        for _ in range(12):
            nursery.start_soon(take, pool)
    assert most == 3
    assert pool.statistics()["made"] == 3


@pytest.mark.parametrize("write", [True, False])
async def test_the_kind_of_session(dsn: Dsn, write: bool) -> None:
    async with pool_of(dsn, write=write) as pool, pool.connection() as connection:
        assert await connection.fetch(b"SELECT @@wait_timeout") == [(2 if write else 600,)]


async def test_a_block_that_raised_costs_its_connection(dsn: Dsn) -> None:
    used: list[Connection] = []

    async def fail(pool: Pool) -> None:
        async with pool.connection() as connection:
            used.append(connection)
            await connection.execute(b"CREATE TABLE t (a INT PRIMARY KEY)")
            await connection.execute(b"INSERT INTO t VALUES (1), (1)")

    async with pool_of(dsn) as pool:
        with pytest.raises(DuplicateKey):
            await fail(pool)
        (connection,) = used
        assert connection.closed  # pyright: ignore[reportPossiblyUnboundVariable]  # the block was entered
        async with pool.connection() as other:
            assert other is not connection
            with pytest.raises(DuplicateKey):
                await other.execute(b"INSERT INTO t VALUES (1), (1)")
        async with pool.connection() as again:
            assert again is other


async def test_a_cancelled_block_costs_its_connection(dsn: Dsn) -> None:
    async with pool_of(dsn, 1) as pool:
        with trio.CancelScope() as scope:
            async with pool.connection() as connection:
                cut = connection
                scope.deadline = trio.current_time() + 0.05
                await connection.fetch(b"SELECT SLEEP(5)")
        assert cut.closed  # pyright: ignore[reportPossiblyUnboundVariable]  # the block was entered
        async with pool.connection() as other:
            assert await other.fetch(b"SELECT 1") == [(1,)]


async def test_who_is_cancelled_while_waiting_costs_nothing(dsn: Dsn) -> None:
    async with pool_of(dsn, 1) as pool:
        async with pool.connection():
            with trio.move_on_after(0.01):
                async with pool.connection():
                    pytest.fail("there is only one")
        async with pool.connection():
            assert pool.statistics() == {"size": 1, "in_use": 1, "idle": 0, "waiting": 0, "made": 1, "dropped": 0}


async def test_a_transaction_left_open_is_an_error(dsn: Dsn) -> None:
    async with pool_of(dsn) as pool:
        with pytest.raises(RuntimeError, match="commit or roll back"):
            async with pool.connection() as connection:
                await connection.begin()
        assert connection.closed  # pyright: ignore[reportPossiblyUnboundVariable]  # the block was entered


async def test_a_killed_connection_is_replaced_before_it_is_handed_out(mysql_dsn: str, dsn: Dsn) -> None:
    async with pool_of(dsn) as pool:
        async with pool.connection() as first, pool.connection() as second:
            pass
        await kill(mysql_dsn, first)
        await kill(mysql_dsn, second)
        async with pool.connection() as third:
            assert await third.fetch(b"SELECT 1") == [(1,)]
        assert third not in (first, second)
        assert pool.statistics() == {"size": 2, "in_use": 0, "idle": 1, "waiting": 0, "made": 3, "dropped": 2}


async def test_after_a_rest_a_connection_is_asked_first(line: servers.Line, mock_clock: trio.testing.MockClock) -> None:
    async with pool_of(Dsn.parse(line.dsn), write=False) as pool:
        async with pool.connection() as first:
            pass
        mock_clock.jump(1.9)
        async with pool.connection() as second:
            assert second is first
        assert not line.sent.endswith(PING)
        mock_clock.jump(2.1)
        async with pool.connection() as second:
            assert second is first
        assert line.sent.endswith(PING)


@pytest.mark.parametrize("how", ["cut", "silent"])
async def test_a_connection_that_does_not_answer_is_replaced(
    line: servers.Line, mock_clock: trio.testing.MockClock, how: str
) -> None:
    async with pool_of(Dsn.parse(line.dsn), write=False) as pool:
        async with pool.connection() as first:
            pass
        mock_clock.jump(2.1)
        got: list[Connection] = []

        async def take() -> None:
            async with pool.connection() as second:
                got.append(second)

        async with trio.open_nursery() as nursery:
            if how == "cut":
                line.cut_before = PING
            else:
                line.lose = PING
            nursery.start_soon(take)
            if how == "silent":
                await line.lost.wait()
                await trio.testing.wait_all_tasks_blocked()
                mock_clock.jump(5.1)
        assert got != [first]
        assert first.closed


async def test_a_long_rest_ends_a_connection(dsn: Dsn, mock_clock: trio.testing.MockClock) -> None:
    async with pool_of(dsn) as writers, pool_of(dsn, write=False) as readers:
        for pool in (writers, readers):
            async with pool.connection():
                pass
        # The server would end the writer's session after 2 s.
        mock_clock.jump(1.7)
        for pool, made in ((writers, 2), (readers, 1)):
            async with pool.connection() as connection:
                assert await connection.fetch(b"SELECT 1") == [(1,)]
            assert pool.statistics()["made"] == made


async def test_those_beyond_need_are_let_go(dsn: Dsn, mock_clock: trio.testing.MockClock) -> None:
    async with pool_of(dsn) as pool:
        async with pool.connection() as first, pool.connection() as second:
            pass
        for _ in range(3):
            mock_clock.jump(1.5)
            async with pool.connection() as third:
                assert third is first
        assert second.closed
        assert pool.statistics()["idle"] == 1


async def test_no_database(dsn: Dsn) -> None:
    async with pool_of(attrs.evolve(dsn, port=servers.free_port()), 1) as pool:
        for _ in range(3):
            with pytest.raises(Unavailable):
                async with pool.connection():
                    pytest.fail("there is none")
        assert pool.statistics() == {"size": 1, "in_use": 0, "idle": 0, "waiting": 0, "made": 0, "dropped": 0}


async def test_closing(dsn: Dsn) -> None:
    refused: list[Unavailable] = []

    async def wait(pool: Pool) -> None:
        with pytest.raises(Unavailable, match="pool is closed") as caught:
            async with pool.connection():
                pytest.fail("it is closed")
        refused.append(caught.value)

    pool = Pool(Hosts(dsn), size=1, write=True)
    async with trio.open_nursery() as nursery, pool.connection() as connection:
        nursery.start_soon(wait, pool)
        await trio.testing.wait_all_tasks_blocked()
        await pool.aclose()
        # What is in use is left to its user.
        assert await connection.fetch(b"SELECT 1") == [(1,)]
    assert connection.closed
    assert len(refused) == 1
    await pool.aclose()
    assert "geheim" not in repr(Pool(Hosts(attrs.evolve(dsn, password="geheim")), size=1, write=True))

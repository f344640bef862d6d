"""Whether a transaction landed is told by its witness, and not before its session can commit it no more."""

import itertools
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from support import servers
from support.in_one import in_one
from tarry.bench.proxy import Moment, Proxy
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.errors import OutcomeUnknown, Refused
from tarry.store.groups import holdings
from tarry.store.mysql.backend import MySQLBackend, MySQLTransaction
from tarry.store.mysql.connection import Connection
from tarry.store.mysql.redis_offsets import RedisOffsets
from tarry.store.mysql.witness import Witness, forget
from tarry.store.ports import Transaction
from tarry.store.records import ClaimKey, ClaimRequest, Settlement
from tarry.store.store import Store
from tarry.store.timers import timers

Open = Callable[..., Awaitable[Connection]]


@pytest.fixture
def still_clock() -> trio.testing.MockClock:
    """It is put on by hand alone."""
    return trio.testing.MockClock()


async def _write(connection: Connection) -> Witness:
    """A transaction that is ready for its COMMIT."""
    await connection.begin()
    tx = MySQLTransaction(connection, RedisOffsets(None))
    await tx.execute_many("client.put", [(b"c", 1, 1)])
    assert tx.witness is not None
    return tx.witness


async def _landed(connection: Connection, witness: Witness) -> bool:
    await connection.begin()
    landed = await witness.landed(MySQLTransaction(connection, RedisOffsets(None)))
    await connection.rollback()
    return landed


@in_one(("end", "first"), itertools.product(["commit", "rollback", "close", "kill"], [True, False]))
async def test_it_waits_for_the_end_of_the_session(
    backend: MySQLBackend, open_connection: Open, mysql_dsn: str, end: str, first: bool
) -> None:
    writer, asker = await open_connection(), await open_connection()
    if not first:
        await _write(writer)
        await writer.commit()
    witness = await _write(writer)
    answers: list[bool] = []

    async def ask() -> None:
        answers.append(await _landed(asker, witness))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        waits = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'INSERT INTO witness%'"
        await servers.until(lambda: servers.run_sql(mysql_dsn, waits) == [(1,)])
        assert not answers
        if end == "kill":
            servers.run_sql(mysql_dsn, f"KILL CONNECTION {writer.id}")
        elif end == "close":
            writer.close()
        else:
            await (writer.commit() if end == "commit" else writer.rollback())
    assert answers == [end == "commit"]


async def test_a_flight_that_comes_behind_the_answer_is_refused(
    backend: MySQLBackend, open_connection: Open, mysql_dsn: str
) -> None:
    """The row is noted in the very flight of the COMMIT, which may be on its way while somebody asks."""
    late, asker = await open_connection(), await open_connection()
    await late.begin()
    tx = MySQLTransaction(late, RedisOffsets(None))
    await tx.later_many("client.put", [(b"c", 1, 1)])
    assert tx.witness is not None
    await asker.begin()
    asking = MySQLTransaction(asker, RedisOffsets(None))
    assert not await tx.witness.landed(asking)
    await asking.commit()
    with pytest.raises(Refused):
        await tx.commit()
    await late.rollback()
    assert servers.run_sql(mysql_dsn, "SELECT COUNT(*) FROM client") == [(0,)]


async def test_a_session_is_known_by_its_own_number(backend: MySQLBackend, open_connection: Open) -> None:
    one, other, asker = [await open_connection() for _ in range(3)]
    first = await _write(one)
    await one.commit()
    second = await _write(other)
    await other.commit()
    assert first.session != second.session
    assert await _landed(asker, first)
    assert await _landed(asker, second)
    third = await _write(one)
    await one.rollback()
    assert await _landed(asker, first), "what was rolled back leaves the one before it"
    assert not await _landed(asker, third)


async def test_who_writes_nothing_has_none(backend: MySQLBackend, mysql_dsn: str) -> None:
    async def look(tx: Transaction) -> int:
        return len(await tx.fetch("queue.lock", tuple[int, int, int], [1, 2]))

    assert await backend.write(look) == 0
    assert servers.run_sql(mysql_dsn, "SELECT COUNT(*) FROM witness") == [(0,)]


async def test_what_is_long_over_is_forgotten(backend: MySQLBackend, connection: Connection, mysql_dsn: str) -> None:
    now = "UNIX_TIMESTAMP()"
    servers.run_sql(mysql_dsn, f"INSERT INTO witness VALUES (1, 1, {now} - 3700), (2, 1, {now} - 3500), (3, 1, {now})")
    await forget(connection)
    assert servers.run_sql(mysql_dsn, "SELECT session FROM witness ORDER BY session") == [(2,), (3,)]
    servers.run_sql(mysql_dsn, "UPDATE witness SET noted_at = 1")

    async def write(tx: Transaction) -> None:
        await tx.execute_many("client.put", [(b"c", 1, 1)])

    await backend.write(write)  # a server's first transaction takes them along
    assert servers.run_sql(mysql_dsn, "SELECT run FROM witness") == [(1,)]


async def test_of_many_that_are_long_over_none_is_left(
    backend: MySQLBackend, mysql_dsn: str, still_clock: trio.testing.MockClock
) -> None:
    """As after hours in which each connection was lost: a thousand at a time, a second after the other."""
    rows = ", ".join(f"({session}, 1, 1)" for session in range(1, 3501))
    servers.run_sql(mysql_dsn, f"INSERT INTO witness VALUES {rows}")

    async def write(tx: Transaction) -> None:
        await tx.execute_many("client.put", [(b"c", 1, 1)])

    def left() -> object:
        ((count,),) = servers.run_sql(mysql_dsn, "SELECT COUNT(*) FROM witness WHERE noted_at = 1")
        return count

    counts: list[object] = []
    for _ in range(4):
        await backend.write(write)
        await backend.write(write)  # not at each transaction
        counts.append(left())
        still_clock.jump(1.1)
    assert counts == [2500, 1500, 500, 0]
    servers.run_sql(mysql_dsn, "INSERT INTO witness VALUES (1, 1, 1)")
    await backend.write(write)
    assert left() == 1, "then seldom again"
    still_clock.jump(300)
    await backend.write(write)
    assert left() == 0


async def test_past_the_bound_it_is_in_doubt(backend: MySQLBackend, mysql_dsn: str, nursery: trio.Nursery) -> None:
    """The old session sits on its transaction: nobody can tell, so nobody runs it again or denies it."""
    proxy: Proxy = await nursery.start(Proxy(mysql_dsn).run)
    proxy.asks = b"what nobody says"
    doubtful = MySQLBackend(proxy.dsn, doubt=0.3)
    runs: list[int] = []

    async def write(tx: Transaction) -> None:
        runs.append(1)
        await tx.execute_many("client.put", [(b"c", 1, 1)])

    proxy.cut("late")
    with pytest.raises(OutcomeUnknown):
        await doubtful.write(write)
    assert runs == [1]
    await doubtful.aclose()


@pytest.mark.parametrize(("moment", "runs"), [("before", [-1, 2]), ("after", [1, 1])])
async def test_who_asks_closes_what_has_not_landed(
    backend: MySQLBackend, mysql_dsn: str, nursery: trio.Nursery, moment: Moment, runs: list[int]
) -> None:
    """The session of the lost line, and that of who asked, which then ran it again if it had to."""
    proxy: Proxy = await nursery.start(Proxy(mysql_dsn).run)
    doubtful = MySQLBackend(proxy.dsn)

    async def write(tx: Transaction) -> None:
        await tx.execute_many("client.put", [(b"c", 1, 1)])

    proxy.cut(moment)
    await doubtful.write(write)
    assert doubtful.statistics()["in_doubt"] == 1
    assert servers.run_sql(mysql_dsn, "SELECT run FROM witness ORDER BY run") == [(run,) for run in runs]
    await doubtful.aclose()


async def test_what_is_refused_is_committed_like_what_is_done(backend: MySQLBackend, mysql_dsn: str) -> None:
    """A primary that another has taken over from reads what was, and does not know the claim. It can commit nothing."""
    store = Store(backend)
    topic = await store.write(catalogue.add_topic, TopicDraft("orders"), 1)
    group = await store.add_group(topic, "billing", 1)
    runs = "SELECT SUM(run) FROM witness"
    ((before,),) = servers.run_sql(mysql_dsn, runs)
    unknown = ClaimKey(group.id, topic.queues[0].id, number=7, first=0, token=7)
    turn = await store.turn(group, [Settlement(unknown, "ack")], [], 2)
    assert turn.settled == (None,)
    assert servers.run_sql(mysql_dsn, runs) != [(before,)]
    ((before,),) = servers.run_sql(mysql_dsn, runs)
    assert (await store.turn(group, [], [ClaimRequest("c", 1, 1_000)], 3)).claims == (None,)
    assert servers.run_sql(mysql_dsn, runs) == [(before,)], "who asks in vain costs no commit"


async def test_what_is_not_found_is_committed_like_what_is_done(backend: MySQLBackend, mysql_dsn: str) -> None:
    """Messages to cancel and to put off, and claims; for the same reason."""
    store = Store(backend)
    runs = "SELECT SUM(run) FROM witness"
    topic = await store.write(catalogue.add_topic, TopicDraft("orders"), 1)
    unknown = ClaimKey(1, topic.queues[0].id, number=7, first=0, token=7)

    async def committed() -> object:
        return servers.run_sql(mysql_dsn, runs)

    before = await committed()
    assert set(await store.write(timers.fates, [77])) == {77}
    assert (between := await committed()) != before
    assert not await store.write(holdings.find_places_now, [unknown])
    assert await committed() != between

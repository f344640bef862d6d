"""A server in a test of code that uses the outbox: on a MySQL or MariaDB, with time moved by hand, the outbox's too."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from threading import Event, Thread
from typing import Any

import pytest
import trio
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from structlog.testing import capture_logs

from support.drivers import ASYNC_DRIVERS, DRIVERS, close
from support.servers import run_sql
from support.waiting import wait_until
from tarry.client import BadRequest, LeaseLost, Tarry, TooLate, outbox
from tarry.client.outbox import Outbox, aio, moved
from tarry.testing import EmbeddedServer

SOON = timedelta(seconds=2)


@pytest.fixture(scope="module", params=["mysql", "mariadb"])
def host(request: pytest.FixtureRequest) -> str:
    """A DSN that names no database."""
    dsn: str = request.getfixturevalue(f"{request.param}_server")
    return dsn.rpartition("/")[0] + "/"


@pytest.fixture(scope="module")
def server(host: str) -> Iterator[EmbeddedServer]:
    """One for all, since it makes its schema first: each test has topics of its own."""
    with EmbeddedServer(dsn=host) as server:
        yield server


@pytest.fixture
def topic(request: pytest.FixtureRequest, server: EmbeddedServer, tarry: Tarry) -> str:
    name = re.sub(r"[^\w.-]", "-", request.node.name)
    tarry.put_topic(name)
    return name


@pytest.fixture
def tarry(server: EmbeddedServer) -> Iterator[Tarry]:
    with Tarry(server.url) as tarry:
        yield tarry


@pytest.fixture
def user(server: EmbeddedServer) -> Iterator[Any]:
    connection = DRIVERS["pymysql"](server.dsn)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS shop_order (id INT PRIMARY KEY, state VARCHAR(20))")
        outbox.prepare(cursor)
    yield connection
    close(connection)


def is_now(at: datetime, server: EmbeddedServer, plus: timedelta = timedelta(0)) -> bool:
    return abs(at - server.clock.now() - plus) < SOON


@pytest.mark.parametrize("driver", DRIVERS)
def test_what_waits_in_an_outbox_comes_when_time_is_moved_there_and_not_before(
    server: EmbeddedServer, tarry: Tarry, topic: str, driver: str
) -> None:
    with closing(DRIVERS[driver](server.dsn)) as user:
        for _ in range(2):
            receipt = outbox.publish(user.cursor(), topic, driver, delay="30m")
            user.commit()
            assert is_now(receipt.deliver_at, server, timedelta(minutes=30))
            server.clock.advance("29m")
            tarry.nudge(topic)
            assert tarry.claim(topic, driver, wait="300ms") is None
            server.clock.advance("1m")
            claim = tarry.claim(topic, driver, wait="10s")
            assert claim is not None
            assert [message.id for message in claim.messages] == [receipt.id]
            assert claim.messages[0].published_at < receipt.deliver_at
            outbox.ack(user.cursor(), claim.messages[0], claim=claim)
            user.commit()
        server.clock.advance("2m")  # longer than the leases, and than the first rung
        assert tarry.claim(topic, driver, wait="300ms") is None


def test_the_users_rows_are_beside_it(server: EmbeddedServer, tarry: Tarry, topic: str, user: Any) -> None:
    server.clock.advance("1h")
    for order, end in ((1, user.rollback), (2, user.commit)):
        user.cursor().execute("INSERT INTO shop_order VALUES (%s, 'new')", (order,))
        outbox.publish(user.cursor(), topic, order)
        end()
    claim = tarry.claim(topic, "all", wait="10s")
    assert claim is not None
    assert [message.body for message in claim.messages] == [2]
    assert [id_ for id_, _ in run_sql(server.dsn, "SELECT * FROM shop_order WHERE id < 3")] == [2]


def test_what_is_cancelled_in_a_transaction_does_not_come(
    server: EmbeddedServer, tarry: Tarry, topic: str, user: Any
) -> None:
    server.clock.advance("10d")
    receipt = outbox.publish(user.cursor(), topic, 1, delay="30m", key="order-1")
    outbox.publish(user.cursor(), topic, 2, delay="30m", key="order-2")
    user.commit()
    assert outbox.cancel(user.cursor(), topic=topic, key="order-1") == [receipt.id]
    user.commit()
    server.clock.advance("31m")
    claim = tarry.claim(topic, "all", wait="10s")
    assert claim is not None
    assert [message.body for message in claim.messages] == [2]
    with pytest.raises(TooLate):
        outbox.cancel(user.cursor(), id=claim.messages[0].id)
    user.rollback()


def test_timers_by_key(server: EmbeddedServer, tarry: Tarry, topic: str, user: Any) -> None:
    server.clock.advance("1h")
    cursor = user.cursor()
    first = outbox.set_timer(cursor, topic, "cart", 1, delay="30m", mode="debounce", max_wait="45m")
    user.commit()
    server.clock.advance("20m")
    second = outbox.set_timer(cursor, topic, "cart", 2, delay="30m", mode="debounce", max_wait="45m")
    outbox.set_timer(cursor, topic, "gone", 3, delay="1s")
    assert outbox.cancel_timer(cursor, topic, "gone") == "cancelled"
    user.commit()
    assert second.replaced == first.id
    # Both are of the server's time, or else a debounce would have no end.
    assert is_now(second.deliver_at, server, timedelta(minutes=25))
    server.clock.advance("24m")
    tarry.nudge(topic)
    assert tarry.claim(topic, "all", wait="300ms") is None
    server.clock.advance("1m")
    claim = tarry.claim(topic, "all", wait="10s")
    assert claim is not None
    assert [message.body for message in claim.messages] == [2]


def test_a_lease_that_time_has_passed_is_lost(server: EmbeddedServer, tarry: Tarry, topic: str, user: Any) -> None:
    tarry.publish(topic, 1)
    claim = tarry.claim(topic, "all", wait="10s", lease="60s")
    assert claim is not None
    server.clock.advance("61s")
    with pytest.raises(LeaseLost):
        outbox.ack(user.cursor(), claim.messages[0], claim=claim)
    user.rollback()


def test_settle_does_the_work_once_and_guards_grow_old(
    server: EmbeddedServer, tarry: Tarry, topic: str, user: Any
) -> None:
    server.clock.advance("30d")  # a guard that has the database's own time would be old from the start
    outbox.publish(user.cursor(), topic, 11, delay="30m")
    user.cursor().execute("INSERT INTO shop_order VALUES (11, 'new')")
    user.commit()
    server.clock.advance("30m")
    for message in tarry.consume(topic, group="billing", limit=1, idle_timeout=10.0):
        with message, outbox.settle(user, message) as cursor:
            cursor.execute("UPDATE shop_order SET state = 'billed' WHERE id = %s", (message.body,))
        assert not outbox.once(user.cursor(), message)
    user.rollback()
    assert run_sql(server.dsn, "SELECT state FROM shop_order WHERE id = 11") == [("billed",)]
    assert outbox.forget(user.cursor(), older_than="1h") == 0
    server.clock.advance("2h")
    assert outbox.forget(user.cursor(), older_than="1h") == 1
    user.commit()


@pytest.mark.parametrize("driver", ASYNC_DRIVERS)
def test_an_outbox_that_is_awaited(server: EmbeddedServer, tarry: Tarry, topic: str, driver: str) -> None:
    """The time is moved within the event loop."""
    loop, connect = ASYNC_DRIVERS[driver]

    async def main() -> None:
        connection = await connect(server.dsn)
        cursor = connection.cursor()
        if loop == "asyncio" and hasattr(cursor, "__await__"):
            cursor = await cursor
        server.clock.advance("1h")
        receipt = await aio.publish(cursor, topic, driver, delay="30m")
        await connection.commit()
        assert is_now(receipt.deliver_at, server, timedelta(minutes=30))
        server.clock.advance("30m")
        if loop == "trio":
            await connection.aclose()
        else:
            connection.close()

    asyncio.run(main()) if loop == "asyncio" else trio.run(main)
    claim = tarry.claim(topic, driver, start="earliest", wait="10s", max=100)
    assert claim is not None
    assert driver in [message.body for message in claim.messages]


def test_a_session_of_sqlalchemy_lends_its_cursor(server: EmbeddedServer, tarry: Tarry, topic: str, user: Any) -> None:
    engine = create_engine(server.dsn.replace("mysql://", "mysql+pymysql://"))
    scoped = scoped_session(sessionmaker(engine))
    insert = text("INSERT INTO shop_order VALUES (:id, 'new')")
    with Session(engine) as session:
        session.execute(insert, {"id": 21})
        outbox.publish(session, topic, 21, delay="30m")
        session.rollback()
        session.execute(insert, {"id": 22})
        receipt = outbox.publish(session, topic, 22, delay="30m")
        outbox.set_timer(session, topic, "order-22", 23, delay="30m")
        session.commit()
    assert is_now(receipt.deliver_at, server, timedelta(minutes=30))
    outbox.publish(scoped, topic, 24, delay="30m")
    scoped.commit()
    scoped.remove()
    with engine.begin() as connection:
        outbox.cancel(connection, id=receipt)
    server.clock.advance("30m")
    bodies: set[int] = set()
    for message in tarry.consume(topic, group="all", limit=2, idle_timeout=10.0):
        with message, Session(engine) as session, session.begin():
            assert outbox.once(session, message)
            outbox.ack(session, message)
            bodies.add(message.body)
    assert bodies == {23, 24}
    assert run_sql(server.dsn, "SELECT id FROM shop_order WHERE id BETWEEN 21 AND 22") == [(22,)]
    for wrong in (engine, user, None):
        with pytest.raises(BadRequest, match="cursor: an object of type"):
            outbox.publish(wrong, topic, 1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    engine.dispose()


def test_tables_elsewhere_on_the_server(
    server: EmbeddedServer, tarry: Tarry, topic: str, fresh_database: Any, host: str
) -> None:
    """The user's database is another: `Outbox(database=...)` has the time of the one it names."""
    server.clock.advance("1h")
    with closing(DRIVERS["pymysql"](fresh_database(host))) as user:
        receipt = Outbox(database=server.database).publish(user.cursor(), topic, 1, delay="30m")
        user.commit()
    assert is_now(receipt.deliver_at, server, timedelta(minutes=30))


def test_other_databases_keep_their_time(host: str, server: EmbeddedServer) -> None:
    server.clock.advance("365d")
    with EmbeddedServer(dsn=host) as other, Tarry(other.url) as tarry, closing(DRIVERS["pymysql"](other.dsn)) as user:
        assert other.database != server.database
        tarry.put_topic("orders")
        receipt = outbox.publish(user.cursor(), "orders", 1)
        assert is_now(receipt.deliver_at, other)
        assert not is_now(receipt.deliver_at, server)
        assert moved.ahead_of(other.database) == 0
        other.clock.advance("5m")
        assert moved.ahead_of(other.database) == 300_000
    assert moved.ahead_of(other.database) == 0
    assert moved.ahead_of(server.database) > 300_000


def test_time_is_moved_between_what_is_asked_of_the_database(
    server: EmbeddedServer, tarry: Tarry, topic: str, user: Any
) -> None:
    """While a worker is busy: no answer of the database comes too late for the server, and nothing is in doubt."""
    handled: list[int] = []
    stop = Event()
    worker = Thread(target=tarry.run, args=(topic, "all", handled.append, 4), kwargs={"stop": stop, "wait": "100ms"})
    with capture_logs() as logs:
        worker.start()
        try:
            for number in range(40):
                outbox.publish_many(user.cursor(), topic, [{"body": number, "delay": "30m"} for _ in range(5)])
                user.commit()
                server.clock.advance("10m")
            server.clock.advance("30m")
            wait_until(lambda: len(set(handled)) == 40)
        finally:
            stop.set()
            worker.join(20)
    wrong = ("store_away", "outcome_unknown", "clock_jumped", "store_takes_no_writes", "node_not_renewed")
    assert [one for one in logs if one["event"] in wrong] == []


def test_a_cursor_of_sqlite_is_told_where_the_outbox_is() -> None:
    import sqlite3

    with (
        closing(sqlite3.connect(":memory:")) as connection,
        pytest.raises(BadRequest, match=r"cursor: .* SQLite.*mysql"),
    ):
        outbox.publish(connection.cursor(), "orders", 1)

"""The outbox on both servers and over every driver: what a user's own transaction does, and whom it holds up."""

import functools
import inspect
import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import anyio
import pytest
import trio
from anyio import CancelScope
from anyio.lowlevel import checkpoint

from support.drivers import ASYNC_DRIVERS, DRIVERS, close
from support.nodes import name_of
from support.store_homes import on_servers
from support.stores import HOUR, MINUTE, SECOND, Kind, Stage, bodies, nobody_waits
from tarry.client import BadRequest, Draft, LeaseLost, Message, NotFound, TooLarge, TooLate
from tarry.client.durations import instant_in
from tarry.client.outbox import Outbox, aio
from tarry.client.processes import PerProcess
from tarry.store.groups.claim_ids import format_claim
from tarry.store.ids import IdMaker, first_id
from tarry.store.looking import upcoming
from tarry.store.records import Claim, Group, Settlement, Topic, Verdict
from tarry.store.timers import forecast, timers
from tarry.wheel.ladder import Ladder

pytestmark = on_servers

outbox = Outbox()


@pytest.fixture(params=list(DRIVERS))
def driver(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def connect(dsn: str) -> Iterator[Callable[..., Any]]:
    """Connections of the user's."""
    connections: list[Any] = []

    def make(driver: str = "pymysql", to: str = dsn) -> Any:
        connection = DRIVERS[driver](to)
        connections.append(connection)
        return connection

    yield make
    for connection in connections:
        close(connection)


@pytest.fixture
def user(connect: Callable[..., Any]) -> Any:
    """One of them."""
    return connect()


@pytest.fixture
def cursor(user: Any) -> Any:
    return user.cursor()


@pytest.fixture
async def topic(stage: Stage) -> Topic:
    """The stage's clock is the database's: that is what an outbox goes by."""
    stage.now = await stage.store.backend.now()
    return await stage.topic()


async def tick(stage: Stage) -> None:
    stage.now = max(stage.now, await stage.store.backend.now())


def message_of(claim: Claim, place: int = 0) -> Message:
    one = claim.messages[place]
    at = instant_in("2026-01-01T00:00:00Z")
    return Message(id=str(one.id), topic="orders", queue=0, offset=one.offset, body={}, published_at=at, deliver_at=at)


async def conserves(stage: Stage, topic: Topic, *, accepted: int, streamed: int, cancelled: int) -> None:
    while await stage.store.count_outbox(100):
        pass
    await stage.counts(topic, accepted=accepted, streamed=streamed, cancelled=cancelled)


async def test_one_order_is_one_shard(stage: Stage, topic: Topic, user: Any, cursor: Any) -> None:
    """So one server has all of it in its wheel, timers too."""
    log = await stage.topic("log", queues=3, ordered=True)
    for number in range(9):
        for key in ("k", None):
            where: dict[str, Any] = (
                {"ordering_key": key, "delay": "1h"} if key else {"queue": number % 3, "delay": "1h"}
            )
            outbox.publish(cursor, "log", number, **where)
            outbox.set_timer(cursor, "log", f"{key}-{number}", number, **where)
    user.commit()
    orders = stage.tables.rows(
        "SELECT queue_id, ordering_key, COUNT(*), COUNT(DISTINCT shard) FROM delay GROUP BY 1, 2"
    )
    assert sorted(many for *_, many, _ in orders) == [6, 6, 6, 18]
    assert {shards for *_, shards in orders} == {1}
    assert stage.column("SELECT DISTINCT shard - queue_id % 16 FROM delay WHERE ordering_key IS NULL") == [0]
    assert {queue.id for queue in log.queues} == {queue_id for queue_id, *_ in orders}


# Every driver


async def test_it_commits_and_rolls_back_with_the_rows_of_the_user(
    stage: Stage, topic: Topic, group: Group, connect: Callable[..., Any], driver: str
) -> None:
    user = connect(driver)
    cursor = user.cursor()
    cursor.execute("CREATE TABLE IF NOT EXISTS shop (id INT PRIMARY KEY)")
    cursor.execute("DELETE FROM shop")
    user.commit()
    cursor.execute("INSERT INTO shop VALUES (1)")
    receipt = outbox.publish(
        cursor, "orders", {"order": "7 % ' \\ ü"}, key="order-7", tag="red", headers={"a": "%s"}, ordering_key="k"
    )
    assert await stage.waiting() == {}
    user.rollback()
    assert stage.count("delay") == stage.count("label") == stage.count("shop") == 0
    cursor.execute("INSERT INTO shop VALUES (1)")
    receipt = outbox.publish(cursor, "orders", {"order": "7 % ' \\ ü"}, key="order-7", tag="red", headers={"a": "%s"})
    later = outbox.publish(cursor, "orders", b"\x00\xff'", content_type="image/png", delay="30m")
    user.commit()
    assert stage.count("shop") == 1
    await tick(stage)
    (promoted,) = await stage.fall_due()
    assert str(promoted.entry) == receipt.id
    (message,) = (await stage.claim(group)).messages
    assert message.body.decode() == '{"order":"7 % \' \\\\ ü"}'
    assert (message.key, message.tag, message.headers) == ("order-7", "red", b'{"a":"%s"}')
    assert await stage.fall_due(after=29 * MINUTE) == []
    assert [str(one.entry) for one in await stage.fall_due(after=MINUTE + SECOND)] == [later.id]
    (message,) = (await stage.claim(group)).messages
    assert (message.body, message.content_type) == (b"\x00\xff'", "image/png")
    await conserves(stage, topic, accepted=2, streamed=2, cancelled=0)


async def test_many_cancel_ack_and_once(
    stage: Stage, topic: Topic, group: Group, connect: Callable[..., Any], driver: str
) -> None:
    user = connect(driver)
    cursor = user.cursor()
    outbox.prepare(cursor)
    cursor.execute("DELETE FROM tarry_once")
    user.commit()
    receipts = outbox.publish_many(cursor, "orders", [{"body": i, "key": "same", "delay": f"{i}s"} for i in range(4)])
    user.commit()
    assert outbox.cancel(cursor, id=receipts[3].id) == [receipts[3].id]
    user.rollback()
    assert stage.count("cancelled") == 0
    assert outbox.cancel(cursor, id=receipts[3].id) == [receipts[3].id]
    assert outbox.cancel(cursor, id=receipts[3].id) == [receipts[3].id]
    user.commit()
    assert outbox.cancel(cursor, id=receipts[3].id) == [receipts[3].id]
    stage.now = await stage.store.backend.now() + SECOND
    await stage.fall_due()
    with pytest.raises(TooLate):
        outbox.cancel(cursor, id=receipts[0].id)
    with pytest.raises(NotFound):
        outbox.cancel(cursor, id="77")
    assert outbox.cancel(cursor, topic="orders", key="same") == [receipts[2].id]
    user.commit()
    assert await stage.fall_due(after=HOUR) == []
    stage.now = await stage.store.backend.now()
    claim = await stage.claim(group)
    assert bodies(claim) == [b"0", b"1"]
    message, name = message_of(claim), format_claim(claim.key)
    assert outbox.once(cursor, message, group="billing")
    outbox.ack(cursor, message, claim=name)
    user.commit()
    assert not outbox.once(cursor, message, group="billing")
    assert outbox.once(cursor, message, group="shipping")
    assert outbox.once(cursor, message, group="billing", key="order-7")
    outbox.ack(cursor, message, claim=name)
    outbox.ack(cursor, message_of(claim, 1), claim=name)
    user.commit()
    assert outbox.forget(cursor, "1h") == 0
    assert outbox.forget(cursor, timedelta(seconds=-1), limit=2) == 2
    user.commit()
    settled = await stage.settle_one(group, Settlement(claim.key, "ack"))
    assert (settled.acked, settled.ended) == (2, True)
    assert (await stage.group_state(group)).acked == 2
    await conserves(stage, topic, accepted=4, streamed=2, cancelled=2)


# A transaction there must be


def own_tables(user: Any, *, autocommit: bool = False) -> None:
    """Of the user, empty: what other tests left in them stays otherwise."""
    cursor = user.cursor()
    outbox.prepare(cursor)
    cursor.execute("CREATE TABLE IF NOT EXISTS paid (message VARCHAR(40))")
    cursor.execute("DELETE FROM paid")
    cursor.execute("DELETE FROM tarry_once")
    user.commit()
    if autocommit:
        cursor.execute("SET autocommit = 1")
    cursor.close()


async def test_a_cursor_without_a_transaction_is_refused(
    stage: Stage, topic: Topic, group: Group, connect: Callable[..., Any], driver: str
) -> None:
    """In autocommit mode each statement would be committed by itself; within a transaction that was begun it is not."""
    await stage.publish(stage.draft(topic))
    claim = await stage.claim(group)
    held = format_claim(claim.key)
    user = connect(driver)
    own_tables(user, autocommit=True)
    calls: list[Callable[[Any], object]] = [
        lambda cursor: outbox.publish(cursor, "orders", 1),
        lambda cursor: outbox.publish_many(cursor, "orders", [{"body": 1}]),
        lambda cursor: outbox.cancel(cursor, id="1"),
        lambda cursor: outbox.cancel(cursor, topic="orders", key="k"),
        lambda cursor: outbox.once(cursor, message_of(claim), group="billing"),
        lambda cursor: outbox.ack(cursor, message_of(claim), claim=held),
    ]
    for call in calls:
        with pytest.raises(BadRequest, match="autocommit mode, and no transaction is open"):
            call(user.cursor())
    assert stage.count("delay") == stage.count("tarry_once") == 0
    cursor = user.cursor()
    for end in ("ROLLBACK", "COMMIT"):
        cursor.execute("START TRANSACTION")
        outbox.publish(cursor, "orders", 1)
        assert outbox.once(cursor, message_of(claim), group="billing")
        outbox.ack(cursor, message_of(claim), claim=held)
        cursor.execute(end)
        assert stage.count("delay") == stage.count("tarry_once") == (0 if end == "ROLLBACK" else 1)


@pytest.mark.parametrize("mode", ["transactions", "autocommit"])
async def test_settle_is_once_the_work_and_the_ack_or_nothing(
    stage: Stage, topic: Topic, group: Group, connect: Callable[..., Any], driver: str, mode: str
) -> None:
    user = connect(driver)
    own_tables(user, autocommit=mode == "autocommit")
    await stage.publish(*(stage.draft(topic) for _ in range(2)))
    claim = await stage.claim(group)
    first, second = (message_of(claim, place) for place in range(2))
    how: dict[str, Any] = {"group": "billing", "claim": format_claim(claim.key)}

    def work(message: Message, error: type[BaseException] | None = None) -> None:
        with outbox.settle(user, message, **how) as cursor:
            cursor.execute("INSERT INTO paid VALUES ('m')")
            if error is not None:
                raise error("in the middle")

    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error, match="in the middle"):
            work(first, error)
    # The next message's commit does not save what was rolled back.
    work(second)
    assert stage.count("paid") == stage.count("tarry_once") == 1
    work(first)
    assert stage.count("paid") == stage.count("tarry_once") == 2
    # Done before: the block is over at the first use of the cursor, and may ask.
    work(first)
    with outbox.settle(user, first, **how) as cursor:
        assert not cursor
        if cursor:
            pytest.fail("its work was done")
    assert stage.count("paid") == 2
    # Of another group nothing was done yet, but this claim is not its own to ack; and nothing stays of it.
    with pytest.raises(LeaseLost), outbox.settle(user, first, group="other", claim="0-0-0-0-0") as cursor:
        cursor.execute("INSERT INTO paid VALUES ('m')")
    assert stage.count("paid") == 2
    settled = await stage.settle_one(group, Settlement(claim.key, "ack"))
    assert (settled.acked, settled.ended) == (2, True)
    assert (await stage.group_state(group)).acked == 2


async def test_settle_is_no_part_of_another_transaction(stage: Stage, topic: Topic, group: Group, user: Any) -> None:
    """To begin one would commit what is open."""
    await stage.publish(stage.draft(topic))
    claim = await stage.claim(group)
    own_tables(user, autocommit=True)
    user.begin()
    user.cursor().execute("INSERT INTO paid VALUES ('mine')")
    settle = outbox.settle(user, message_of(claim), group="billing", claim=format_claim(claim.key))
    with pytest.raises(BadRequest, match="a transaction is open on it"), settle:
        pytest.fail("it has begun")
    assert stage.count("paid") == 0


@pytest.mark.parametrize("name", list(ASYNC_DRIVERS))
async def test_settle_over_asynchronous_connections(
    stage: Stage, topic: Topic, group: Group, connect: Callable[..., Any], dsn: str, name: str
) -> None:
    own_tables(connect())
    await stage.publish(*(stage.draft(topic) for _ in range(2)))
    claim = await stage.claim(group)
    first, second = (message_of(claim, place) for place in range(2))
    how: dict[str, Any] = {"group": "billing", "claim": format_claim(claim.key)}
    backend, connected = ASYNC_DRIVERS[name]

    async def main() -> None:
        user = await connected(dsn)
        made = user.cursor()
        cursor = await made if inspect.isawaitable(made) else made

        async def work(message: Message, error: Callable[[], None] = lambda: None) -> None:
            async with aio.settle(user, message, **how) as cursor:
                await cursor.execute("INSERT INTO paid VALUES ('m')")
                error()
                await checkpoint()

        def fault() -> None:
            raise ValueError("in the middle")

        with pytest.raises(ValueError, match="in the middle"):
            await work(first, fault)
        with CancelScope() as scope:
            await work(first, scope.cancel)
        assert scope.cancelled_caught
        await work(second)
        assert stage.count("paid") == 1
        await work(first)
        await work(first)
        assert stage.count("paid") == stage.count("tarry_once") == 2
        await cursor.execute("SET autocommit = 1")
        with pytest.raises(BadRequest, match="autocommit mode, and no transaction is open"):
            await aio.publish(cursor, "orders", 1)
        await work(first)
        closing = user.aclose() if hasattr(user, "aclose") else user.close()
        if inspect.isawaitable(closing):
            await closing

    await trio.to_thread.run_sync(functools.partial(anyio.run, main, backend=backend))
    assert stage.count("paid") == 2
    settled = await stage.settle_one(group, Settlement(claim.key, "ack"))
    assert (settled.acked, settled.ended) == (2, True)


async def test_the_same_over_trio_mysql(stage: Stage, topic: Topic, group: Group, dsn: str) -> None:
    _, connected = ASYNC_DRIVERS["trio-mysql"]
    user = await connected(dsn)
    cursor = user.cursor()
    await aio.prepare(cursor)
    await cursor.execute("DELETE FROM tarry_once")
    kept = await aio.publish(cursor, "orders", {"order": 7}, key="k")
    (gone, stays) = await aio.publish_many(cursor, "orders", [{"body": 1, "delay": "1h"}, {"body": 2}])
    assert await aio.cancel(cursor, id=gone.id) == [gone.id]
    await user.commit()
    await tick(stage)
    assert sorted(str(one.entry) for one in await stage.fall_due()) == sorted([kept.id, stays.id])
    claim = await stage.claim(group)
    assert await aio.once(cursor, message_of(claim), group="billing")
    await aio.ack(cursor, message_of(claim), claim=format_claim(claim.key))
    await user.commit()
    assert not await aio.once(cursor, message_of(claim), group="billing")
    assert await aio.cancel(cursor, topic="orders", key="k") == []
    assert await aio.forget(cursor, timedelta(seconds=-1)) == 1
    await user.rollback()
    await user.aclose()
    await conserves(stage, topic, accepted=3, streamed=2, cancelled=1)


async def test_the_tables_may_be_in_another_database(
    stage: Stage, topic: Topic, group: Group, connect: Callable[..., Any], kind: Kind, request: pytest.FixtureRequest
) -> None:
    fresh: Callable[[str], str] = request.getfixturevalue("fresh_database")
    user = connect("pymysql", fresh(request.getfixturevalue(f"{kind}_server")))
    cursor = user.cursor()
    with pytest.raises(NotFound, match="has no tables of Tarry"):
        outbox.publish(cursor, "orders", 1)
    there = Outbox(database=stage.dsn.rpartition("/")[2])
    there.prepare(cursor)
    receipts = [there.publish(cursor, "orders", n, key="k", delay=f"{n}m") for n in range(3)]
    assert there.cancel(cursor, id=receipts[1].id)
    assert there.cancel(cursor, topic="orders", key="k") == [receipts[0].id, receipts[2].id]
    there.publish(cursor, "orders", 3)
    user.commit()
    await tick(stage)
    await stage.fall_due()
    claim = await stage.claim(group)
    assert there.once(cursor, message_of(claim), group="billing")
    there.ack(cursor, message_of(claim), claim=format_claim(claim.key))
    there.ack(cursor, message_of(claim), claim=format_claim(claim.key))
    user.commit()
    await conserves(stage, topic, accepted=4, streamed=1, cancelled=3)
    for bad in ("a\0b", "", "x" * 65, "a "):
        with pytest.raises(ValueError, match="database"):
            Outbox(database=bad)


async def test_bad_input_names_the_field(stage: Stage, topic: Topic, cursor: Any) -> None:
    publish: Callable[..., Any] = functools.partial(outbox.publish, cursor)
    with pytest.raises(NotFound, match="PUT /v1/topics/nosuch"):
        publish("nosuch", 1)
    with pytest.raises(BadRequest, match="1 to 249"):
        publish("x" * 250, 1)
    refused: list[tuple[str, dict[str, Any]]] = [
        ("key", {"key": "x" * 256}),
        ("tag", {"tag": ""}),
        ("ordering_key", {"ordering_key": "\ud800"}),
        ("delay", {"delay": "soon"}),
        ("delay", {"delay": timedelta(milliseconds=-1)}),
        ("delay", {"delay": "1m", "deliver_at": "2027-01-01T00:00:00Z"}),
        ("delay", {"delay": timedelta(days=4000)}),
        ("deliver_at", {"deliver_at": "2027-01-01T00:00:00"}),
        ("deliver_at", {"deliver_at": "2100-01-01T00:00:00Z"}),
        ("headers", {"headers": {"": "x"}}),
        ("headers", {"headers": {"a": "x" * 20_000}}),
        ("queue", {"queue": 7}),
        ("queue", {"queue": -1}),
        ("content_type", {"content_type": "text/plain"}),
        ("content_type", {"body": b"x", "content_type": " text/plain"}),
    ]
    for field, fields in refused:
        with pytest.raises(BadRequest, match=f"^{field}: "):
            publish("orders", fields.pop("body", 1), **fields)
    bare: Any = 30
    with pytest.raises(TypeError, match=r"^delay: 30 has no unit"):
        publish("orders", 1, delay=bare)
    with pytest.raises(BadRequest, match=r"^topic: "):
        publish("all orders", 1)
    with pytest.raises(BadRequest, match=r"^topic: "):
        publish("..", 1)
    with pytest.raises(TooLarge, match=r"^body: "):
        publish("orders", b"x" * (256 * 1024 + 1))
    with pytest.raises(BadRequest, match=r"^body: "):
        publish("orders", float("nan"))
    with pytest.raises(TooLarge, match="1000 messages"):
        outbox.publish_many(cursor, "orders", [{"body": 1}] * 1001)
    with pytest.raises(BadRequest, match="an id, or a topic with a key"):
        outbox.cancel(cursor, topic="orders")
    with pytest.raises(NotFound):
        outbox.cancel(cursor, id="x")
    assert outbox.publish_many(cursor, "orders", []) == []
    assert stage.count("delay") == 0
    assert outbox.publish(cursor, "orders", 1, deliver_at="2001-01-01T00:00:00Z").deliver_at.year == 2001


@pytest.mark.parametrize("at", ["2001-01-01T00:00:00Z", "1960-02-29T12:00:00Z", "0001-01-01T00:00:00Z"])
async def test_a_time_long_past_is_told_as_it_was_given(
    stage: Stage, topic: Topic, group: Group, user: Any, cursor: Any, at: str
) -> None:
    told = [
        outbox.publish(cursor, "orders", 1, deliver_at=at).deliver_at,
        outbox.set_timer(cursor, "orders", "k", 1, deliver_at=at).deliver_at,
    ]
    user.commit()
    await tick(stage)
    await stage.fall_due()
    claim = await stage.claim(group)
    assert told == [instant_in(at)] * 2
    assert len({m.deliver_at for m in claim.messages}) == 1
    assert instant_in("1970-01-01T00:00:00Z") + timedelta(milliseconds=claim.messages[0].deliver_at) == instant_in(at)


# Whom it holds up


async def test_a_transaction_open_for_an_hour_loses_nothing_and_holds_up_nobody(
    stage: Stage, topic: Topic, group: Group, user: Any, cursor: Any
) -> None:
    await stage.publish(stage.draft(topic, b"before"), stage.draft(topic, b"too"))
    held = await stage.claim(group, 2)
    (cancelled,) = await stage.publish(stage.draft(topic, b"cancelled", 10 * MINUTE))
    due = outbox.publish(cursor, "orders", "now", key="k")
    soon = outbox.publish(cursor, "orders", "soon", key="k", delay="30m")
    outbox.cancel(cursor, id=str(cancelled.id))
    outbox.ack(cursor, message_of(held), claim=format_claim(held.key))
    # Each step would be refused after two seconds, were it held up.
    for step in range(60):
        stage.now += MINUTE
        _straight, later = await stage.publish(
            stage.draft(topic, b"straight", key="k"), stage.draft(topic, b"later", 30 * SECOND, key="k")
        )
        assert [one.entry for one in await stage.fall_due(after=30 * SECOND)] == [later.id]
        claim = await stage.claim(group)
        assert bodies(claim) == [b"straight", b"later"]
        if step % 2:
            assert (await stage.ack(group, claim)).acked == 2
        else:
            assert (await stage.fail(group, claim, count=False, retry_after=HOUR * 3)).retried == 2
        (verdict,) = await stage.store.cancel([cancelled.id], stage.now)
        assert verdict.result == "locked"
        settled = await stage.settle_one(group, Settlement(held.key, "ack"))
        assert settled.locked
    # The lease has long run out: it is ended once the transaction is over.
    assert [one.locked for one in await stage.end_leases(group) if one] == [True]
    user.commit()
    assert sorted(one.entry for one in await stage.fall_due()) == sorted([int(due.id), int(soon.id)])
    ended = await stage.end_lease(group)
    assert (ended.retried, ended.ended) == (1, True)
    assert bodies(await stage.claim(group)) == [b'"now"', b'"soon"']
    assert (await stage.store.cancel([cancelled.id], stage.now))[0].result == "cancelled"
    await conserves(stage, topic, accepted=2 + 1 + 2 + 120, streamed=2 + 2 + 120, cancelled=1)
    await stage.counts(group, acked=60 + 1)


async def test_what_was_committed_late_is_found_by_the_sweeps(stage: Stage, topic: Topic, user: Any) -> None:
    receipt = outbox.publish(user.cursor(), "orders", 1)
    assert await stage.store.read(timers.near, 0, stage.now + HOUR, 10) == []
    user.commit()
    await tick(stage)
    near = await stage.store.read(timers.near, stage.now - 2 * MINUTE, stage.now + SECOND, 10)
    assert [id_ for _, id_ in near] == [int(receipt.id)]
    stage.now += HOUR
    assert await stage.store.read(timers.near, stage.now - 2 * MINUTE, stage.now + SECOND, 10) == []
    assert await stage.store.read(timers.near, 0, stage.now - 2 * MINUTE, 10) == near


_ALLOWED = {"delay", "forecast_change", "label", "cancelled", "outbox_cancel", "claim", "moved", "tarry_once"}


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
async def test_it_locks_single_rows_of_few_tables(
    stage: Stage, topic: Topic, group: Group, user: Any, cursor: Any, kind: Kind, isolation: str
) -> None:
    if kind != "mysql":
        pytest.skip("only MySQL tells of its locks in a table")
    await stage.publish(stage.draft(topic))
    claim = await stage.claim(group)
    waiting, moved, left = await stage.schedule(topic, HOUR, HOUR, 1)
    await stage.store.write(timers.reschedule, [(moved.id, stage.now + 2 * HOUR)], stage.now)
    outbox.prepare(cursor)
    cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")
    cursor.execute("SELECT COUNT(*) FROM delay")  # the transaction sees what is here now
    stage.now += 1
    await stage.promote(left.id)
    outbox.publish_many(cursor, "orders", [{"body": 1, "key": "k"}, {"body": 2, "delay": "1h"}])
    outbox.cancel(cursor, id=str(waiting.id))
    outbox.cancel(cursor, id=str(moved.id))
    with pytest.raises(TooLate):
        outbox.cancel(cursor, id=str(left.id))
    with pytest.raises(NotFound):
        outbox.cancel(cursor, id=str(first_id(stage.now + HOUR)))
    outbox.ack(cursor, message_of(claim), claim=format_claim(claim.key))
    with pytest.raises(LeaseLost):
        outbox.ack(cursor, message_of(claim), claim=f"{group.id}-{topic.queues[0].id}-999-0-1")
    outbox.once(cursor, message_of(claim), group="billing")
    cursor.execute("SELECT CONNECTION_ID()")
    ((connection_id,),) = cursor.fetchall()
    locks = stage.tables.rows(
        "SELECT object_name, lock_type, lock_mode FROM performance_schema.data_locks l "
        "JOIN performance_schema.threads t ON t.thread_id = l.thread_id "
        f"WHERE processlist_id = {connection_id}"
    )
    rows = [(table, mode) for table, lock, mode in locks if lock == "RECORD"]
    assert {table for table, *_ in locks} <= _ALLOWED
    assert {table for table, _ in rows} >= {"delay", "claim"}
    assert all("REC_NOT_GAP" in mode for _, mode in rows), rows
    user.rollback()


async def test_it_holds_no_gap_for_a_message_that_has_left(stage: Stage, topic: Topic, user: Any, cursor: Any) -> None:
    """At REPEATABLE READ a locking read of a row that is gone holds up everybody who publishes near it."""
    (left, stolen) = await stage.schedule(topic, SECOND, 2 * SECOND)
    cursor.execute("SELECT COUNT(*) FROM delay")
    cursor.fetchall()
    stage.now += SECOND
    await stage.promote(left.id)
    assert (await stage.store.cancel([stolen.id], stage.now))[0].result == "cancelled"
    with pytest.raises(TooLate):
        outbox.cancel(cursor, id=str(left.id))
    assert outbox.cancel(cursor, id=str(stolen.id)) == [str(stolen.id)]
    with nobody_waits(stage.tables):
        await stage.schedule(topic, *(n * MINUTE for n in range(200)))
    user.commit()
    await conserves(stage, topic, accepted=202, streamed=2, cancelled=1)


async def test_an_id_that_is_taken_is_left_alone(stage: Stage, topic: Topic, connect: Callable[..., Any]) -> None:
    """Seen or not: a transaction that began before the other was committed meets its ids only in the keys."""
    at = instant_in("1970-01-01T00:00:00+00:00") + timedelta(milliseconds=stage.now + HOUR)
    drafts: list[Draft | dict[str, Any]] = [{"body": n, "deliver_at": at} for n in range(40)]
    old, fresh = connect(), connect()
    old.cursor().execute("SELECT COUNT(*) FROM delay")

    def publish(user: Any) -> list[int]:
        box = Outbox()
        box._ids = PerProcess(lambda: IdMaker(random.Random(7), outbox=True))
        return [int(receipt.id) for receipt in box.publish_many(user.cursor(), "orders", drafts)]

    first = publish(fresh)
    fresh.commit()
    second = publish(old)
    old.commit()
    third = publish(fresh)
    stage.now += HOUR
    assert len(await stage.promote(*first)) == 40, "the open transaction has locked the rows that it met"
    fresh.commit()
    await stage.fall_due(after=2 * SECOND)
    assert len({*first, *second, *third}) == 120
    await conserves(stage, topic, accepted=120, streamed=120, cancelled=0)


# Verdicts and counters


async def test_cancel_races_promotion_with_true_verdicts(stage: Stage, topic: Topic, group: Group, user: Any) -> None:
    receipts = await stage.schedule(topic, *([1] * 300))
    stage.now += 1
    cancelled: set[int] = set()
    late: set[int] = set()

    def cancel() -> None:
        cursor = user.cursor()
        for receipt in receipts[::-1]:
            try:
                outbox.cancel(cursor, id=str(receipt.id))
                user.commit()
                cancelled.add(receipt.id)
            except TooLate:
                user.rollback()
                late.add(receipt.id)

    async def promote() -> None:
        for begin in range(0, 300, 5):
            await stage.promote(*(receipt.id for receipt in receipts[begin : begin + 5]))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(promote)
        await trio.to_thread.run_sync(cancel)
    await stage.fall_due()
    delivered: set[int] = set()
    while (claim := await stage.claim_some(group, 1000)) is not None:
        delivered |= {message.id for message in claim.messages}
    assert cancelled
    assert late
    assert delivered == late
    assert not delivered & cancelled
    await conserves(stage, topic, accepted=300, streamed=len(late), cancelled=len(cancelled))


async def test_counters_conserve_whoever_publishes_and_cancels(
    stage: Stage, topic: Topic, user: Any, cursor: Any
) -> None:
    mine = outbox.publish_many(cursor, "orders", [{"body": n, "delay": "1h"} for n in range(6)])
    user.commit()
    theirs = await stage.schedule(topic, *([HOUR] * 4))
    await conserves(stage, topic, accepted=4, streamed=0, cancelled=0)
    verdicts = await stage.store.cancel([int(mine[0].id), theirs[0].id, int(mine[0].id)], stage.now)
    assert [verdict.first_heard for verdict in verdicts] == [True, False, False]
    await conserves(stage, topic, accepted=5, streamed=0, cancelled=2)
    outbox.cancel(cursor, id=mine[1].id)
    outbox.cancel(cursor, id=str(theirs[1].id))
    outbox.publish(cursor, "orders", 1)
    assert await stage.store.count_outbox(100) == {}
    user.commit()
    assert await stage.store.count_outbox(1) in ({topic.id: (1, 1)}, {topic.id: (1, 0)})
    await conserves(stage, topic, accepted=6, streamed=0, cancelled=4)
    await stage.store.write(timers.reschedule, [(int(mine[2].id), stage.now + 2 * HOUR)], stage.now)
    outbox.cancel(cursor, id=mine[2].id)
    user.commit()
    assert stage.count("moved") == 0
    assert Counter(one.first_heard for one in await stage.fall_due(after=3 * HOUR)) == {True: 3 + 1, False: 2}
    await conserves(stage, topic, accepted=11, streamed=6, cancelled=5)
    assert stage.count("delay") == stage.count("outbox_cancel") == 0


# Acks


async def test_an_ack_is_counted_once_and_never_comes_again(
    stage: Stage, topic: Topic, group: Group, user: Any, cursor: Any
) -> None:
    await stage.publish(*(stage.draft(topic, b"%d" % n) for n in range(3)))
    claim = await stage.claim(group)
    name = format_claim(claim.key)
    outbox.ack(cursor, message_of(claim, 0), claim=name)
    outbox.ack(cursor, message_of(claim, 0), claim=name)
    outbox.ack(cursor, message_of(claim, 1), claim=name)
    user.rollback()
    outbox.ack(cursor, message_of(claim, 0), claim=name)
    user.commit()
    await stage.counts(group, acked=0, claimed=3)
    await stage.settle_one(group, Settlement(claim.key, "extend", lease=MINUTE))
    await stage.counts(group, acked=1, claimed=2)
    assert (await stage.ack(group, claim, (0, 1))).acked == 2
    outbox.ack(cursor, message_of(claim, 2), claim=name)
    user.commit()
    assert stage.count("delivery") == 0
    stage.now += 2 * MINUTE
    ended = await stage.end_lease(group)
    assert (ended.lost, ended.retried, ended.dead, ended.ended) == (False, 0, 0, True)
    assert stage.count("claim") == stage.count("retry") == 0
    assert stage.column("SELECT outcome FROM delivery") == [b"\1\1\1"]
    await stage.counts(group, acked=3, claimed=0)
    outbox.ack(cursor, message_of(claim, 2), claim=name)  # the claim has ended, and it stays acked
    user.commit()
    found = await stage.found(claim.messages[2].id)
    assert [event.what for event in found.life] == ["published", "claimed", "acked"]
    assert stage.count("claim") == 0


async def test_messages_of_every_range_of_a_claim_are_acked(stage: Stage, user: Any, cursor: Any) -> None:
    """Of three queues; then what failed of them, of retry queues."""
    stage.now = await stage.store.backend.now()
    wide = await stage.topic("wide", queues=3)
    group = await stage.group(wide, "wide", ladder=Ladder((MINUTE,)))
    await stage.publish(*(stage.draft(wide, b"%d" % n, queue=n // 2) for n in range(6)))
    claim = await stage.claim(group)
    assert [len(one.messages) for one in claim.ranges] == [2, 2, 2]
    name = name_of(claim)
    for one in claim.ranges:
        outbox.ack(cursor, message_of(one, 1), claim=name)
    user.rollback()
    with pytest.raises(NotFound, match="not in this claim"):
        outbox.ack(cursor, message_of(claim.others[1]), claim=format_claim(claim.key, claim.others[0].key))
    outbox.ack(cursor, message_of(claim.others[0], 1), claim=name)
    outbox.ack(cursor, message_of(claim.others[1], 0), claim=name)
    outbox.ack(cursor, message_of(claim.others[1], 0), claim=name)
    user.commit()
    failed = await stage.fail(group, claim)
    assert (failed.lost, failed.retried, failed.ended) == (False, 4, True)
    outbox.ack(cursor, message_of(claim.others[0], 1), claim=name)  # the claim has ended, and it stays acked
    with pytest.raises(LeaseLost):
        outbox.ack(cursor, message_of(claim.others[0], 0), claim=name)
    user.commit()
    assert (await stage.group_state(group)).acked == 2
    await stage.fall_due(after=2 * MINUTE)
    back = await stage.claim(group)
    assert [bodies(one) for one in back.ranges] == [[b"0", b"1"], [b"2"], [b"5"]]
    name = name_of(back)
    for one in back.ranges:
        outbox.ack(cursor, message_of(one), claim=name)
    user.commit()
    assert (await stage.fail(group, back)).dead == 1
    assert (await stage.group_state(group)).acked == 2 + 3


async def test_an_ack_with_a_lost_lease_is_refused(
    stage: Stage, topic: Topic, group: Group, user: Any, cursor: Any
) -> None:
    await stage.publish(stage.draft(topic), stage.draft(topic))
    stage.now -= HOUR
    over = await stage.claim(group, 1)
    stage.now += HOUR
    with pytest.raises(LeaseLost):
        outbox.ack(cursor, message_of(over), claim=format_claim(over.key))
    user.rollback()
    await stage.end_leases(group)
    with pytest.raises(LeaseLost):
        outbox.ack(cursor, message_of(over), claim=format_claim(over.key))
    user.rollback()
    claim = await stage.claim(group, 1)
    forged = format_claim(claim.key)[:-1] + ("1" if format_claim(claim.key)[-1] == "0" else "0")
    with pytest.raises(LeaseLost):
        outbox.ack(cursor, message_of(claim), claim=forged)
    with pytest.raises(NotFound, match="not in this claim"):
        outbox.ack(cursor, message_of(over), claim=format_claim(claim.key))
    user.rollback()
    await stage.fail(group, claim)
    with pytest.raises(LeaseLost):
        outbox.ack(cursor, message_of(claim), claim=format_claim(claim.key))
    user.commit()
    assert stage.count("claim") == 0


async def test_a_message_that_came_again_is_acked_and_its_work_done_once(
    stage: Stage, topic: Topic, group: Group, user: Any, cursor: Any
) -> None:
    own_tables(user)
    await stage.publish(stage.draft(topic))
    stage.now -= HOUR
    deliveries = 0
    while (claim := await stage.claim_some(group)) is not None:
        deliveries += 1
        message = message_of(claim)
        if outbox.once(cursor, message, group="billing"):
            cursor.execute("INSERT INTO paid VALUES (%s)", (message.id,))
        if stage.now < await stage.store.backend.now() - 2 * MINUTE:
            user.commit()  # and then the consumer dies
            stage.now += 2 * MINUTE
            await stage.end_leases(group)
            stage.now = await stage.store.backend.now()
            await stage.fall_due()
            continue
        outbox.ack(cursor, message, claim=format_claim(claim.key))
        user.commit()
    assert deliveries == 2
    assert stage.count("paid") == 1
    stage.now += HOUR
    await stage.end_leases(group)
    assert await stage.fall_due() == []
    assert (await stage.group_state(group)).acked == 1


async def test_a_verdict_is_of_the_row(stage: Stage, topic: Topic, user: Any) -> None:
    """While the outbox's cancel is open the service waits for it, and after a rollback the message is there again."""
    (receipt,) = await stage.schedule(topic, SECOND)
    outbox.cancel(user.cursor(), id=str(receipt.id))
    stage.now += SECOND
    assert await stage.promote(receipt.id) == []
    user.rollback()
    assert [one.entry for one in await stage.promote(receipt.id)] == [receipt.id]
    assert (await stage.store.cancel([receipt.id], stage.now))[0] == Verdict("too_late", topic=topic.id)


async def test_a_message_of_any_range_of_a_claim(stage: Stage, topic: Topic, user: Any, cursor: Any) -> None:
    """It holds the row of that range alone; whoever settles the whole claim meanwhile has to ask again."""
    del topic  # it has set the stage's clock
    wide = await stage.topic("wide", queues=3)
    group = await stage.group(wide)
    await stage.publish(*(stage.draft(wide, queue=queue) for queue in range(3)))
    await stage.fail(group, await stage.claim(group), retry_after=0)
    await stage.fall_due(after=1)
    await stage.publish(*(stage.draft(wide, queue=queue) for queue in range(3)))
    for attempt in (2, 1):  # what came back, and what is new
        claim = await stage.claim(group)
        assert (claim.messages[0].attempt, len(claim.ranges)) == (attempt, 3)
        name = name_of(claim)
        outbox.ack(cursor, message_of(claim.ranges[1]), claim=name)
        assert (await stage.ack(group, claim)).locked
        assert (await stage.group_state(group)).claimed == 3
        user.commit()
        with pytest.raises(NotFound):
            outbox.ack(cursor, message_of(claim.ranges[0]), claim=format_claim(*(one.key for one in claim.others)))
        user.rollback()
        settled = await stage.ack(group, claim)
        assert (settled.acked, settled.ended) == (3, True)


async def test_the_forecast_knows_what_outboxes_do(stage: Stage, topic: Topic, user: Any, cursor: Any) -> None:
    """As soon as it is committed, and not before; and it locks nothing that others count in."""

    async def waiting() -> int:
        (count,) = (await stage.store.read(upcoming.read, topic, stage.now, 10 * HOUR, 1, stage.now)).counts
        return count

    mine = outbox.publish_many(cursor, "orders", [{"body": n, "delay": "1h"} for n in range(6)])
    await stage.schedule(topic, *([HOUR] * 4))
    assert await stage.store.write(forecast.add_up, stage.now) is False
    assert await waiting() == 4
    user.commit()
    assert await waiting() == 10
    outbox.cancel(cursor, id=mine[0].id)
    outbox.set_timer(cursor, "orders", "k", 1, delay="2h")
    outbox.set_timer(cursor, "orders", "k", 1, delay="3h")
    assert await waiting() == 10
    user.commit()
    assert await waiting() == 10
    await stage.store.write(forecast.add_up, stage.now)
    outbox.cancel(cursor, id=mine[1].id)
    user.rollback()
    assert await waiting() == 10

"""A row that another program holds: the store waits for it once, and what needs no wait goes on."""

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

import pytest
import trio

from support.stores import START, connect_raw, open_tables, row_lock_waits, uncommitted
from support.waiting import wait_until
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.errors import Locked
from tarry.store.groups import clients
from tarry.store.mysql.backend import MySQLBackend
from tarry.store.records import ClaimRequest, Draft, Publication, Settlement, Topic
from tarry.store.store import Store
from tarry.store.timers import timers


@pytest.fixture
def store(backend: MySQLBackend) -> Store:
    return Store(backend)


async def _topics(store: Store, *names: str, queues: int = 1) -> list[Topic]:
    return [await store.write(catalogue.add_topic, TopicDraft(name, queues=queues), START) for name in names]


async def _publish(store: Store, batch: list[Publication]) -> list[int]:
    return [answer[0].id for answer in await store.publish(batch, START) if isinstance(answer, list)]


def _for(topic: Topic, queue: int, delay: int | None = None) -> Publication:
    later = None if delay is None else START + delay
    return Publication((Draft(topic=topic, queue=topic.queues[queue], body=b"{}", deliver_at=later),))


@pytest.fixture
def lock_waits(mysql_dsn: str) -> Iterator[Callable[[], int]]:
    """How often a transaction has waited for a row, on the whole server."""
    with closing(open_tables(mysql_dsn)) as tables:
        yield partial(row_lock_waits, tables)


async def test_a_batch_over_many_locked_queues_waits_once(
    store: Store, mysql_dsn: str, lock_waits: Callable[[], int]
) -> None:
    """Its statements are all on their way: the server tries each, and the others' rows are locked meanwhile."""
    (topic,) = await _topics(store, "orders", queues=8)
    batch = [_for(topic, queue) for queue in range(8)]
    with uncommitted(mysql_dsn, "SELECT * FROM queue WHERE number > 0 FOR UPDATE"):
        before, run_again = lock_waits(), store.backend.statistics()["run_again"]
        with pytest.raises(Locked):
            await store.publish(batch, START)
        assert lock_waits() == before + 1
        assert store.backend.statistics()["run_again"] == run_again
        answers = await store.publish_free(batch, START)
        assert [answer is not None for answer in answers] == [True] + [False] * 7
        assert lock_waits() == before + 1
    receipts = [answer[0] for answer in await store.publish(batch, START) if isinstance(answer, list)]
    assert [(receipt.queue, receipt.offset) for receipt in receipts] == [(0, 1)] + [(queue, 0) for queue in range(1, 8)]


async def test_a_locked_tally_leaves_out_what_is_counted_there(
    store: Store, mysql_dsn: str, lock_waits: Callable[[], int]
) -> None:
    orders, mails = await _topics(store, "orders", "mails")
    first = [_for(topic, 0, 60_000) for topic in (orders, mails)]
    made = await _publish(store, first)
    await store.cancel(made, START)
    made = await _publish(store, first)
    with uncommitted(mysql_dsn, f"SELECT * FROM tally WHERE topic_id = {orders.id} FOR UPDATE"):
        before = lock_waits()
        answers = await store.publish_free([*first, _for(orders, 0)], START)
        assert [answer is not None for answer in answers] == [False, True, True]
        assert [verdict.result for verdict in await store.cancel(made, START)] == ["locked", "cancelled"]
        assert lock_waits() == before
    assert [verdict.result for verdict in await store.cancel(made, START)] == ["cancelled", "cancelled"]
    states = await store.read(catalogue.topic_states, [orders, mails])
    assert [(s.accepted, s.cancelled, s.pending) for s in (states[orders.id], states[mails.id])] == [
        (3, 2, 0),
        (3, 2, 1),
    ]


async def test_a_locked_topic_leaves_out_what_would_be_counted_there_first(
    store: Store, mysql_dsn: str, lock_waits: Callable[[], int]
) -> None:
    """Its tally is yet to be made, which takes its own row."""
    orders, mails = await _topics(store, "orders", "mails")
    later = [_for(topic, 0, 10) for topic in (orders, mails)]
    with uncommitted(mysql_dsn, f"SELECT * FROM topic WHERE id = {orders.id} FOR UPDATE"):
        before = lock_waits()
        answers = await store.publish_free([*later, _for(orders, 0)], START)
        assert [answer is not None for answer in answers] == [False, True, True]
        assert lock_waits() == before
    made = await _publish(store, later[:1])
    with connect_raw(mysql_dsn) as other, other.cursor() as cursor:
        cursor.execute("UPDATE delay SET uncounted = 1")
        cursor.execute("DELETE FROM tally")
        other.commit()
        cursor.execute("SELECT * FROM topic WHERE id = %s FOR UPDATE", (orders.id,))
        promoted, held, *_ = await store.promote_some(made, START + 10, whole=True)
        assert (promoted, held) == ([], {orders.queues[0].id: made})
        assert [verdict.result for verdict in await store.cancel(made, START)] == ["locked"]
        assert lock_waits() == before
        other.rollback()
    assert [verdict.result for verdict in await store.cancel(made, START)] == ["cancelled"]


async def test_a_gap_that_somebody_holds_is_waited_for_and_the_queues_are_told(store: Store, mysql_dsn: str) -> None:
    (topic,) = await _topics(store, "orders", queues=3)
    await store.publish([_for(topic, queue) for queue in (0, 1, 2)], START)
    ids = await _publish(store, [_for(topic, queue, 10) for queue in (0, 2, 1, 0)])
    queues = [queue.id for queue in topic.queues]
    # It begins behind the last row of the queue before: there is none.
    gap = f"SELECT * FROM message WHERE queue_id = {queues[0]} FOR UPDATE"
    with uncommitted(mysql_dsn, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", gap):
        with pytest.raises(Locked):
            await store.promote_some(ids, START + 10, whole=True)
        assert await store.read(timers.queues_of, [*ids, 1]) == {
            queues[0]: [ids[0], ids[3]],
            queues[2]: [ids[1]],
            queues[1]: [ids[2]],
        }
        assert len((await store.promote_some(ids[1:3], START + 10, whole=True))[0]) == 2
    assert await store.read(timers.queues_of, ids) == {queues[0]: [ids[0], ids[3]]}
    assert {one.entry for one in (await store.promote_some(ids, START + 10, whole=True))[0]} == {ids[0], ids[3]}


async def test_what_outboxes_cancelled_is_counted_behind_that_of_a_locked_topic(store: Store, mysql_dsn: str) -> None:
    orders, mails = await _topics(store, "orders", "mails")
    tables = open_tables(mysql_dsn)
    tables.rows(f"INSERT INTO tally (topic_id, tally_shard, scheduled, cancelled) VALUES ({orders.id}, 3, 0, 0)")
    for number in range(1, 8):
        topic = mails if number == 7 else orders
        tables.rows(
            f"INSERT INTO outbox_cancel (shard, id, topic_id, scheduled) VALUES (0, {number << 4}, {topic.id}, 1)"
        )
    with uncommitted(mysql_dsn, f"SELECT * FROM tally WHERE topic_id = {orders.id} FOR UPDATE"):
        assert await store.count_outbox(3) == {mails.id: (1, 1)}
        assert await store.count_outbox(3) == {}
    assert [await store.count_outbox(3) for _ in range(3)] == [{orders.id: (3, 3)}, {orders.id: (3, 3)}, {}]
    tables.close()


async def test_a_locked_client_is_left_out_and_not_found_dead(
    store: Store, mysql_dsn: str, lock_waits: Callable[[], int]
) -> None:
    names = ["ann", "bob", "cid"]
    await store.write(clients.renew, dict.fromkeys(names, START), names)
    with uncommitted(mysql_dsn, "SELECT * FROM client WHERE name = 'bob' FOR UPDATE"):
        before = lock_waits()
        rows, locked = await store.write(clients.renew_free, dict.fromkeys([*names, "dan"], START + 5), ["ann", "dan"])
        assert locked == {"bob"}
        assert {name: row.renewed_at for name, row in rows.items()} == dict.fromkeys(["ann", "cid", "dan"], START + 5)
        left = await store.write(clients.remove, dict.fromkeys(["ann", "bob", "cid"], START + 5), START + 5)
        assert [(name, one.watched) for name, one in left.items()] == [("ann", True), ("bob", False), ("cid", True)]
        assert lock_waits() == before
        with pytest.raises(Locked):
            await store.write(clients.remove, {"bob": None}, START + 5)
    assert {name: row.renewed_at for name, row in (await store.read(clients.all_watched)).items()} == {
        "bob": START,
        "dan": START + 5,
    }
    assert (await store.write(clients.remove, {"bob": START}, START + 5))["bob"].watched


async def test_promotion_holds_back_what_goes_to_a_locked_queue(
    store: Store, mysql_dsn: str, lock_waits: Callable[[], int]
) -> None:
    (topic,) = await _topics(store, "orders", queues=3)
    batch = [_for(topic, queue, 10) for queue in (0, 1, 2)]
    ids = await _publish(store, batch)
    with uncommitted(mysql_dsn, "SELECT * FROM queue WHERE number = 1 FOR UPDATE"):
        before = lock_waits()
        promoted, held, *_ = await store.promote_some(ids, START + 10, behind={topic.queues[2].id}, whole=True)
        assert lock_waits() == before
    assert [one.entry for one in promoted] == ids[:1]
    assert held == {topic.queues[1].id: [ids[1]], topic.queues[2].id: [ids[2]]}
    promoted, held, *_ = await store.promote_some(ids, START + 10, whole=True)
    assert {one.entry for one in promoted} == set(ids[1:])
    assert held == {}


async def test_what_is_held_back_is_counted_when_it_goes(store: Store, mysql_dsn: str) -> None:
    """An outbox's message is in no tally before its promotion, however often somebody looks."""
    (topic,) = await _topics(store, "orders", queues=2)
    batch = [_for(topic, queue, 10) for queue in (0, 1)]
    ids = await _publish(store, batch)
    with connect_raw(mysql_dsn) as other, other.cursor() as cursor:
        cursor.execute("UPDATE delay SET uncounted = 1")
        cursor.execute("UPDATE tally SET scheduled = 0")
        other.commit()
        cursor.execute("SELECT * FROM queue WHERE number = 1 FOR UPDATE")
        for _ in range(3):
            await store.promote_some(ids, START + 10, whole=True)
        assert (await store.read(catalogue.topic_states, [topic]))[topic.id].accepted == 1
        other.rollback()
    await store.promote_some(ids, START + 10, whole=True)
    state = (await store.read(catalogue.topic_states, [topic]))[topic.id]
    assert (state.accepted, state.streamed, state.pending) == (2, 2, 0)


async def test_a_turn_gathers_when_it_has_the_group(
    store: Store, mysql_dsn: str, lock_waits: Callable[[], int]
) -> None:
    """Not while another's turn lasts."""
    (topic,) = await _topics(store, "orders")
    group = await store.add_group(topic, "billing", START)
    await store.publish([_for(topic, 0)], START)
    gathered: list[bool] = []
    free = False

    def gather() -> tuple[list[Settlement], list[ClaimRequest], int]:
        gathered.append(free)
        return [], [ClaimRequest("ann", 1, 60_000)], START

    async def turn() -> None:
        turn = await store.turn(group, [], [], START, gather=gather)
        assert [len(claim.messages) for claim in turn.claims if claim] == [1]

    with connect_raw(mysql_dsn) as other, other.cursor() as cursor:
        cursor.execute("SELECT * FROM `cursor` WHERE group_id = %s FOR UPDATE", (group.id,))
        before = lock_waits()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(turn)
            await trio.to_thread.run_sync(wait_until, lambda: lock_waits() > before)
            assert gathered == []
            free = True
            other.rollback()
    assert gathered == [True]

"""Handing what is due to the stream: never early, exactly once, in order of time."""

from contextlib import ExitStack, closing
from functools import partial
from itertools import pairwise
from typing import Any, cast

import pytest
import trio

from support.at_once import at_once
from support.store_homes import on_servers
from support.stores import HOUR, MINUTE, SECOND, Stage, connect_raw, ids_of, nobody_waits, uncommitted
from tarry.store import catalogue
from tarry.store.errors import StoreError
from tarry.store.ids import shard_of
from tarry.store.ports import Transaction
from tarry.store.records import Group, Promoted, Topic
from tarry.store.stream import stretches
from tarry.store.timers import timers


async def test_never_early(stage: Stage, topic: Topic) -> None:
    """I2, to the millisecond."""
    (receipt,) = await stage.schedule(topic, HOUR)
    for now in (stage.now, receipt.due - SECOND, receipt.due - 1):
        stage.now = now
        assert await stage.promote(receipt.id) == []
        assert await stage.store.read(stretches.pull, topic.queues[0], 0, 1) == []
    stage.now = receipt.due
    assert await stage.promote(receipt.id) == [Promoted(receipt.id, topic.queues[0].id, receipt.due)]
    (message,) = await stage.store.read(stretches.pull, topic.queues[0], 0, 1)
    assert (message.id, message.offset, message.streamed_at) == (receipt.id, 0, receipt.due)
    assert stage.count("delay") == 0


async def test_only_what_is_due_of_a_batch(stage: Stage, topic: Topic) -> None:
    receipts = await stage.schedule(topic, *(i * SECOND for i in range(1, 21)))
    stage.now += 10 * SECOND
    promoted = await stage.promote(*ids_of(receipts))
    assert sorted(p.entry for p in promoted) == sorted(ids_of(receipts[:10]))
    assert set(await stage.waiting()) == set(ids_of(receipts[10:]))


async def test_again_finds_nothing(stage: Stage, topic: Topic) -> None:
    (receipt,) = await stage.schedule(topic, MINUTE)
    stage.now += MINUTE
    assert len(await stage.promote(receipt.id, receipt.id)) == 1
    assert await stage.promote(receipt.id) == []
    assert stage.count("message") == 1
    assert stage.column("SELECT next_offset FROM queue") == [1]


async def test_nothing_and_the_unknown(stage: Stage, topic: Topic) -> None:
    (receipt,) = await stage.publish(stage.draft(topic))
    assert await stage.promote() == []
    assert await stage.promote(12345, ~12345, receipt.id, (1 << 63) - 1, -(1 << 63)) == []
    assert stage.count("message") == 1


async def test_what_lies_between_those_asked_for_is_left_alone(stage: Stage, topic: Topic) -> None:
    """Not for a moment is it locked: who met the lock would take the message for gone, or its cancel for too late. And
    nobody waits for a message that a transaction adds there, however long that stays open."""
    ids = sorted(ids_of(await stage.schedule(topic, *range(1, 97))), key=lambda id_: (shard_of(id_), id_))
    ends = {place for place, (a, b) in enumerate(pairwise(ids), 1) if shard_of(a) != shard_of(b)} | {0, len(ids)}
    asked = [id_ for place, id_ in enumerate(ids) if place in ends or place + 1 in ends]
    between = set(ids) - set(asked)
    assert len(between) > len(asked)
    stage.now += HOUR
    free: set[int] = set()
    added = 0

    async def promote(tx: Transaction) -> list[Promoted]:
        promoted = await timers.Promotion(tx, stage.now).promote(asked, behind=())
        if stage.kind != "sqlite":
            other = connect_raw(stage.dsn)
            with closing(other), other.cursor() as cursor:
                cursor.execute("SELECT id FROM delay FORCE INDEX (PRIMARY) FOR UPDATE SKIP LOCKED")
                free.update(id_ for (id_,) in cursor.fetchall())
        return promoted

    with ExitStack() as stack:
        user = None if stage.kind == "sqlite" else stack.enter_context(closing(connect_raw(stage.dsn)))
        if user is not None:
            some = ", ".join(str(id_) for id_ in between)
            columns = "due, nonce, topic_id, queue_id, body, accepted_at, deliver_at"
            with user.cursor() as cursor:
                added = cursor.execute(
                    f"INSERT INTO delay (shard, id, {columns}) SELECT shard, id + 16, {columns} FROM delay"
                    f" WHERE id IN ({some}) AND id + 16 NOT IN (SELECT id FROM (SELECT id FROM delay) others)"
                )
                assert added == len(between)
        promoted = await stage.store.write(promote)  # `Locked`, if it waited
        if user is not None:
            user.commit()
            assert free == between
    assert sorted(one.entry for one in promoted) == sorted(asked)
    assert sorted(stage.column("SELECT id FROM message")) == sorted(asked)
    assert stage.count("delay") == len(between) + added
    assert all(verdict.result == "cancelled" for verdict in await stage.store.cancel(sorted(between), stage.now))


async def test_in_order_of_time(stage: Stage, topic: Topic) -> None:
    """By `deliver_at`, then by acceptance; neither by shard nor as the wheel named them."""
    expected: list[tuple[int, int, int]] = []
    for accepted in range(3):
        drafts = [stage.draft(topic, delay=MINUTE + (7 * i) % 20 * 100 - accepted) for i in range(20)]
        expected += [(r.deliver_at, stage.now, r.id) for r in await stage.publish(*drafts)]
        stage.now += 1
    stage.now += HOUR
    await stage.promote(*(id_ for _, _, id_ in expected))
    got = await stage.store.read(stretches.pull, topic.queues[0], 0, 100)
    assert [message.id for message in got] == [id_ for _, _, id_ in sorted(expected)]
    assert [message.offset for message in got] == list(range(60))


async def test_topics_queues_and_retries_in_one_transaction(stage: Stage) -> None:
    one, two = await stage.topic("one", queues=2), await stage.topic("two")
    group = await stage.group(one)
    await stage.publish(*(stage.draft(one, b"fails%d" % i, queue=1) for i in range(4)))
    claim = await stage.claim(group, 4)
    failed = await stage.fail(group, claim)
    receipts = await stage.publish(
        *(stage.draft(one, b"a%d" % i, 10 * SECOND, queue=i % 2) for i in range(6)),
    ) + await stage.publish(*(stage.draft(two, b"b%d" % i, 10 * SECOND) for i in range(3)))
    stage.now += 10 * SECOND
    entries = [entry for _, entry in failed.timers] + ids_of(receipts)
    back = group.retry_queue_of[one.queues[1].id]
    await stage.store.write(timers.reschedule, [(receipts[-1].id, stage.now - 1)], stage.now)  # it lies elsewhere now
    where = await stage.store.read(timers.queues_of, [*entries, 5, ~5])
    assert list(where) == [back.id, one.queues[0].id, one.queues[1].id, two.queues[0].id]
    assert where[back.id] == entries[:4]
    assert [len(some) for some in where.values()] == [4, 3, 3, 3]
    promoted = await stage.promote(*entries)
    assert {p.entry for p in promoted} == set(entries)
    assert await stage.store.read(timers.queues_of, entries) == {}
    assert sorted(p.queue_id for p in promoted) == sorted(
        [back.id] * 4 + [one.queues[0].id] * 3 + [one.queues[1].id] * 3 + [two.queues[0].id] * 3
    )
    queues = [back.id, one.queues[0].id, one.queues[1].id, two.queues[0].id]
    ends = await stage.store.read(catalogue.queue_ends, queues)
    assert [ends[q] for q in queues] == [4, 3, 7, 3]
    assert stage.count("retry") == stage.count("delay") == 0
    assert stage.count("redelivery") == 4


async def test_retries_in_order_of_time(stage: Stage, topic: Topic, group: Group) -> None:
    await stage.publish(*(stage.draft(topic, b"%d" % i) for i in range(40)))
    claim = await stage.claim(group, 40)
    order: list[int] = []
    for place in range(40):
        settled = await stage.fail(group, claim, (place,), retry_after=(17 * place) % 40 * SECOND)
        order.append(settled.timers[0][0])
    await stage.fall_due(after=HOUR)
    ids = stage.column("SELECT retry_id FROM redelivery ORDER BY `offset`")
    assert [id_ >> 21 for id_ in ids] == sorted(order)


@pytest.mark.parametrize("rows", ["messages", "retries"])
async def test_two_promoters(stage: Stage, rows: str) -> None:
    """I9. Whatever the one has locked the other leaves alone, and finds gone later."""
    topic, group = await stage.topic_and_group(queues=3)
    drafts = [stage.draft(topic, b"%d" % i, None if rows == "retries" else SECOND, queue=i % 3) for i in range(300)]
    entries = ids_of(await stage.publish(*drafts))
    if rows == "retries":
        entries = []
        for _ in range(3):
            settled = await stage.fail(group, await stage.claim(group, 100))
            entries += [entry for _, entry in settled.timers]
    stage.now += HOUR
    promoted: list[Promoted] = []

    async def promote(step: int) -> None:
        mine = entries[::step]
        for start in range(0, 300, 30):
            promoted.extend(await stage.promote(*mine[start : start + 30]))

    await at_once(*(partial(promote, step) for step in (1, -1, 1, -1)))
    assert sorted(p.entry for p in promoted) == sorted(entries)
    table, waiting = ("message", "delay") if rows == "messages" else ("redelivery", "retry")
    assert stage.count(table) == 300
    assert stage.count(waiting) == 0
    for offsets in stage.tables.rows(
        f"SELECT COUNT(*), COUNT(DISTINCT `offset`), MIN(`offset`), MAX(`offset`) FROM {table} GROUP BY queue_id"
    ):
        assert offsets == (100, 100, 0, 99)


@on_servers
async def test_a_row_that_somebody_holds_is_left_for_later(stage: Stage, topic: Topic) -> None:
    """A user's transaction that cancels through the outbox may stay open for an hour: nobody waits for it."""
    held, free = await stage.schedule(topic, MINUTE, MINUTE)
    stage.now += MINUTE
    gone = f"DELETE FROM delay WHERE shard = {held.id & 15} AND id = {held.id}"
    with uncommitted(stage.dsn, gone), nobody_waits(stage.tables):
        assert [p.entry for p in await stage.promote(held.id, free.id)] == [free.id]
    assert [p.entry for p in await stage.promote(held.id, free.id)] == [held.id]


@on_servers
@pytest.mark.parametrize("count", [1, 2, 20])
async def test_an_open_insert_keeps_nobody_waiting(stage: Stage, count: int, topic: Topic, group: Group) -> None:
    """Not even when all other rows go, and the server might read the whole table instead of its key."""
    ids = ids_of(await stage.schedule(topic, *[SECOND] * count))
    await stage.publish(*(stage.draft(topic) for _ in range(count)))
    failed = await stage.fail(group, await stage.claim(group, count), retry_after=SECOND)
    retries = [entry for _, entry in failed.timers]
    stage.now += SECOND
    in_the_middle = (
        "INSERT INTO delay (shard, id, due, nonce, topic_id, queue_id, body, accepted_at, deliver_at)"
        " SELECT 7, 1, due, nonce, topic_id, queue_id, body, accepted_at, deliver_at FROM delay LIMIT 1",
        "INSERT INTO retry SELECT 7, 1, group_id, return_queue_id, message_queue_id, message_offset,"
        " message_id, attempt, history, failed_at, losses FROM retry LIMIT 1",
    )
    with uncommitted(stage.dsn, *in_the_middle), trio.fail_after(1.5):
        assert len(await stage.promote(*ids[1:], *retries)) == 2 * count - 1
        assert (await stage.store.cancel(ids[:1], stage.now))[0].result == "cancelled"
    assert stage.count("delay") == stage.count("retry") == 0


async def test_the_row_count_is_asserted(stage: Stage, topic: Topic) -> None:
    """A promotion that would stream other rows than those it has locked is rolled back."""
    receipts = await stage.schedule(topic, MINUTE, MINUTE)
    stage.now += MINUTE

    class Leaky:
        """A transaction that loses a row of what it is asked to move."""

        def __init__(self, tx: Transaction, query: str) -> None:
            self._tx = tx
            self._query = query

        def __getattr__(self, name: str) -> Any:
            return getattr(self._tx, name)

        async def later_exactly(self, many: int, query: str, *values: object) -> None:
            if query == self._query:
                *before, ids = values
                assert isinstance(ids, list)
                values = (*before, ids[1:])
            await self._tx.later_exactly(many, query, *values)  # type: ignore[arg-type]  # as they came

    for query in ("message.promote", "delay.remove"):

        async def leak(tx: Transaction, query: str = query) -> list[Promoted]:
            leaky = cast("Transaction", Leaky(tx, query))
            return await timers.Promotion(leaky, stage.now).promote(ids_of(receipts))

        with pytest.raises(StoreError, match="the transaction is rolled back"):
            await stage.store.backend.write(leak)
        assert stage.count("message") == 0
        assert stage.count("delay") == 2
        assert stage.column("SELECT next_offset FROM queue") == [0]


async def test_the_near_sweep_sees_its_window(stage: Stage, topic: Topic, group: Group) -> None:
    inside, moved_in, moved_out, outside = await stage.schedule(topic, 2 * MINUTE, HOUR, 2 * MINUTE, HOUR)
    await stage.publish(stage.draft(topic, b"fails"))
    settled = await stage.fail(group, await stage.claim(group), retry_after=2 * MINUTE)
    moves = [(moved_in.id, stage.now + 2 * MINUTE), (moved_out.id, stage.now + 2 * HOUR)]
    await stage.store.write(timers.reschedule, moves, stage.now)
    since, until = stage.now + 2 * MINUTE, stage.now + 2 * MINUTE + 1
    assert sorted(await stage.store.read(timers.near, since, until, 100)) == sorted(
        [(since, inside.id), (since, moved_in.id), *settled.timers]
    )
    assert await stage.store.read(timers.near, since - 10, since, 100) == []
    assert await stage.store.read(timers.near, until, until + 10, 100) == []
    assert len(await stage.store.read(timers.near, since, until, 1)) == 3
    everything = {entry for _, entry in await stage.store.read(timers.near, 0, 1 << 42, 100)}
    assert everything == {inside.id, moved_in.id, moved_out.id, outside.id, settled.timers[0][1]}


@pytest.mark.slow
async def test_many_bodies_at_once(stage: Stage, topic: Topic) -> None:
    """The bodies never leave the server, so no packet limits a batch of promotions."""
    receipts: list[int] = []
    for _ in range(4):
        receipts += ids_of(await stage.publish(*(stage.draft(topic, b"x" * (200 << 10), SECOND) for _ in range(50))))
    stage.now += SECOND
    assert len(await stage.promote(*receipts)) == 200
    assert stage.column("SELECT COUNT(*) FROM message WHERE LENGTH(body) = 204800") == [200]


async def test_some_go_and_the_rest_is_left_where_others_wait(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is one writer. Elsewhere nobody waits for it."""
    topic = await stage.topic()
    receipts = await stage.schedule(topic, *range(1, 601))
    ids = ids_of(receipts)
    await stage.store.cancel([ids[3], ids[340]], stage.now)
    stage.now += SECOND
    asked: list[bool] = []

    def waited_for() -> bool:
        asked.append(len(asked) == 1)
        return asked[-1]

    monkeypatch.setattr(stage.store.backend, "waited_for", waited_for)
    shared = stage.store.backend.shared
    promoted, held, left, *_ = await stage.store.promote_some(ids, stage.now, ())
    went = [id_ for id_ in ids[: 600 if shared else 500] if id_ not in (ids[3], ids[340])]
    assert sorted(one.entry for one in promoted) == sorted(went)
    assert (held, list(left), asked) == ({}, [] if shared else ids[500:], [] if shared else [False, True])
    assert stage.count("message") == len(went)
    promoted, held, left, *_ = await stage.store.promote_some(left, stage.now, ())
    assert (len(promoted), held, list(left)) == (598 - len(went), {}, [])
    assert stage.column("SELECT id FROM message ORDER BY `offset`") == [i for i in ids if i not in (ids[3], ids[340])]
    promoted, held, left, *_ = await stage.store.promote_some((), stage.now, ())
    assert (promoted, held, list(left)) == ([], {}, [])


async def test_what_is_behind_something_held_back_is_held_back_in_all_pieces(stage: Stage) -> None:
    quick, stuck = await stage.topic("quick"), await stage.topic("stuck")
    ids = [id_ for _ in range(130) for topic in (quick, stuck) for id_ in ids_of(await stage.schedule(topic, MINUTE))]
    stage.now += MINUTE
    promoted, held, left, *_ = await stage.store.promote_some(ids, stage.now, {stuck.queues[0].id})
    assert sorted(one.entry for one in promoted) == sorted(ids[::2])
    assert {queue: sorted(some) for queue, some in held.items()} == {stuck.queues[0].id: sorted(ids[1::2])}
    assert list(left) == []

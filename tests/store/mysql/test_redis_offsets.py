"""Offsets from Redis: a reader skips nothing, whatever Redis forgets and whoever comes late (promise I12).

The store is real, so is Redis. The clock of the store is moved by hand.
"""

import random
from collections.abc import AsyncIterator

import pytest
import redis
import trio

from support import servers
from support.at_once import at_once
from support.hearing import HearingStore
from support.reading import CLAIM_BYTES, Readers
from support.stores import MINUTE, SECOND, Stage, connect_raw, ids_of, open_tables
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.errors import Refused
from tarry.store.opening import open_backend
from tarry.store.records import Topic
from tarry.store.stream import sealing, stretches
from tarry.store.stream.sealing import HOLE_AGE


@pytest.fixture
async def stage(mysql_dsn: str, private_redis: servers.PrivateRedis) -> AsyncIterator[Stage]:
    private_redis.start()
    tables = open_tables(mysql_dsn)
    backend = await open_backend(mysql_dsn, private_redis.url)
    await backend.migrate()
    yield Stage("mysql", mysql_dsn, HearingStore(backend), tables)
    await backend.aclose()
    tables.close()


async def redis_topic(stage: Stage) -> Topic:
    topic = await stage.store.write(catalogue.add_topic, TopicDraft("orders", sequencer="redis"), stage.now)
    stage.store.backend.sequence([queue.id for queue in topic.queues], by_redis=True)
    return topic


async def seal(stage: Stage, topic: Topic) -> int:
    while True:
        sealed = await stage.store.seal(topic.queues[0].id, stage.now)
        if not (sealed.more and sealed.moved):
            return sealed.end


async def offsets(stage: Stage, topic: Topic) -> list[int]:
    """What a reader sees."""
    return [message.offset for message in await stage.store.read(stretches.pull, topic.queues[0], 0, 1000)]


def counter(stage: Stage, topic: Topic, private_redis: servers.PrivateRedis) -> tuple["redis.Redis", str]:
    database = stage.dsn.rpartition("/")[2]
    return redis.Redis(port=private_redis.port), f"tarry:{database}:sequence:{topic.queues[0].id}"


async def test_messages_are_there_for_readers_once_sealed(stage: Stage) -> None:
    topic = await redis_topic(stage)
    receipts = await stage.publish(*[stage.draft(topic) for _ in range(5)])
    assert [r.offset for r in receipts] == [0, 1, 2, 3, 4]
    assert await offsets(stage, topic) == []
    assert await seal(stage, topic) == 5
    assert await offsets(stage, topic) == [0, 1, 2, 3, 4]
    await stage.counts(topic, accepted=5, streamed=5, pending=0)


async def test_promotion_draws_there_too(stage: Stage) -> None:
    topic = await redis_topic(stage)
    later = await stage.publish(*[stage.draft(topic, delay=MINUTE) for _ in range(3)])
    await stage.publish(stage.draft(topic))
    stage.now += MINUTE
    promoted = await stage.store.promote(ids_of(later), stage.now)
    assert len(promoted) == 3
    assert await seal(stage, topic) == 4
    assert await offsets(stage, topic) == [0, 1, 2, 3]
    await stage.counts(topic, accepted=4, streamed=4, pending=0)


@pytest.mark.parametrize("what", ["flushed", "restarted", "old snapshot", "far ahead", "away"])
async def test_redis_forgets(stage: Stage, private_redis: servers.PrivateRedis, what: str) -> None:
    topic = await redis_topic(stage)
    await stage.publish(*[stage.draft(topic) for _ in range(7)])
    sealed_first = random.random() < 0.5
    if sealed_first:
        await seal(stage, topic)
    client, key = counter(stage, topic, private_redis)
    if what == "flushed":
        client.flushall()
    elif what == "old snapshot":
        client.set(key, 3)
    elif what == "far ahead":
        client.set(key, 9)  # a draw whose transaction never came: a hole of two
    else:
        client.close()
        private_redis.stop()
        if what == "restarted":
            private_redis.start()
    for _ in range(3):
        await stage.publish(stage.draft(topic), stage.draft(topic))
    stage.now += HOLE_AGE + 1
    end = await seal(stage, topic)
    holes = 2 if what == "far ahead" else 0
    assert end == 13 + holes
    assert await offsets(stage, topic) == [offset for offset in range(end) if not (holes and offset in (7, 8))]
    await stage.counts(topic, accepted=13, streamed=13)
    if what != "away":
        ((drawn,),) = [[int(client.get(key) or -1)]]
        assert drawn == end  # healed: the next draw is right at once
    client.close()


async def test_a_reader_waits_at_a_hole_and_a_late_writer_draws_anew(stage: Stage) -> None:
    topic = await redis_topic(stage)
    queue_id = topic.queues[0].id
    await stage.publish(stage.draft(topic))
    # Another writer has drawn offset 1, and takes its time.
    begins = await stage.store.backend.write(lambda tx: tx.draw_elsewhere({queue_id: 1}))
    assert begins == {queue_id: 1}
    await stage.publish(stage.draft(topic))
    assert await seal(stage, topic) == 1  # not past the hole, however long it is asked
    assert await offsets(stage, topic) == [0]
    stage.now += HOLE_AGE + 1
    assert await seal(stage, topic) == 3
    assert await offsets(stage, topic) == [0, 2]
    with pytest.raises(Exception, match=r"(?i)duplicate"):
        stage.tables.rows(
            "INSERT INTO message (queue_id, `offset`, id, nonce, body, accepted_at, deliver_at, streamed_at)"
            " SELECT queue_id, 1, 77, nonce, body, accepted_at, deliver_at, streamed_at"
            f" FROM message WHERE queue_id = {queue_id} AND `offset` = 0"
        )


async def test_an_open_transaction_is_not_passed(stage: Stage) -> None:
    topic = await redis_topic(stage)
    queue_id = topic.queues[0].id
    await stage.publish(stage.draft(topic))
    slow = connect_raw(stage.dsn)
    ((begin,),) = [list((await stage.store.backend.write(lambda tx: tx.draw_elsewhere({queue_id: 1}))).values())]
    with slow.cursor() as cursor:
        cursor.execute(
            "INSERT INTO message (queue_id, `offset`, id, nonce, body, accepted_at, deliver_at, streamed_at)"
            " SELECT queue_id, %s, 99, nonce, body, accepted_at, deliver_at, streamed_at FROM message"
            " WHERE queue_id = %s AND `offset` = 0",
            (begin, queue_id),
        )
    await stage.publish(stage.draft(topic))
    assert await seal(stage, topic) == 1
    slow.commit()
    slow.close()
    assert await seal(stage, topic) == 3
    assert await offsets(stage, topic) == [0, 1, 2]


async def test_the_sequencer_of_a_live_topic_is_changed(stage: Stage, private_redis: servers.PrivateRedis) -> None:
    """Publishers go on all the while; what they were told is there, once, and no offset is empty but for tombstones."""
    topic = await stage.topic()
    published: list[int] = []
    done = trio.Event()

    async def go_on() -> None:
        while not done.is_set():
            (receipt,) = await stage.publish(stage.draft(topic))
            published.append(receipt.id)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(go_on)
        for sequencer in ("redis", "store", "redis", "store"):
            before = len(published)
            await servers.until(lambda n=before: len(published) > n + 20)  # type: ignore[misc]
            (known,) = await stage.store.read(catalogue.find_topics, ["orders"])
            await stage.store.change_topic(known, TopicDraft("orders", sequencer=sequencer), stage.now)
            stage.store.backend.sequence([topic.queues[0].id], by_redis=sequencer == "redis")
        before = len(published)
        await servers.until(lambda: len(published) > before + 20)
        done.set()
    for queue_id in await stage.store.read(sealing.overrun):
        await stage.store.seal(queue_id, stage.now, at_once=True)
    seen = [message.id for message in await stage.store.read(stretches.pull, topic.queues[0], 0, 100_000)]
    assert sorted(seen) == sorted(published)
    state = await stage.state(topic)
    assert state.accepted == state.streamed == len(published)


async def test_a_greedy_reader_skips_nothing(stage: Stage, private_redis: servers.PrivateRedis) -> None:
    """Twenty publishers, a reader that asks for what is behind the last it saw, and a Redis that forgets meanwhile."""
    topic = await redis_topic(stage)
    forgets = redis.Redis(port=private_redis.port)
    published: list[int] = []
    seen: list[int] = []
    position = 0

    async def publish() -> None:
        for number in range(15):
            for receipt in await stage.publish(*[stage.draft(topic) for _ in range(random.randint(1, 3))]):
                published.append(receipt.id)
            # By what has landed: by the clock, a transaction of a busy machine could meet it at every try.
            if number % 5 == 4:
                await trio.to_thread.run_sync(forgets.flushall)

    async def read() -> None:
        nonlocal position
        while True:
            await seal(stage, topic)
            for message in await stage.store.read(stretches.pull, topic.queues[0], position, 1000):
                seen.append(message.id)
                position = message.offset + 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as background:
        background.start_soon(read)
        await at_once(*[publish] * 20)
        stage.now += HOLE_AGE + SECOND
        await servers.until(lambda: len(seen) >= len(published))
        background.cancel_scope.cancel()
    assert sorted(seen) == sorted(published)


@pytest.mark.parametrize("seed", [1, 2])
async def test_no_reader_skips_what_random_writers_commit(
    stage: Stage, private_redis: servers.PrivateRedis, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """As in `conformance/test_reading.py`, with offsets from a Redis that forgets; who gives up leaves a hole."""
    monkeypatch.setattr(stretches, "CLAIM_BYTES", CLAIM_BYTES)
    topic = await redis_topic(stage)
    await stage.group(topic)
    dice = random.Random(seed)
    readers = Readers(stage, topic, dice)
    await readers.stock()
    client = redis.Redis(port=private_redis.port)

    async def read() -> None:
        while readers.writing:
            if dice.random() < 0.1:
                await trio.to_thread.run_sync(client.flushall)
            await seal(stage, topic)
            await (readers.claim() if dice.random() < 0.5 else readers.pull(0))
            await trio.lowlevel.checkpoint()

    async def seal_on() -> None:
        while readers.writing:
            await seal(stage, topic)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        nursery.start_soon(seal_on)
        await readers.run()
    stage.now += HOLE_AGE + SECOND
    await seal(stage, topic)
    while await readers.pull(0) + await readers.claim():
        pass
    client.close()
    readers.check(holes=True)
    await stage.counts(topic, accepted=len(readers.accepted), streamed=len(readers.accepted))


async def test_the_embedded_store_has_no_choice(tmp_path: "pytest.TempPathFactory") -> None:
    backend = await open_backend(f"sqlite:///{tmp_path}/tarry.db")
    with pytest.raises(Refused, match="sequencer"):
        backend.sequence([1], by_redis=True)
    await backend.aclose()

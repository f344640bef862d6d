"""What is past its time goes and nothing else does; the counters stay whole (I1, I7, I14)."""

from functools import partial

import pytest
import trio

from support.letters import dead_letters_of
from support.stores import HOUR, MINUTE, START, Stage, bodies, ids_of
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.cleaning import retention
from tarry.store.cleaning.retention import Limits, Removed
from tarry.store.groups import holdings
from tarry.store.looking import tracing
from tarry.store.ports import Transaction
from tarry.store.records import Group, Queue, Topic
from tarry.store.rows import Resting
from tarry.store.stream import stretches
from tarry.store.stream.positions import Position
from tarry.store.timers import timers
from tarry.wheel.ladder import Ladder

DAY = 24 * HOUR
LIMITS = Limits(retention=7 * DAY, hard=28 * DAY, history=28 * DAY, dead=90 * DAY)


async def clean(stage: Stage, topic: Topic, *, limits: Limits = LIMITS, limit: int = 3, queue: int = 0) -> Removed:
    """A whole round over one queue, in small batches."""
    rows, start = 0, 0
    expired: dict[int, int] = {}
    while True:
        done = await stage.store.write(
            partial(
                retention.clean_messages,
                topic=topic,
                queue=topic.queues[queue],
                limits=limits,
                now=stage.now,
                start=start,
                limit=limit,
            )
        )
        rows, start = rows + done.rows, done.next
        for group, messages in done.expired.items():
            expired[group] = expired.get(group, 0) + messages
        if done.done:
            return Removed(rows, start, True, expired)


async def clean_returns(stage: Stage, group: Group, *, limits: Limits = LIMITS, limit: int = 3) -> Removed:
    """A whole round over a group's first retry queue."""
    queue, rows, start = back_of(group), 0, 0
    expired: dict[int, int] = {}
    while True:
        done = await stage.store.write(
            partial(
                retention.clean_returns,
                group=group,
                queue=queue,
                limits=limits,
                now=stage.now,
                start=start,
                limit=limit,
            )
        )
        rows, start = rows + done.rows, done.next
        for group_id, messages in done.expired.items():
            expired[group_id] = expired.get(group_id, 0) + messages
        if done.done:
            return Removed(rows, start, True, expired)


def back_of(group: Group) -> Queue:
    return group.retry_queue_of[group.topic.queues[0].id]


async def fill(stage: Stage, topic: Topic, count: int, key: str | None = None) -> list[int]:
    return ids_of(await stage.publish(*(stage.draft(topic, b"%d" % i, key=key) for i in range(count))))


def offsets(stage: Stage) -> list[int]:
    return stage.column("SELECT `offset` FROM message ORDER BY `offset`")


def conserves(stage: Stage, group: Group) -> None:
    """I14: cursor moves = acked + dead + put on the ladder + claimed + expired + skipped, in each queue."""
    for queue_id, moves, told in stage.tables.rows(
        "SELECT queue_id, position - origin, acked + dead + retried + expired + skipped FROM `cursor`"
        f" WHERE group_id = {group.id}"
    ):
        outcomes = stage.column(f"SELECT outcome FROM claim WHERE group_id = {group.id} AND queue_id = {queue_id}")
        assert moves == told + sum(bytes(outcome).count(0) for outcome in outcomes)


async def test_what_is_settled_and_old_goes(stage: Stage) -> None:
    topic = await stage.topic()
    group = await stage.group(topic)
    old = await fill(stage, topic, 10, key="order")
    stage.now += DAY
    young = await fill(stage, topic, 5, key="order")
    await stage.ack(group, await stage.claim(group, 100))
    stage.now = START + 7 * DAY - 1
    assert (await clean(stage, topic)).rows == 0
    stage.now += 1
    assert (await clean(stage, topic)).rows == 10
    assert offsets(stage) == [10, 11, 12, 13, 14]
    assert sorted(stage.column("SELECT id FROM label")) == sorted(young)
    assert await stage.store.read(tracing.find_message, old[0]) is None
    assert await stage.store.read(tracing.find_message, young[0]) is not None
    (verdict,) = await stage.store.cancel([old[0]], stage.now)
    assert verdict.result == "not_found"
    assert await stage.store.read(retention.floors, [topic.queues[0].id]) == {topic.queues[0].id: 10}
    conserves(stage, group)
    state = (await stage.store.read(catalogue.topic_states, [topic]))[topic.id]
    assert (state.accepted, state.streamed, state.pending) == (15, 15, 0)


async def test_a_topic_may_say_otherwise(stage: Stage) -> None:
    """0: as soon as all groups have settled it. Longer than the hard limit: it is that long."""
    topic = await stage.topic()
    one, other = await stage.group(topic, "one"), await stage.group(topic, "other")
    await fill(stage, topic, 4)
    await stage.store.change_topic(topic, TopicDraft("orders", retention=0), stage.now)
    (topic,) = await stage.store.read(catalogue.find_topics, [topic.name])
    await stage.ack(one, await stage.claim(one, 4))
    await stage.ack(other, await stage.claim(other, 3))
    assert (await clean(stage, topic)).rows == 3
    await stage.ack(other, await stage.claim(other, 1))
    assert (await clean(stage, topic)).rows == 1
    await stage.store.change_topic(topic, TopicDraft("orders", retention=60 * DAY), stage.now)
    (topic,) = await stage.store.read(catalogue.find_topics, [topic.name])
    await fill(stage, topic, 2)
    stage.now += 60 * DAY - 1
    assert (await clean(stage, topic)).rows == 0
    stage.now += 1
    assert (await clean(stage, topic)).expired == {one.id: 2, other.id: 2}


async def test_before_the_first_group_comes_nothing_goes_at_once(stage: Stage) -> None:
    topic = await stage.topic()
    await stage.store.change_topic(topic, TopicDraft("orders", retention=0), stage.now)
    (topic,) = await stage.store.read(catalogue.find_topics, [topic.name])
    await fill(stage, topic, 4)
    stage.now += 7 * DAY - 1
    assert (await clean(stage, topic)).rows == 0
    stage.now += 1
    assert (await clean(stage, topic)).rows == 4


async def test_a_cursor_holds_back(stage: Stage) -> None:
    topic = await stage.topic()
    quick, slow = await stage.group(topic, "quick"), await stage.group(topic, "slow")
    await fill(stage, topic, 10)
    await stage.ack(quick, await stage.claim(quick, 10))
    await stage.ack(slow, await stage.claim(slow, 4))
    stage.now += 8 * DAY
    assert (await clean(stage, topic)).rows == 4
    assert offsets(stage) == [4, 5, 6, 7, 8, 9]
    claim = await stage.claim(slow, 10)
    assert bodies(claim) == [b"4", b"5", b"6", b"7", b"8", b"9"]


async def test_an_open_claim_holds_back(stage: Stage) -> None:
    """All of it: an ack that names ids looks them up."""
    topic = await stage.topic()
    group = await stage.group(topic)
    await fill(stage, topic, 10)
    await stage.ack(group, await stage.claim(group, 3))
    held = await stage.claim(group, 4, lease=30 * DAY)
    await stage.ack(group, await stage.claim(group, 3))
    await stage.ack(group, held, (1,))
    stage.now += 8 * DAY
    assert (await clean(stage, topic)).rows == 6
    assert offsets(stage) == [3, 4, 5, 6]
    assert await stage.store.read(retention.floors, [topic.queues[0].id]) == {topic.queues[0].id: 3}
    assert await stage.store.read(holdings.find_places, [held.key]) == {held.key: held.places}
    assert (await stage.ack(group, held)).acked == 4
    assert (await clean(stage, topic)).rows == 4
    assert await stage.store.read(retention.floors, [topic.queues[0].id]) == {topic.queues[0].id: 7}
    conserves(stage, group)


async def test_a_retry_and_a_return_hold_back(stage: Stage) -> None:
    """A message on a rung, then back and not yet claimed, then claimed once more."""
    topic = await stage.topic(ladder=Ladder((1000, 1000)))
    group = await stage.group(topic)
    await fill(stage, topic, 5)
    claim = await stage.claim(group, 5)
    await stage.fail(group, claim, (2,), retry_after=8 * DAY)
    await stage.ack(group, claim)
    stage.now += 8 * DAY - 1
    assert (await clean(stage, topic)).rows == 4
    stage.now += 1
    assert len(await stage.fall_due()) == 1
    assert (await clean(stage, topic)).rows == 0
    back = await stage.claim(group, 1)
    assert bodies(back) == [b"2"]
    assert (await clean(stage, topic)).rows == 0
    await stage.ack(group, back)
    assert (await clean(stage, topic)).rows == 1
    assert offsets(stage) == []
    conserves(stage, group)


async def test_a_dead_letter_outlives_its_message(stage: Stage) -> None:
    topic = await stage.topic(ladder=Ladder(()))
    group = await stage.group(topic)
    (id_,) = ids_of(await stage.publish(stage.draft(topic, b"[1]", key="k", headers=b'{"a":"b"}')))
    await stage.fail(group, await stage.claim(group), reason="no")
    stage.now += 8 * DAY
    assert (await clean(stage, topic)).rows == 1
    assert await stage.store.read(tracing.find_message, id_) is None
    (letter,) = await stage.store.read(dead_letters_of, group, 0, 10)
    assert (letter.message.id, letter.message.body, letter.message.headers) == (id_, b"[1]", b'{"a":"b"}')
    assert b'"reason":"no"' in letter.history
    conserves(stage, group)


async def test_the_hard_limit_takes_what_was_never_claimed(stage: Stage) -> None:
    topic = await stage.topic()
    slow, done = await stage.group(topic, "slow"), await stage.group(topic, "done")
    await fill(stage, topic, 7)
    stage.now += DAY
    await fill(stage, topic, 2)
    await stage.ack(done, await stage.claim(done, 100))
    await stage.ack(slow, await stage.claim(slow, 1))
    await seen(stage, slow)
    stage.now += 27 * DAY
    await seen(stage, slow, done)
    assert (await clean(stage, topic)).expired == {slow.id: 6}
    assert offsets(stage) == [7, 8]
    conserves(stage, slow)
    conserves(stage, done)
    assert bodies(await stage.claim(slow)) == [b"0", b"1"]
    conserves(stage, slow)
    assert stage.column(f"SELECT SUM(expired) FROM `cursor` WHERE group_id = {done.id}") == [0]


async def seen(stage: Stage, *groups: Group) -> None:
    await stage.store.write(retention.see, [group.id for group in groups], stage.now)


async def test_the_hard_limit_under_an_open_claim(stage: Stage) -> None:
    """What the client holds it may still ack; what it fails or lets go has expired, and is on no rung."""
    topic = await stage.topic()
    group = await stage.group(topic)
    await fill(stage, topic, 6)
    acked, failed, lost = [await stage.claim(group, 2, lease=29 * DAY) for _ in range(3)]
    stage.now += 28 * DAY
    await seen(stage, group)
    assert (await clean(stage, topic)).rows == 6
    conserves(stage, group)
    assert (await stage.ack(group, acked)).acked == 2
    assert (await stage.fail(group, failed)).retried == 0
    conserves(stage, group)
    stage.now = lost.lease_until
    await stage.end_leases(group)
    assert (stage.count("claim"), stage.count("retry"), stage.count("dead")) == (0, 0, 0)
    assert stage.column("SELECT SUM(expired) FROM `cursor`") == [4]
    conserves(stage, group)


async def test_the_hard_limit_takes_retries_with_it(stage: Stage) -> None:
    topic = await stage.topic(ladder=Ladder((40 * DAY,)))
    group = await stage.group(topic)
    await fill(stage, topic, 4)
    claim = await stage.claim(group, 4)
    await stage.fail(group, claim, (1, 2))
    await stage.ack(group, claim)
    stage.now += 28 * DAY
    await seen(stage, group)
    assert (await clean(stage, topic, limit=1)).rows == 4
    assert stage.count("retry") == 0
    assert await stage.store.read(catalogue.lags, [group.id]) == {group.id: (2, 0)}
    assert await stage.claim_some(group) is None
    assert await stage.store.read(catalogue.lags, [group.id]) == {group.id: (0, 0)}
    conserves(stage, group)
    assert stage.column("SELECT SUM(expired) FROM `cursor`") == [2]


@pytest.mark.parametrize("rungs", [(), (1000,), (1000, 1000)])
async def test_the_hard_limit_under_a_return_in_a_claim(stage: Stage, rungs: tuple[int, ...]) -> None:
    """It fails when it is gone: no rung, and no dead letter without a body."""
    topic = await stage.topic(ladder=Ladder(rungs or (5,)))
    group = await stage.group(topic)
    await fill(stage, topic, 2)
    await stage.fail(group, await stage.claim(group, 2), retry_after=10)
    stage.now += 10
    await stage.fall_due()
    back = await stage.claim(group, 2, lease=60 * DAY)
    stage.now += 28 * DAY
    await seen(stage, group)
    assert (await clean(stage, topic)).rows == 2
    settled = await stage.fail(group, back)
    assert (settled.retried, settled.dead) == (0, 0)
    assert (stage.count("retry"), stage.count("dead"), stage.count("claim")) == (0, 0, 0)
    conserves(stage, group)


async def test_a_group_that_nobody_asks_for_holds_nothing_back(stage: Stage) -> None:
    topic = await stage.topic()
    gone, here = await stage.group(topic, "gone"), await stage.group(topic, "here")
    stage.now += 20 * DAY
    await fill(stage, topic, 3)
    await stage.ack(here, await stage.claim(here))
    await seen(stage, here)
    stage.now += 7 * DAY
    assert (await clean(stage, topic)).rows == 0
    stage.now += DAY
    await seen(stage, here)
    assert (await clean(stage, topic)).expired == {gone.id: 3}
    assert offsets(stage) == []
    conserves(stage, gone)
    await fill(stage, topic, 2)
    assert len((await stage.claim(gone)).messages) == 2
    conserves(stage, gone)


async def test_readers_begin_at_the_floor(stage: Stage) -> None:
    topic = await stage.topic(queues=2)
    group = await stage.group(topic)
    for queue in (0, 1):
        await stage.publish(*(stage.draft(topic, b"%d" % i, queue=queue) for i in range(6)))
        stage.now += DAY
    await stage.ack(group, await stage.claim(group, 100))
    stage.now = START + 7 * DAY
    assert (await clean(stage, topic)).rows == 6
    assert (await clean(stage, topic, queue=1)).rows == 0
    await fill(stage, topic, 2)
    pulled = await stage.store.read(stretches.pull, topic.queues[0], 0, 10)
    assert [(m.offset, m.body) for m in pulled] == [(6, b"0"), (7, b"1")]
    late = await stage.group(topic, "late")
    assert [(q.queue, q.lag) for q in (await stage.store.read(catalogue.group_state, late)).queues if not q.retry] == [
        (0, 2),
        (1, 6),
    ]
    conserves(stage, late)


async def test_nothing_unarchived_goes(stage: Stage) -> None:
    """Once there is an archive: messages by offset, the log by number, the rest by time."""
    topic = await stage.topic(ladder=Ladder(()))
    group = await stage.group(topic)
    queue = topic.queues[0].id
    await fill(stage, topic, 6)
    for _ in range(2):
        await stage.ack(group, await stage.claim(group, 2))
    await stage.fail(group, await stage.claim(group, 2))
    stage.now += 91 * DAY
    await seen(stage, group)
    archived(stage, 0, 0, START - 1)
    assert (await clean(stage, topic)).rows == 0
    assert (await clean_log(stage, group)).rows == 0
    assert (await clean_dead(stage, group)).rows == 0
    archived(stage, 0, queue, 4)
    archived(stage, group.id, queue, 1)
    assert (await clean(stage, topic)).rows == 4
    assert offsets(stage) == [4, 5]
    assert (await clean_log(stage, group)).rows == 1
    stage.tables.rows("DELETE FROM archived WHERE queue_id = 0")
    archived(stage, 0, 0, stage.now)
    assert (await clean_dead(stage, group)).rows == 2


def archived(stage: Stage, group_id: int, queue_id: int, upto: int) -> None:
    stage.tables.rows(f"INSERT INTO archived (group_id, queue_id, upto) VALUES ({group_id}, {queue_id}, {upto})")


async def clean_log(stage: Stage, group: Group, limit: int = 100) -> Removed:
    queue_id = group.topic.queues[0].id
    return await stage.store.write(
        lambda tx: retention.clean_deliveries(
            tx, group_id=group.id, queue_id=queue_id, limits=LIMITS, now=stage.now, start=0, limit=limit
        )
    )


async def clean_dead(stage: Stage, group: Group, limit: int = 100) -> Removed:
    return await stage.store.write(
        lambda tx: retention.clean_dead(tx, group_id=group.id, limits=LIMITS, now=stage.now, limit=limit)
    )


async def clean_seeks(stage: Stage, group: Group, limit: int = 100) -> Removed:
    """A whole round over a group's first cursor."""
    queue_id, rows, start = group.topic.queues[0].id, 0, 0
    while True:
        done = await stage.store.write(
            partial(
                retention.clean_seeks,
                group_id=group.id,
                queue_id=queue_id,
                limits=LIMITS,
                now=stage.now,
                start=start,
                limit=limit,
            )
        )
        rows, start = rows + done.rows, done.next
        if done.done:
            return Removed(rows, start, True)


@pytest.mark.parametrize("limit", [1, 100])
async def test_seeks_go_with_the_log(stage: Stage, limit: int) -> None:
    topic = await stage.topic()
    group, other = await stage.group(topic), await stage.group(topic, "other")
    await fill(stage, topic, 6)
    await stage.claim(group, 2)
    earliest, latest = Position("earliest"), Position("latest")
    for one, position in ((group, latest), (group, earliest), (other, latest)):
        await stage.store.seek(one, topic.queues, position, stage.now)
    stage.now += 1
    await stage.store.seek(group, topic.queues, latest, stage.now)
    moved = stage.column(f"SELECT sought FROM `cursor` WHERE group_id = {group.id}")
    stage.now = START + 28 * DAY - 1
    assert (await clean_seeks(stage, group, limit)).rows == 0
    stage.now += 1
    assert (await clean_seeks(stage, group, limit)).rows == 2
    numbers = stage.column(f"SELECT number FROM seek WHERE group_id = {group.id}")
    stage.now += 1
    archived(stage, 0, 0, 0)
    archived(stage, group.id, topic.queues[0].id, numbers[0])
    assert (await clean_seeks(stage, group, limit)).rows == 0
    archived(stage, other.id, topic.queues[0].id, 1 << 40)
    stage.tables.rows(f"UPDATE archived SET upto = {numbers[0] + 1} WHERE group_id = {group.id}")
    assert (await clean_seeks(stage, group, limit)).rows == 1
    assert stage.column("SELECT group_id FROM seek") == [other.id]
    assert stage.column(f"SELECT sought FROM `cursor` WHERE group_id = {group.id}") == moved


async def test_the_log_goes(stage: Stage) -> None:
    topic = await stage.topic()
    group = await stage.group(topic)
    await fill(stage, topic, 6)
    await stage.ack(group, await stage.claim(group, 2))
    stage.now += 1
    await stage.ack(group, await stage.claim(group, 2))
    open_ = await stage.claim(group, 2, lease=60 * DAY)
    stage.now = START + 28 * DAY - 1
    assert (await clean_log(stage, group)).rows == 0
    stage.now += 1
    assert (await clean_log(stage, group)).rows == 1
    stage.now += 1
    assert (await clean_log(stage, group)).rows == 1
    assert (stage.count("delivery"), stage.count("claim")) == (0, 1)
    assert (await stage.ack(group, open_)).acked == 2


async def test_returns_go_once_they_are_settled(stage: Stage) -> None:
    topic = await stage.topic()
    group = await stage.group(topic)
    await fill(stage, topic, 6)
    await stage.fail(group, await stage.claim(group, 6), retry_after=1)
    stage.now += 1
    assert len(await stage.fall_due()) == 6
    await stage.ack(group, await stage.claim(group, 2))
    held = await stage.claim(group, 2, lease=60 * DAY)
    stage.now += 28 * DAY - 1
    assert (await clean_returns(stage, group)).rows == 0
    stage.now += 1
    await seen(stage, group)
    done = await clean_returns(stage, group)
    assert (done.rows, done.expired) == (4, {group.id: 2})  # 2 settled, 2 never claimed; 2 are in a claim
    conserves(stage, group)
    assert stage.count("redelivery") == 2
    assert (await stage.ack(group, held)).acked == 2
    assert (await clean_returns(stage, group)).rows == 2
    conserves(stage, group)


async def test_returns_stay_until_their_deliveries_are_archived(stage: Stage) -> None:
    """The archive looks up in them what was delivered again."""
    topic = await stage.topic()
    group = await stage.group(topic)
    await fill(stage, topic, 4)
    await stage.fail(group, await stage.claim(group, 4), retry_after=1)
    stage.now += 1
    await stage.fall_due()
    for _ in range(2):
        await stage.ack(group, await stage.claim(group, 2))
    stage.now += 28 * DAY
    await seen(stage, group)
    back = group.retry_queue_of[topic.queues[0].id].id
    archived(stage, 0, 0, stage.now)
    assert (await clean_returns(stage, group)).rows == 0
    archived(stage, group.id, back, 1)
    assert (await clean_returns(stage, group)).rows == 2
    stage.tables.rows("DELETE FROM archived")
    assert (await clean_returns(stage, group)).rows == 2


async def test_dead_letters_go(stage: Stage) -> None:
    topic = await stage.topic(ladder=Ladder(()))
    group = await stage.group(topic)
    await fill(stage, topic, 5)
    await stage.fail(group, await stage.claim(group, 3))
    stage.now += 1
    await stage.fail(group, await stage.claim(group, 2))
    stage.now = START + 90 * DAY
    done = [await clean_dead(stage, group, 2) for _ in range(3)]
    assert [(one.rows, one.done) for one in done] == [(2, False), (1, True), (0, True)]
    assert stage.count("dead") == 2
    stage.now += 1
    assert (await clean_dead(stage, group)).rows == 2
    assert (await stage.store.read(catalogue.group_state, group)).letters == 0


async def test_cancelled_messages_go(stage: Stage) -> None:
    topic = await stage.topic()
    soon = ids_of(await stage.publish(*(stage.draft(topic, b"1", MINUTE, key="k") for _ in range(3))))
    late = ids_of(await stage.publish(stage.draft(topic, b"1", 60 * DAY, key="k")))
    await stage.store.cancel([*soon, *late], stage.now)

    async def clean_all() -> int:
        rows = 0
        for shard in range(16):
            done = await stage.store.write(
                partial(retention.clean_cancelled, shard=shard, limits=LIMITS, now=stage.now, start=0, limit=100)
            )
            rows += done.rows
        return rows

    stage.now += 28 * DAY + MINUTE - 1
    assert await clean_all() == 0
    stage.now += 2
    assert await clean_all() == 3
    assert stage.column("SELECT id FROM label") == late
    stage.now += 60 * DAY
    assert await clean_all() == 1
    assert (stage.count("cancelled"), stage.count("label")) == (0, 0)


async def test_pointers_to_nothing_go(stage: Stage) -> None:
    topic = await stage.topic()
    gone, kept = ids_of(await stage.schedule(topic, MINUTE, MINUTE))
    await stage.store.write(timers.reschedule, [(gone, stage.now + HOUR), (kept, stage.now + HOUR)], stage.now)
    stage.tables.rows(f"DELETE FROM delay WHERE id = {gone}")  # a user's own transaction
    stage.now += 2 * HOUR
    for shard in range(16):
        await stage.store.write(partial(retention.clean_moved, shard=shard, now=stage.now, limit=10))
    assert stage.column("SELECT id FROM moved") == [kept]


async def test_two_at_once_do_no_harm(stage: Stage) -> None:
    topic = await stage.topic()
    group = await stage.group(topic)
    await fill(stage, topic, 60, key="k")
    await stage.ack(group, await stage.claim(group, 40))
    stage.now += 28 * DAY
    await seen(stage, group)
    results: list[Removed] = []

    async def work() -> None:
        results.append(await clean(stage, topic, limit=7))

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(work)
    assert sum(done.rows for done in results) == 60
    assert sum(sum(done.expired.values()) for done in results) == 20
    assert (stage.count("message"), stage.count("label")) == (0, 0)
    conserves(stage, group)


async def test_publishers_and_consumers_go_on_during_a_batch(stage: Stage) -> None:
    """A batch that is not committed yet holds up nobody (on the embedded store there is one writer at a time)."""
    if stage.kind == "sqlite":
        pytest.skip("one writer")
    topic = await stage.topic()
    group = await stage.group(topic)
    await fill(stage, topic, 20, key="k")
    await stage.ack(group, await stage.claim(group, 20))
    stage.now += 8 * DAY
    began, go_on = trio.Event(), trio.Event()

    async def batch(tx: Transaction) -> Removed:
        done = await retention.clean_messages(
            tx, topic=topic, queue=topic.queues[0], limits=LIMITS, now=stage.now, start=0, limit=100
        )
        began.set()
        await go_on.wait()
        return done

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.store.write, batch)
        await began.wait()
        with trio.fail_after(1):  # a lock would be waited for two seconds
            await fill(stage, topic, 3, key="k")
            claim = await stage.claim(group, 2)
            await stage.fail(group, claim, (0,))
            await stage.ack(group, claim)
            await stage.store.cancel(ids_of(await stage.schedule(topic, HOUR)), stage.now)
        go_on.set()
    assert offsets(stage) == [20, 21, 22]


async def test_a_retry_that_somebody_works_on_stays(stage: Stage) -> None:
    """Promotion has it locked: the message waits for the next round."""
    if stage.kind == "sqlite":
        pytest.skip("one writer")
    topic = await stage.topic(ladder=Ladder((40 * DAY,)))
    group = await stage.group(topic)
    await fill(stage, topic, 3)
    claim = await stage.claim(group, 3)
    await stage.fail(group, claim, (1,))
    await stage.ack(group, claim)
    stage.now += 28 * DAY
    began, go_on = trio.Event(), trio.Event()

    async def hold(tx: Transaction) -> None:
        await tx.fetch("retry.lock", Resting, stage.column("SELECT id FROM retry"))
        began.set()
        await go_on.wait()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.store.backend.write, hold)
        await began.wait()
        assert (await clean(stage, topic)).rows == 2
        go_on.set()
    assert (offsets(stage), stage.count("retry")) == ([1], 1)
    assert (await clean(stage, topic)).rows == 1
    assert (offsets(stage), stage.count("retry")) == ([], 0)
    conserves(stage, group)

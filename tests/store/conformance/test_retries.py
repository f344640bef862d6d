"""The ladder: a failed message comes again on time, with its number and its history."""

import json

import pymysql
import pytest

from support.store_homes import on_servers
from support.stores import HOUR, MINUTE, SECOND, START, Stage, bodies
from tarry.store.ports import Transaction
from tarry.store.records import Claim, Group, Settled, Settlement, Topic
from tarry.store.rows import Resting
from tarry.store.stream import stretches
from tarry.wheel.ladder import DEFAULT_RUNGS, Ladder


async def _claimed(stage: Stage, count: int = 1, ladder: Ladder | None = None) -> tuple[Topic, Group, Claim]:
    topic = await stage.topic()
    group = await stage.group(topic, ladder=ladder)
    await stage.publish(*(stage.draft(topic, b"%d" % i) for i in range(count)))
    return topic, group, await stage.claim(group, count)


async def _returned(stage: Stage, group: Group, settled: Settled) -> Claim:
    """What comes back at the times that were answered, a millisecond before which nothing does."""
    due = max(due for due, _ in settled.timers)
    stage.now = min(due for due, _ in settled.timers) - 1
    assert await stage.fall_due() == []
    stage.now = due
    assert len(await stage.fall_due()) == len(settled.timers)
    return await stage.claim(group, len(settled.timers))


async def test_every_rung_of_the_default_ladder(stage: Stage) -> None:
    """I6. Sixteen rungs, none early; the attempts count up; after the seventeenth delivery it is dead."""
    topic, group, claim = await _claimed(stage)
    deliveries = 1
    for number, rest in enumerate(DEFAULT_RUNGS, 1):
        assert [m.attempt for m in claim.messages] == [number]
        stage.now += 7 * SECOND
        settled = await stage.fail(group, claim, reason=f"no {number}")
        assert (settled.retried, settled.dead, settled.ended) == (1, 0, True)
        ((due, _),) = settled.timers
        assert stage.now + rest <= due <= stage.now + rest + 1
        assert (await stage.group_state(group)).retries == tuple(int(n == number) for n in range(1, 17))
        claim = await _returned(stage, group, settled)
        deliveries += 1
    assert deliveries == 17
    settled = await stage.fail(group, claim, reason="no 17")
    assert (settled.retried, settled.dead, settled.timers) == (0, 1, ())
    assert stage.count("retry") == 0
    assert stage.count("dead") == 1
    (message,) = await stage.store.read(stretches.pull, topic.queues[0], 0, 10)
    assert message.offset == 0, "it stays in the stream for the other groups"
    await stage.counts(group, acked=0, dead=1, retried=16)


async def test_a_lost_lease_counts_and_its_rung_begins_at_the_lease_s_end(stage: Stage) -> None:
    """However late that is found."""
    _, group, claim = await _claimed(stage, 2)
    stage.now = claim.lease_until + 3 * SECOND
    settled = await stage.end_lease(group)
    for due, _ in settled.timers:
        assert claim.lease_until + 10 * SECOND <= due <= claim.lease_until + 10 * SECOND + 1
    back = await _returned(stage, group, settled)
    assert [m.attempt for m in back.messages] == [2, 2]
    histories = stage.column("SELECT history FROM redelivery")
    assert [json.loads(history) for history in histories] == [
        [{"at": claim.lease_until, "client": "client-1", "reason": "lease lost"}]
    ] * 2


async def test_a_lease_lost_long_ago(stage: Stage) -> None:
    """Its rung is over already: it may come at once."""
    _, group, claim = await _claimed(stage)
    stage.now = claim.lease_until + HOUR
    settled = await stage.end_lease(group)
    assert settled.timers[0][0] == claim.lease_until + 10 * SECOND
    assert len(await stage.fall_due()) == 1


@pytest.mark.parametrize("wait", [0, 1, 5 * SECOND, 30 * HOUR])
async def test_a_wait_of_the_consumer_s_own(stage: Stage, wait: int) -> None:
    _, group, claim = await _claimed(stage)
    stage.now += SECOND
    settled = await stage.fail(group, claim, retry_after=wait)
    assert START + SECOND + wait <= settled.timers[0][0] <= START + SECOND + wait + 1
    back = await _returned(stage, group, settled)
    assert back.messages[0].attempt == 2


async def test_suspended_without_a_count(stage: Stage) -> None:
    _, group, claim = await _claimed(stage, ladder=Ladder((10 * SECOND, 20 * SECOND)))
    claim = await _returned(stage, group, await stage.fail(group, claim, reason="counts"))
    for _ in range(5):
        settled = await stage.fail(group, claim, reason="not now", count=False)
        assert (settled.retried, settled.dead) == (1, 0)
        assert settled.timers[0][0] >= stage.now + 20 * SECOND
        claim = await _returned(stage, group, settled)
        assert claim.messages[0].attempt == 2
        (history,) = stage.column("SELECT history FROM redelivery ORDER BY `offset` DESC LIMIT 1")
        assert [entry["reason"] for entry in json.loads(history)] == ["counts"]
    settled = await stage.fail(group, claim, retry_after=MINUTE, count=False)
    assert settled.timers[0][0] >= stage.now + MINUTE
    assert b"\6" in stage.column("SELECT outcome FROM delivery")
    assert (await stage.group_state(group)).retried == 7


async def test_suspended_on_the_last_delivery(stage: Stage) -> None:
    """Beyond the last rung it rests as long as on it, and does not die."""
    _, group, claim = await _claimed(stage, ladder=Ladder((10 * SECOND,)))
    claim = await _returned(stage, group, await stage.fail(group, claim))
    settled = await stage.fail(group, claim, count=False)
    assert (settled.retried, settled.dead) == (1, 0)
    assert settled.timers[0][0] >= stage.now + 10 * SECOND
    claim = await _returned(stage, group, settled)
    assert claim.messages[0].attempt == 2
    assert (await stage.fail(group, claim)).dead == 1


async def test_suspended_where_there_is_no_ladder(stage: Stage) -> None:
    _, group, claim = await _claimed(stage, ladder=Ladder(()))
    settled = await stage.fail(group, claim, count=False)
    assert (settled.retried, settled.dead) == (1, 0)


async def test_part_of_a_claim(stage: Stage) -> None:
    _, group, claim = await _claimed(stage, 5)
    settled = await stage.fail(group, claim, (1, 3), reason="odd")
    assert (settled.retried, settled.ended) == (2, False)
    assert len(settled.timers) == 2
    assert (await stage.ack(group, claim)).acked == 3
    assert bodies(await _returned(stage, group, settled)) == [b"1", b"3"]
    assert stage.column("SELECT outcome FROM delivery") == [b"\1\2\1\2\1"]


async def test_named_twice(stage: Stage) -> None:
    """I4. It goes onto its rung once."""
    _, group, claim = await _claimed(stage, 2)
    settled = await stage.fail(group, claim, (0, 0, 0))
    assert settled.retried == 1
    assert stage.count("retry") == 1


async def test_what_is_not_in_its_hands(stage: Stage) -> None:
    _, group, claim = await _claimed(stage, 3)
    await stage.fail(group, claim, (0,))
    await stage.ack(group, claim, (1,))
    for places in ((0,), (1,), (0, 2), (1, 2)):
        assert await stage.fail(group, claim, places) == Settled(lost=True)
    assert stage.count("retry") == 1
    assert (await stage.fail(group, claim)).retried == 1
    assert await stage.fail(group, claim) == Settled(lost=True, ended=True)
    assert stage.count("retry") == 2


async def test_reasons_and_clients_are_remembered(stage: Stage, topic: Topic, group: Group) -> None:
    await stage.publish(stage.draft(topic))
    for number, reason in enumerate(['żółw 🐢 "quoted"', None, "x" * 5000]):
        claim = await stage.claim(group, 1, client=f"client-{number}")
        await stage.fail(group, claim, reason=reason, retry_after=SECOND)
        await stage.fall_due(after=SECOND)
    (history,) = stage.column("SELECT history FROM redelivery ORDER BY `offset` DESC LIMIT 1")
    assert json.loads(history) == [
        {"at": START, "client": "client-0", "reason": 'żółw 🐢 "quoted"'},
        {"at": START + SECOND, "client": "client-1", "reason": None},
        {"at": START + 2 * SECOND, "client": "client-2", "reason": "x" * 5000},
    ]


async def test_ladders_of_topic_and_group(stage: Stage) -> None:
    """A group's own comes first, then the topic's, then the default."""
    topic = await stage.topic(ladder=Ladder((2 * SECOND,)))
    of_topic, own = await stage.group(topic, "a"), await stage.group(topic, "b", ladder=Ladder((5 * SECOND,)))
    plain = await stage.group(await stage.topic("plain"), "c")
    for group, rest in ((of_topic, 2), (own, 5), (plain, 10)):
        await stage.publish(stage.draft(group.topic))
        settled = await stage.fail(group, await stage.claim(group, 1))
        assert settled.timers[0][0] - stage.now in (rest * SECOND, rest * SECOND + 1)


async def test_from_every_queue_to_its_own_retry_queue(stage: Stage) -> None:
    topic, group = await stage.topic_and_group(queues=3)
    await stage.publish(*(stage.draft(topic, b"%d" % i, queue=i) for i in range(3)))
    timers: list[tuple[int, int]] = []
    for _ in range(3):
        timers += (await stage.fail(group, await stage.claim(group, 1))).timers
    promoted = await stage.fall_due(after=MINUTE)
    assert {p.queue_id for p in promoted} == {queue.id for queue in group.retry_queues}
    for _ in range(3):
        claim = await stage.claim(group, 1)
        ((message,), queue_id) = claim.messages, claim.key.queue_id
        own = topic.queues[message.queue]
        assert group.retry_queue_of[own.id].id == queue_id
        assert message.body == b"%d" % message.queue


async def test_a_message_that_retention_took_before_it_failed(stage: Stage) -> None:
    _, group, claim = await _claimed(stage, 2)
    stage.tables.rows("DELETE FROM message WHERE `offset` = 0")
    settled = await stage.fail(group, claim)
    assert (settled.retried, settled.ended) == (1, True)
    assert stage.column("SELECT outcome FROM delivery") == [b"\7\2"]
    assert stage.column("SELECT expired FROM `cursor` WHERE position = 2") == [1]


async def test_a_thousand_at_once(stage: Stage) -> None:
    _, group, claim = await _claimed(stage, 1000)
    settled = await stage.fail(group, claim, reason="all")
    assert settled.retried == 1000
    assert len({entry for _, entry in settled.timers}) == 1000
    stage.now = max(due for due, _ in settled.timers)
    assert len(await stage.promote(*(entry for _, entry in settled.timers))) == 1000
    back = await stage.claim(group, 1000)
    assert bodies(back) == [b"%d" % i for i in range(1000)]
    assert {m.attempt for m in back.messages} == {2}


async def test_settlements_of_one_turn_keep_their_own_terms(stage: Stage) -> None:
    _, group, claim = await _claimed(stage, 4)
    settled = await stage.settle(
        group,
        Settlement(claim.key, "fail", (2,), reason="a", retry_after=MINUTE),
        Settlement(claim.key, "ack", (0,)),
        Settlement(claim.key, "fail", (1,), reason="b"),
        Settlement(claim.key, "fail", (3,), count=False, retry_after=HOUR),
    )
    waits = [tuple(due - stage.now for due, _ in s.timers) if s else None for s in settled]
    assert waits == [(MINUTE,), (), (10 * SECOND,), (HOUR,)]
    assert [s and s.ended for s in settled] == [True] * 4
    assert sorted(stage.column("SELECT attempt FROM retry")) == [1, 2, 2]


async def test_jitter_draws_a_rest_out_and_never_cuts_it(stage: Stage, topic: Topic) -> None:
    ladder = Ladder((10 * SECOND,), jitter=0.5)
    group = await stage.group(topic, ladder=ladder)
    (known,) = await stage.store.groups([topic])
    assert known.ladder == group.ladder == ladder
    await stage.publish(*(stage.draft(topic) for _ in range(200)))
    settled = await stage.fail(group, await stage.claim(group, 200))
    rests = [due - stage.now for due, _ in settled.timers]
    assert all(10 * SECOND <= rest <= 15 * SECOND for rest in rests)
    assert max(rests) - min(rests) > 3 * SECOND
    await stage.publish(stage.draft(topic))
    settled = await stage.fail(group, await stage.claim(group), retry_after=7 * SECOND)
    assert [due - stage.now for due, _ in settled.timers] == [7 * SECOND]


@on_servers
async def test_a_look_whether_the_message_is_there_locks_none(stage: Stage) -> None:
    _, group, claim = await _claimed(stage)
    ((_, entry),) = (await stage.fail(group, claim)).timers

    async def look(tx: Transaction) -> list[Resting]:
        rows = await tx.fetch("retry.lock", Resting, [~entry])
        stage.tables.rows("SELECT id FROM message FOR UPDATE NOWAIT")
        with pytest.raises(pymysql.OperationalError, match=r"NOWAIT|[Ll]ock"):
            stage.tables.rows("SELECT id FROM retry FOR UPDATE NOWAIT")
        return rows

    (row,) = await stage.store.backend.write(look)
    assert row.is_there

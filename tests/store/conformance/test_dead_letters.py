"""Dead letters: every exhausted message once, whole, with its history (I7)."""

import json

from support.stores import MINUTE, SECOND, START, Stage, ids_of
from tarry.store.records import DeadLetter, Group
from tarry.wheel.ladder import Ladder


async def _exhaust(stage: Stage, group: Group) -> int:
    """Fails all that comes, until nothing comes any more; returns how many deliveries that took."""
    deliveries = 0
    while True:
        while (claim := await stage.claim_some(group, 100)) is not None:
            deliveries += len(claim.messages)
            await stage.fail(group, claim, reason="poison")
        waiting = [due for entry, due in (await stage.waiting()).items() if entry < 0]
        if not waiting:
            return deliveries
        stage.now = max(waiting)
        await stage.fall_due()


async def test_seventeen_deliveries_then_dead_once(stage: Stage) -> None:
    topic = await stage.topic()
    group = await stage.group(topic)
    body, headers = bytes(range(256)) * 400, b'{"trace":"1"}'
    (receipt,) = await stage.publish(
        stage.draft(topic, body, key="k🐢", ordering_key="o", tag="t", headers=headers, content_type="x/y")
    )
    assert await _exhaust(stage, group) == 17
    (letter,) = await stage.store.dead_letters(group, 0, 10)
    assert letter.dead_at == stage.now
    assert letter.message.id == receipt.id
    assert (letter.message.body, letter.message.headers, letter.message.content_type) == (body, headers, "x/y")
    assert (letter.message.key, letter.message.ordering_key, letter.message.tag) == ("k🐢", "o", "t")
    assert (letter.message.queue, letter.message.offset, letter.message.attempt) == (0, 0, 17)
    assert (letter.message.published_at, letter.message.deliver_at) == (START, START)
    history = json.loads(letter.history)
    assert len(history) == 17
    assert all(entry["reason"] == "poison" and entry["client"] == "client-1" for entry in history)
    assert [entry["at"] for entry in history] == sorted(entry["at"] for entry in history)
    assert stage.count("dead") == 1
    assert stage.count("retry") == 0
    assert await stage.claim_some(group) is None


async def test_without_a_ladder_the_first_failure_is_the_last(stage: Stage) -> None:
    topic = await stage.topic()
    group = await stage.group(topic, ladder=Ladder(()))
    await stage.publish(stage.draft(topic, b"a"), stage.draft(topic, b"b"))
    settled = await stage.fail(group, await stage.claim(group), reason="no")
    assert (settled.retried, settled.dead, settled.ended, settled.timers) == (0, 2, True, ())
    letters = await stage.store.dead_letters(group, 0, 10)
    assert sorted(letter.message.body for letter in letters) == [b"a", b"b"]
    assert stage.column("SELECT outcome FROM delivery") == [b"\3\3"]


async def test_by_a_lost_lease(stage: Stage) -> None:
    topic = await stage.topic()
    group = await stage.group(topic, ladder=Ladder(()))
    await stage.publish(stage.draft(topic))
    claim = await stage.claim(group, lease=MINUTE)
    stage.now += 2 * MINUTE
    (settled,) = await stage.end_leases(group)
    assert settled is not None
    assert (settled.lost, settled.dead) == (True, 1)
    (letter,) = await stage.store.dead_letters(group, 0, 10)
    assert json.loads(letter.history) == [{"at": claim.lease_until, "client": "client-1", "reason": "lease lost"}]
    assert letter.dead_at == stage.now
    assert stage.column("SELECT outcome FROM delivery") == [b"\5"]


async def test_the_last_rung_overrules_a_wait_of_one_s_own(stage: Stage) -> None:
    topic = await stage.topic()
    group = await stage.group(topic, ladder=Ladder(()))
    await stage.publish(stage.draft(topic))
    assert (await stage.fail(group, await stage.claim(group), retry_after=SECOND)).dead == 1


async def test_a_scheduled_one(stage: Stage) -> None:
    topic = await stage.topic()
    group = await stage.group(topic, ladder=Ladder((SECOND, SECOND)))
    (receipt,) = await stage.publish(stage.draft(topic, b"later", MINUTE, key="k"))
    stage.now += MINUTE
    await stage.fall_due()
    assert await _exhaust(stage, group) == 3
    (letter,) = await stage.store.dead_letters(group, 0, 10)
    assert (letter.message.id, letter.message.deliver_at) == (receipt.id, START + MINUTE)


async def test_pages_by_id(stage: Stage) -> None:
    topic = await stage.topic(queues=2)
    group = await stage.group(topic, ladder=Ladder(()))
    receipts = await stage.publish(*(stage.draft(topic, b"%d" % i, queue=i % 2) for i in range(25)))
    await _exhaust(stage, group)
    got: list[DeadLetter] = []
    while page := await stage.store.dead_letters(group, got[-1].message.id if got else 0, 10):
        got += page
    assert [letter.message.id for letter in got] == sorted(ids_of(receipts))
    assert {letter.message.queue for letter in got} == {0, 1}


async def test_each_group_has_its_own(stage: Stage) -> None:
    topic = await stage.topic()
    group, other = await stage.group(topic, ladder=Ladder(())), await stage.group(topic, "shipping")
    await stage.publish(stage.draft(topic))
    await _exhaust(stage, group)
    assert await stage.store.dead_letters(other, 0, 10) == []
    claim = await stage.claim(other)
    assert (await stage.ack(other, claim)).acked == 1
    assert len(await stage.store.dead_letters(group, 0, 10)) == 1


async def test_many_poisoned_among_many(stage: Stage) -> None:
    """Those that are sound go through; those that are not die once each."""
    topic = await stage.topic()
    group = await stage.group(topic, ladder=Ladder((SECOND, 2 * SECOND, 3 * SECOND)))
    await stage.publish(*(stage.draft(topic, b"%d" % i) for i in range(300)))
    deliveries: dict[bytes, int] = {}
    for _ in range(5):
        while (claim := await stage.claim_some(group, 64)) is not None:
            poisoned: list[int] = []
            for place, message in enumerate(claim.messages):
                deliveries[message.body] = deliveries.get(message.body, 0) + 1
                if int(message.body) % 10 == 0:
                    poisoned.append(place)
            if poisoned:
                await stage.fail(group, claim, tuple(poisoned), reason="poison")
            await stage.ack(group, claim)
        stage.now += 10 * SECOND
        await stage.fall_due()
    letters = await stage.store.dead_letters(group, 0, 1000)
    assert sorted(int(letter.message.body) for letter in letters) == list(range(0, 300, 10))
    assert all(len(json.loads(letter.history)) == 4 for letter in letters)
    assert deliveries == {b"%d" % i: 4 if i % 10 == 0 else 1 for i in range(300)}
    state = await stage.store.group_state(group)
    assert (state.acked, state.dead, state.retried) == (270, 30, 90)


async def test_a_second_exhaustion_replaces_the_letter(stage: Stage) -> None:
    """As after a seek: the group gets the message again from the stream."""
    topic = await stage.topic()
    group = await stage.group(topic, ladder=Ladder(()))
    await stage.publish(stage.draft(topic, b"again"))
    await stage.fail(group, await stage.claim(group), reason="first")
    stage.tables.rows("UPDATE `cursor` SET position = 0")
    stage.now += MINUTE
    await stage.fail(group, await stage.claim(group), reason="second")
    (letter,) = await stage.store.dead_letters(group, 0, 10)
    assert letter.dead_at == stage.now
    assert [entry["reason"] for entry in json.loads(letter.history)] == ["second"]

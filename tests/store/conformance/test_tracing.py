"""Finding a message wherever it is, with its life."""

from support.stores import HOUR, MINUTE, SECOND, START, Stage
from tarry.store.looking import tracing
from tarry.store.operating import redriving
from tarry.store.operating.redriving import Letters
from tarry.store.records import Event, Group, Topic
from tarry.store.timers import timers
from tarry.wheel.ladder import Ladder


async def _life(stage: Stage, id_: int) -> list[Event]:
    return list((await stage.found(id_)).life)


async def test_unknown(stage: Stage) -> None:
    assert await stage.store.read(tracing.find_message, 12345) is None
    assert await stage.store.read(tracing.find_message, (1 << 63) - 1) is None


async def test_scheduled(stage: Stage, topic: Topic) -> None:
    (receipt,) = await stage.publish(
        stage.draft(topic, b"{}", HOUR, key="k", ordering_key="o", tag="t", headers=b"{}", content_type="x/y")
    )
    found = await stage.found(receipt.id)
    assert (found.id, found.topic, found.state, found.deliver_at) == (receipt.id, "orders", "scheduled", START + HOUR)
    assert (found.key, found.ordering_key, found.tag, found.headers) == ("k", "o", "t", b"{}")
    assert (found.content_type, found.body, found.queue, found.offset) == ("x/y", b"{}", None, None)
    assert found.life == (Event("scheduled", START),)


async def test_cancelled(stage: Stage, topic: Topic) -> None:
    (receipt,) = await stage.publish(stage.draft(topic, delay=HOUR, key="k"))
    await stage.store.cancel([receipt.id], START + MINUTE)
    found = await stage.found(receipt.id)
    assert (found.state, found.key, found.topic) == ("cancelled", "k", "orders")
    assert found.life == (Event("scheduled", START), Event("cancelled", START + MINUTE))


async def test_rescheduled(stage: Stage, topic: Topic) -> None:
    (receipt,) = await stage.publish(stage.draft(topic, delay=HOUR))
    await stage.store.write(timers.reschedule, [(receipt.id, START + MINUTE)], START)
    found = await stage.found(receipt.id)
    assert (found.state, found.deliver_at) == ("scheduled", START + MINUTE)


async def test_published_and_promoted(stage: Stage) -> None:
    topic = await stage.topic(queues=2)
    (now,) = await stage.publish(stage.draft(topic, b"now", queue=1))
    (later,) = await stage.publish(stage.draft(topic, b"later", MINUTE, queue=1))
    await stage.fall_due(after=MINUTE + 5)
    found = await stage.found(now.id)
    assert (found.state, found.queue, found.offset, found.body) == ("published", 1, 0, b"now")
    assert found.life == (Event("published", START),)
    found = await stage.found(later.id)
    assert (found.state, found.queue, found.offset) == ("published", 1, 1)
    assert found.life == (Event("scheduled", START), Event("promoted", START + MINUTE + 5))


async def test_a_whole_life(stage: Stage, topic: Topic) -> None:
    """Failed, lost, suspended, dead in one group; acked in another; each with who, when, and why."""
    group = await stage.group(topic, "billing", ladder=Ladder((SECOND, 2 * SECOND)))
    other = await stage.group(topic, "shipping")
    (receipt, *_) = await stage.publish(*(stage.draft(topic, b"%d" % i) for i in range(3)))
    lives = [Event("published", START)]

    claim = await stage.claim(group, 1, client="a")
    lives.append(Event("claimed", stage.now, "billing", "a", 1))
    stage.now += SECOND
    settled = await stage.fail(group, claim, reason="no stock")
    assert await _life(stage, receipt.id) == [
        *lives,
        Event("failed", stage.now, "billing", "a", 1, "no stock"),
        Event("retrying", settled.timers[0][0], "billing", attempt=2),
    ]
    lives.append(Event("failed", stage.now, "billing", "a", 1, "no stock"))

    stage.now = settled.timers[0][0]
    await stage.fall_due()
    lives.append(Event("returned", stage.now, "billing", attempt=2))
    stage.now += 1
    claim = await stage.claim(group, 1, lease=10 * SECOND, client="b")
    lives.append(Event("claimed", stage.now, "billing", "b", 2))
    assert await _life(stage, receipt.id) == lives

    stage.now += 11 * SECOND
    lost = await stage.end_lease(group)
    lives.append(Event("lease_lost", stage.now, "billing", "b", 2, "lease lost"))
    stage.now = lost.timers[0][0]
    await stage.fall_due()
    lives.append(Event("returned", stage.now, "billing", attempt=3))
    stage.now += 1
    claim = await stage.claim(group, 1, client="c")
    lives.append(Event("claimed", stage.now, "billing", "c", 3))
    stage.now += 1
    assert (await stage.fail(group, claim, reason="still none")).dead == 1
    lives.append(Event("dead", stage.now, "billing", "c", 3, "still none"))
    assert await _life(stage, receipt.id) == lives

    stage.now += 1
    claim = await stage.claim(other, 3, client="z")
    lives.append(Event("claimed", stage.now, "shipping", "z", 1))
    stage.now += 1
    await stage.ack(other, claim, (0,))
    lives.append(Event("acked", stage.now, "shipping", "z", 1))
    assert await _life(stage, receipt.id) == lives
    await stage.ack(other, claim)
    assert await _life(stage, receipt.id) == lives


async def test_suspended(stage: Stage, topic: Topic, group: Group) -> None:
    (receipt,) = await stage.publish(stage.draft(topic))
    claim = await stage.claim(group, 1)
    stage.now += 1
    settled = await stage.fail(group, claim, count=False, retry_after=SECOND)
    assert await _life(stage, receipt.id) == [
        Event("published", START),
        Event("claimed", START, "billing", "client-1", 1),
        Event("suspended", START + 1, "billing", "client-1", 1),
        Event("retrying", settled.timers[0][0], "billing", attempt=1),
    ]


async def test_neighbours_of_a_wide_claim(stage: Stage, topic: Topic, group: Group) -> None:
    """The first and the last of a claim, and those just beside it."""
    receipts = await stage.publish(*(stage.draft(topic) for _ in range(1002)))
    await stage.ack(group, await stage.claim(group, 1))
    claim = await stage.claim(group, 1000, client="wide")
    await stage.ack(group, claim)
    for place, client in ((0, "client-1"), (1, "wide"), (500, "wide"), (1000, "wide"), (1001, None)):
        life = await _life(stage, receipts[place].id)
        assert [event.client for event in life if event.what == "acked"] == ([client] if client else [])


async def test_a_redriven_one_says_why_it_had_died(stage: Stage, topic: Topic) -> None:
    """And why it failed since, each reason at the attempt that it is of: on the ladder, back, and dead again."""
    group = await stage.group(topic, ladder=Ladder((SECOND,)))
    (receipt,) = await stage.publish(stage.draft(topic))
    told: list[str] = []
    for reason in ("no ink", "no paper", "no ink again", "jam"):
        await stage.fall_due(after=SECOND)
        await stage.fail(group, await stage.claim(group), reason=reason)
        told.append(reason)
        if len(told) % 2 == 0:
            stage.now += SECOND
            assert (await stage.store.redrive(group, Letters(), 10, stage.now)).count == 1
        life = [event for event in await _life(stage, receipt.id) if event.reason is not None]
        assert [event.reason for event in life] == told
    assert [event.attempt for event in life] == [1, 2, 1, 2]


async def test_a_purged_death_has_no_reason_of_another(stage: Stage, topic: Topic) -> None:
    """The reasons before a redrive are kept, and stay with the attempts that they are of."""
    group = await stage.group(topic, ladder=Ladder(()))
    (receipt,) = await stage.publish(stage.draft(topic))
    for reason in ("first", "second"):
        await stage.fall_due(after=SECOND)
        await stage.fail(group, await stage.claim(group), reason=reason)
        stage.now += SECOND
        if reason == "first":
            await stage.store.redrive(group, Letters(), 10, stage.now)
    await stage.store.write(redriving.purge, group, Letters(), 10)
    deaths = [event.reason for event in await _life(stage, receipt.id) if event.what == "dead"]
    assert deaths == ["first", None]

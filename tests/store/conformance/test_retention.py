"""What is past its time goes and nothing else does; the counters stay whole (I1, I7, I14)."""

import pytest
import trio

from support.at_once import at_once
from support.books import conserves
from support.cleaning import DAY, LIMITS, clean, whole_round
from support.letters import dead_letters_of
from support.store_homes import on_servers
from support.stores import HOUR, MINUTE, START, Stage, bodies, ids_of, nobody_waits
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.cleaning import retention
from tarry.store.cleaning.retention import Limits, Removed
from tarry.store.groups import holdings
from tarry.store.looking import tracing
from tarry.store.operating.redriving import Letters
from tarry.store.operating.replaying import Range
from tarry.store.ports import Transaction
from tarry.store.records import Group, Queue, Topic
from tarry.store.rows import Resting
from tarry.store.stream import stretches
from tarry.store.stream.positions import Position
from tarry.store.timers import timers
from tarry.wheel.ladder import Ladder


async def clean_returns(stage: Stage, group: Group, *, limits: Limits = LIMITS) -> Removed:
    """A whole round over a group's first retry queue."""
    return await whole_round(stage, retention.clean_returns, group=group, queue=back_of(group), limits=limits, limit=3)


def back_of(group: Group) -> Queue:
    return group.retry_queue_of[group.topic.queues[0].id]


async def fill(stage: Stage, topic: Topic, count: int, key: str | None = None) -> list[int]:
    return ids_of(await stage.publish(*(stage.draft(topic, b"%d" % i, key=key) for i in range(count))))


def offsets(stage: Stage) -> list[int]:
    return stage.column("SELECT `offset` FROM message ORDER BY `offset`")


async def test_what_is_settled_and_old_goes(stage: Stage, topic: Topic, group: Group) -> None:
    old = await fill(stage, topic, 10, key="order")
    stage.now += DAY
    young = await fill(stage, topic, 5, key="order")
    await stage.ack(group, await stage.claim(group, 100))
    stage.now = START + 7 * DAY - 1
    assert (await clean(stage, topic)).rows == 0
    assert (await clean(stage, topic, after=1)).rows == 10
    assert offsets(stage) == [10, 11, 12, 13, 14]
    assert sorted(stage.column("SELECT id FROM label")) == sorted(young)
    assert await stage.store.read(tracing.find_message, old[0]) is None
    assert await stage.store.read(tracing.find_message, young[0]) is not None
    (verdict,) = await stage.store.cancel([old[0]], stage.now)
    assert verdict.result == "not_found"
    assert await stage.store.read(retention.floors, [topic.queues[0].id]) == {topic.queues[0].id: 10}
    conserves(stage)
    await stage.counts(topic, accepted=15, streamed=15, pending=0)


async def test_a_topic_may_say_otherwise(stage: Stage, topic: Topic) -> None:
    """0: as soon as all groups have settled it. Longer than the hard limit: it is that long."""
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
    assert (await clean(stage, topic, after=60 * DAY - 1)).rows == 0
    assert (await clean(stage, topic, after=1)).expired == {one.id: 2, other.id: 2}


async def test_before_the_first_group_comes_nothing_goes_at_once(stage: Stage, topic: Topic) -> None:
    await stage.store.change_topic(topic, TopicDraft("orders", retention=0), stage.now)
    (topic,) = await stage.store.read(catalogue.find_topics, [topic.name])
    await fill(stage, topic, 4)
    assert (await clean(stage, topic, after=7 * DAY - 1)).rows == 0
    assert (await clean(stage, topic, after=1)).rows == 4


async def test_a_cursor_holds_back(stage: Stage, topic: Topic) -> None:
    quick, slow = await stage.group(topic, "quick"), await stage.group(topic, "slow")
    await fill(stage, topic, 10)
    await stage.ack(quick, await stage.claim(quick, 10))
    await stage.ack(slow, await stage.claim(slow, 4))
    assert (await clean(stage, topic, after=8 * DAY)).rows == 4
    assert offsets(stage) == [4, 5, 6, 7, 8, 9]
    claim = await stage.claim(slow, 10)
    assert bodies(claim) == [b"4", b"5", b"6", b"7", b"8", b"9"]


async def test_an_open_claim_holds_back(stage: Stage, topic: Topic, group: Group) -> None:
    """All of it: an ack that names ids looks them up."""
    await fill(stage, topic, 10)
    await stage.ack(group, await stage.claim(group, 3))
    held = await stage.claim(group, 4, lease=30 * DAY)
    await stage.ack(group, await stage.claim(group, 3))
    await stage.ack(group, held, (1,))
    assert (await clean(stage, topic, after=8 * DAY)).rows == 6
    assert offsets(stage) == [3, 4, 5, 6]
    assert await stage.store.read(retention.floors, [topic.queues[0].id]) == {topic.queues[0].id: 3}
    assert await stage.store.read(holdings.find_places, [held.key]) == {held.key: held.places}
    assert (await stage.ack(group, held)).acked == 4
    assert (await clean(stage, topic)).rows == 4
    assert await stage.store.read(retention.floors, [topic.queues[0].id]) == {topic.queues[0].id: 7}
    conserves(stage)


async def test_a_retry_and_a_return_hold_back(stage: Stage) -> None:
    """A message on a rung, then back and not yet claimed, then claimed once more."""
    topic, group = await stage.topic_and_group(ladder=Ladder((1000, 1000)))
    await fill(stage, topic, 5)
    claim = await stage.claim(group, 5)
    await stage.fail(group, claim, (2,), retry_after=8 * DAY)
    await stage.ack(group, claim)
    assert (await clean(stage, topic, after=8 * DAY - 1)).rows == 4
    assert len(await stage.fall_due(after=1)) == 1
    assert (await clean(stage, topic)).rows == 0
    back = await stage.claim(group, 1)
    assert bodies(back) == [b"2"]
    assert (await clean(stage, topic)).rows == 0
    await stage.ack(group, back)
    assert (await clean(stage, topic)).rows == 1
    assert offsets(stage) == []
    conserves(stage)


async def test_a_dead_letter_outlives_its_message(stage: Stage) -> None:
    topic, group = await stage.topic_and_group(ladder=Ladder(()))
    (id_,) = ids_of(await stage.publish(stage.draft(topic, b"[1]", key="k", headers=b'{"a":"b"}')))
    await stage.fail(group, await stage.claim(group), reason="no")
    assert (await clean(stage, topic, after=8 * DAY)).rows == 1
    assert await stage.store.read(tracing.find_message, id_) is None
    (letter,) = await stage.store.read(dead_letters_of, group, 0, 10)
    assert (letter.message.id, letter.message.body, letter.message.headers) == (id_, b"[1]", b'{"a":"b"}')
    assert b'"reason":"no"' in letter.history
    conserves(stage)


async def test_the_hard_limit_takes_what_was_never_claimed(stage: Stage, topic: Topic) -> None:
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
    conserves(stage)
    assert bodies(await stage.claim(slow)) == [b"0", b"1"]
    conserves(stage)
    assert stage.column(f"SELECT SUM(expired) FROM `cursor` WHERE group_id = {done.id}") == [0]


async def seen(stage: Stage, *groups: Group) -> None:
    await stage.store.write(retention.see, [group.id for group in groups], stage.now)


async def test_an_open_claim_holds_back_past_the_hard_limit(stage: Stage, topic: Topic, group: Group) -> None:
    """What a client holds it may ack and fail; what it fails goes onto its rung, and comes again."""
    await fill(stage, topic, 6)
    acked, failed, lost = [await stage.claim(group, 2, lease=29 * DAY) for _ in range(3)]
    assert (await clean(stage, topic, after=28 * DAY)).rows == 0
    assert (await stage.ack(group, acked)).acked == 2
    assert (await stage.fail(group, failed)).retried == 2
    stage.now = lost.lease_until
    await stage.end_leases(group)
    assert (await clean(stage, topic)).rows == 2
    assert len(await stage.fall_due()) == 2
    assert bodies(await stage.claim(group)) == [b"2", b"3"]
    conserves(stage)


async def test_the_hard_limit_takes_what_came_back_and_nobody_settles(stage: Stage) -> None:
    topic, group = await stage.topic_and_group(ladder=Ladder((40 * DAY,)))
    await fill(stage, topic, 4)
    claim = await stage.claim(group, 4)
    await stage.fail(group, claim, (1, 2))
    await stage.ack(group, claim)
    assert (await clean(stage, topic, limit=1, after=40 * DAY)).rows == 2
    await stage.fall_due()
    assert (await clean(stage, topic, limit=1, after=28 * DAY - 1)).rows == 0
    assert (await clean(stage, topic, limit=1, after=1)).rows == 2
    assert await stage.claim_some(group) is None
    assert await stage.store.read(catalogue.lags, [group.id]) == {group.id: (0, 0)}
    conserves(stage)
    assert stage.column("SELECT SUM(expired) FROM `cursor`") == [2]


async def test_the_hard_limit_takes_a_retry_whose_rung_was_over_long_ago(stage: Stage) -> None:
    """Nobody has put it back meanwhile, which takes a server that does not do its part."""
    topic, group = await stage.topic_and_group(ladder=Ladder((DAY,)))
    await fill(stage, topic, 4)
    claim = await stage.claim(group, 4)
    await stage.fail(group, claim, (1, 2))
    await stage.ack(group, claim)
    assert (await clean(stage, topic, limit=1, after=29 * DAY)).rows == 4
    assert stage.count("retry") == 0
    assert await stage.store.read(catalogue.lags, [group.id]) == {group.id: (2, 0)}
    assert await stage.claim_some(group) is None
    conserves(stage)
    assert stage.column("SELECT SUM(expired) FROM `cursor`") == [2]


@pytest.mark.parametrize("rungs", [(), (1000,), (1000, 1000)])
async def test_a_return_in_a_claim_holds_back_past_the_hard_limit(stage: Stage, rungs: tuple[int, ...]) -> None:
    """When it fails it goes onto its rung, or to the dead letters with its body."""
    topic, group = await stage.topic_and_group(ladder=Ladder(rungs or (5,)))
    await fill(stage, topic, 2)
    await stage.fail(group, await stage.claim(group, 2), retry_after=10)
    await stage.fall_due(after=10)
    back = await stage.claim(group, 2, lease=60 * DAY)
    assert (await clean(stage, topic, after=28 * DAY)).rows == 0
    settled = await stage.fail(group, back)
    assert (settled.retried, settled.dead) == ((2, 0) if len(rungs) == 2 else (0, 2))
    conserves(stage)


LONG = 100 * DAY


class TestDelays:
    """No delay is promised that retention takes: the hard limit counts from when a group could have had the message."""

    @pytest.mark.parametrize("count", [True, False], ids=["counted", "suspended"])
    @pytest.mark.parametrize("keep", [None, 0])
    async def test_a_rest_of_ones_own(self, stage: Stage, count: bool, keep: int | None) -> None:
        topic, group = await self.begin(stage, keep)
        await fill(stage, topic, 1)
        settled = await stage.fail(group, await stage.claim(group), retry_after=29 * DAY, count=count)
        assert settled.retried == 1
        for days in (1, 8, 28, 29):
            stage.now = START + days * DAY
            assert (await clean(stage, topic)).rows == 0
        await self.comes_for_28_days(stage, topic, group, [b"0"])

    async def test_each_rung_of_a_ladder_and_then_the_letter(self, stage: Stage) -> None:
        topic, group = await stage.topic_and_group(ladder=Ladder((40 * DAY, 50 * DAY)))
        await fill(stage, topic, 1)
        for rest in (40, 50):
            await stage.fail(group, await stage.claim(group))
            assert (await clean(stage, topic, after=rest * DAY)).rows == 0
            await stage.fall_due()
            assert (await clean(stage, topic)).rows == 0
        assert (await stage.fail(group, await stage.claim(group))).dead == 1
        (letter,) = await stage.store.read(dead_letters_of, group, 0, 10)
        assert letter.message.body == b"0"
        assert (await clean(stage, topic)).rows == 1
        conserves(stage)

    @pytest.mark.parametrize("keep", [None, 0])
    async def test_a_delay_while_the_group_is_away(self, stage: Stage, keep: int | None) -> None:
        """It was there when the message was published, and comes back when that is due, or some weeks later."""
        topic, group = await self.begin(stage, keep)
        await stage.schedule(topic, LONG)
        stage.now += 31 * DAY
        await seen(stage, group)
        stage.now = START + LONG
        assert len(await stage.fall_due()) == 1
        await self.comes_for_28_days(stage, topic, group, [b"0"])

    async def test_a_delay_that_was_changed(self, stage: Stage) -> None:
        topic, group = await self.begin(stage, 0)
        (receipt,) = await stage.schedule(topic, DAY)
        await stage.store.write(timers.reschedule, [(receipt.id, START + LONG)], stage.now)
        stage.now = START + LONG
        assert len(await stage.fall_due()) == 1
        await self.comes_for_28_days(stage, topic, group, [b"0"])

    async def test_what_comes_late_since_no_server_was_at_work(self, stage: Stage) -> None:
        topic, group = await self.begin(stage, 0)
        await stage.schedule(topic, DAY)
        await fill(stage, topic, 1)
        await stage.fail(group, await stage.claim(group), retry_after=DAY)
        stage.now = START + LONG
        assert len(await stage.fall_due()) == 2
        await self.comes_for_28_days(stage, topic, group, [b"0", b"0"])

    async def test_what_is_published_to_a_group_that_is_away(self, stage: Stage) -> None:
        """For four weeks nobody has asked for it: it has the default retention, also where the topic keeps nothing."""
        topic, group = await self.begin(stage, 0)
        stage.now += 28 * DAY
        await stage.schedule(topic, 10 * DAY)
        await fill(stage, topic, 2)
        assert (await clean(stage, topic, after=7 * DAY - 1)).rows == 0
        assert (await clean(stage, topic, after=1)).expired == {group.id: 2}
        assert len(await stage.fall_due(after=3 * DAY)) == 1
        assert (await clean(stage, topic, after=7 * DAY - 1)).rows == 0
        assert bodies(await stage.claim(group)) == [b"0"]
        conserves(stage)

    async def test_what_came_back_to_a_group_that_is_away(self, stage: Stage) -> None:
        topic, group = await self.begin(stage, 0)
        await fill(stage, topic, 2)
        await stage.fail(group, await stage.claim(group), retry_after=60 * DAY)
        assert (await clean(stage, topic, after=60 * DAY)).rows == 0
        assert len(await stage.fall_due()) == 2
        await self.comes_for_28_days(stage, topic, group, [b"0", b"1"])

    async def test_a_letter_that_is_redriven(self, stage: Stage) -> None:
        """Its message went long ago; it is back for as long as any other. (One that waits keeps the floor below it.)"""
        topic, group = await self.begin(stage, None, ladder=Ladder(()))
        await fill(stage, topic, 2)
        claim = await stage.claim(group, 1)
        await stage.fail(group, claim, retry_after=80 * DAY, count=False)
        await stage.fail(group, await stage.claim(group))
        assert (await clean(stage, topic, after=60 * DAY)).rows == 1
        assert (await stage.store.redrive(group, Letters(), 10, stage.now)).count == 1
        assert (await clean(stage, topic)).rows == 0
        await stage.fall_due()
        back = await stage.claim(group)
        assert (await stage.fail(group, back, retry_after=29 * DAY, count=False)).retried == 1
        await stage.fall_due(after=29 * DAY)
        await self.comes_for_28_days(stage, topic, group, [b"0", b"1"])

    async def test_what_is_replayed(self, stage: Stage) -> None:
        topic, group = await self.begin(stage, 27 * DAY)
        await fill(stage, topic, 1)
        await stage.ack(group, await stage.claim(group))
        stage.now += 26 * DAY
        range_ = Range(Position("earliest"), Position("latest"), topic.queues, bytes(32))
        assert (await stage.store.replay(group, range_, 10, stage.now)).count == 1
        await stage.fall_due(after=10 * DAY)
        await self.comes_for_28_days(stage, topic, group, [b"0"])

    async def test_what_is_parked(self, stage: Stage) -> None:
        topic, group = await stage.topic_and_group(ordered=True)
        await stage.publish(*(stage.draft(topic, b"%d" % nth, ordering_key="k") for nth in range(2)))
        await stage.fail(group, await stage.claim(group), (0,), retry_after=60 * DAY)
        assert stage.count("parked") == 1
        assert (await clean(stage, topic, after=60 * DAY)).rows == 0
        await stage.fall_due()
        stage.now += 20 * DAY
        await stage.ack(group, await stage.claim(group))
        assert (await clean(stage, topic, after=20 * DAY)).rows == 1
        assert bodies(await stage.claim(group)) == [b"1"]

    async def test_what_a_setting_says_later(self, stage: Stage) -> None:
        """A hard limit of an hour, set when a message rests for two: it counts from its end."""
        topic, group = await self.begin(stage, 0)
        await fill(stage, topic, 1)
        await stage.fail(group, await stage.claim(group), retry_after=2 * HOUR)
        limits = Limits(retention=0, hard=HOUR, history=HOUR, dead=HOUR)
        assert (await clean(stage, topic, limits=limits, after=2 * HOUR)).rows == 0
        await stage.fall_due()
        assert (await clean(stage, topic, limits=limits, after=HOUR - 1)).rows == 0
        assert (await clean_returns(stage, group, limits=limits)).rows == 0
        assert (await clean(stage, topic, limits=limits, after=1)).rows == 1

    @pytest.mark.parametrize("limit", [1, 3, 100])
    async def test_one_that_expires_later(self, stage: Stage, limit: int) -> None:
        """It is kept until then for the group that has not had it. What lies around it goes at the hard limit."""
        topic, slow = await self.begin(stage, 0)
        quick = await stage.group(topic, "quick")
        lasting = START + 60 * DAY
        await stage.publish(
            *(stage.draft(topic, b"%d" % n, expires_at=lasting if n in (4, 8) else None) for n in range(12))
        )
        await stage.ack(quick, await stage.claim(quick, 20))
        await stage.ack(slow, await stage.claim(slow, 2))
        stage.now += 28 * DAY
        await seen(stage, quick)
        assert (await clean(stage, topic, limit=limit)).expired == {slow.id: 2}
        assert offsets(stage) == [4, 8]
        assert await stage.store.read(retention.floors, [topic.queues[0].id]) == {topic.queues[0].id: 4}
        conserves(stage)
        stage.now = lasting - 1
        await seen(stage, slow)
        await fill(stage, topic, 1)
        assert (await clean(stage, topic, limit=limit)).expired == {}
        claim = await stage.claim(slow, 20)
        assert bodies(claim) == [b"4", b"8", b"0"]
        conserves(stage)
        await stage.ack(slow, claim)
        conserves(stage)
        assert stage.column(f"SELECT SUM(expired) FROM `cursor` WHERE group_id = {slow.id}") == [8]

    async def test_one_that_expires_later_and_nobody_takes(self, stage: Stage) -> None:
        topic, group = await self.begin(stage, 0)
        lasting = START + 60 * DAY
        await stage.publish(*(stage.draft(topic, b"%d" % n, expires_at=lasting if n == 1 else None) for n in range(3)))
        stage.now = lasting - 1
        assert (await clean(stage, topic)).expired == {group.id: 1}
        assert offsets(stage) == [1]
        stage.now = lasting
        assert (await clean(stage, topic)).expired == {group.id: 1}
        assert offsets(stage) == []
        assert await stage.claim_some(group) is None
        assert stage.column("SELECT SUM(expired) FROM `cursor`") == [3], "the one behind it was found to be gone"
        conserves(stage)

    async def begin(self, stage: Stage, keep: int | None, ladder: Ladder | None = None) -> tuple[Topic, Group]:
        draft = TopicDraft("orders", ladder=ladder, retention=keep)
        topic = await stage.store.write(catalogue.add_topic, draft, stage.now)
        return topic, await stage.group(topic)

    async def comes_for_28_days(self, stage: Stage, topic: Topic, group: Group, expected: list[bytes]) -> None:
        """What is due by now can be had until the hard limit counted from now; then it has expired."""
        await stage.fall_due()
        assert (await clean(stage, topic, after=28 * DAY - 1)).rows == 0
        claims = [await stage.claim(group)]
        while (claim := await stage.claim_some(group)) is not None:
            claims.append(claim)
        assert sorted(body for one in claims for body in bodies(one)) == expected
        conserves(stage)
        for one in claims:
            await stage.fail(group, one, retry_after=0, count=False)
        await stage.fall_due()
        assert (await clean(stage, topic, after=28 * DAY)).rows == len(expected)
        assert await stage.claim_some(group) is None
        conserves(stage)


async def test_a_group_that_nobody_asks_for(stage: Stage, topic: Topic) -> None:
    """What was published while it was in use it holds back as any other; what comes later for the retention only."""
    gone, here = await stage.group(topic, "gone"), await stage.group(topic, "here")
    stage.now += 27 * DAY
    await fill(stage, topic, 1)
    stage.now += DAY
    await fill(stage, topic, 3)
    await stage.ack(here, await stage.claim(here))
    await seen(stage, here)
    assert (await clean(stage, topic, after=7 * DAY)).rows == 0, "what is held lies before the others"
    stage.now += 20 * DAY
    await seen(stage, here)
    assert (await clean(stage, topic)).expired == {gone.id: 4}
    assert offsets(stage) == []
    conserves(stage)
    await fill(stage, topic, 2)
    assert (await clean(stage, topic, after=7 * DAY - 1)).rows == 0
    assert len((await stage.claim(gone)).messages) == 2
    conserves(stage)


async def test_readers_begin_at_the_floor(stage: Stage) -> None:
    topic, group = await stage.topic_and_group(queues=2)
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
    assert [(q.queue, q.lag) for q in (await stage.group_state(late)).queues if not q.retry] == [
        (0, 2),
        (1, 6),
    ]
    conserves(stage)


async def test_nothing_unarchived_goes(stage: Stage) -> None:
    """Once there is an archive: messages by offset, the log by number, the rest by time."""
    topic, group = await stage.topic_and_group(ladder=Ladder(()))
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


async def clean_log(stage: Stage, group: Group) -> Removed:
    place = {"group_id": group.id, "queue_id": group.topic.queues[0].id}
    return await whole_round(stage, retention.clean_deliveries, **place, limits=LIMITS, limit=100)


async def clean_dead(stage: Stage, group: Group, limit: int = 100) -> Removed:
    return await stage.store.write(retention.clean_dead, group_id=group.id, limits=LIMITS, now=stage.now, limit=limit)


async def clean_seeks(stage: Stage, group: Group, limit: int) -> Removed:
    """A whole round over a group's first cursor."""
    place = {"group_id": group.id, "queue_id": group.topic.queues[0].id}
    return await whole_round(stage, retention.clean_seeks, **place, limits=LIMITS, limit=limit)


@pytest.mark.parametrize("limit", [1, 100])
async def test_seeks_go_with_the_log(stage: Stage, limit: int, topic: Topic) -> None:
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


async def test_the_log_goes(stage: Stage, topic: Topic, group: Group) -> None:
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


async def test_returns_go_once_they_are_settled(stage: Stage, topic: Topic, group: Group) -> None:
    await fill(stage, topic, 6)
    await stage.fail(group, await stage.claim(group, 6), retry_after=1)
    assert len(await stage.fall_due(after=1)) == 6
    await stage.ack(group, await stage.claim(group, 2))
    held = await stage.claim(group, 2, lease=60 * DAY)
    stage.now += 28 * DAY - 1
    assert (await clean_returns(stage, group)).rows == 0
    stage.now += 1
    await seen(stage, group)
    done = await clean_returns(stage, group)
    assert (done.rows, done.expired) == (4, {group.id: 2})  # 2 settled, 2 never claimed; 2 are in a claim
    conserves(stage)
    assert stage.count("redelivery") == 2
    assert (await stage.ack(group, held)).acked == 2
    assert (await clean_returns(stage, group)).rows == 2
    conserves(stage)


async def test_returns_stay_until_their_deliveries_are_archived(stage: Stage, topic: Topic, group: Group) -> None:
    """The archive looks up in them what was delivered again."""
    await fill(stage, topic, 4)
    await stage.fail(group, await stage.claim(group, 4), retry_after=1)
    await stage.fall_due(after=1)
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
    topic, group = await stage.topic_and_group(ladder=Ladder(()))
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
    assert (await stage.group_state(group)).letters == 0


async def test_cancelled_messages_go(stage: Stage, topic: Topic) -> None:
    soon = ids_of(await stage.publish(*(stage.draft(topic, b"1", MINUTE, key="k") for _ in range(3))))
    late = ids_of(await stage.publish(stage.draft(topic, b"1", 60 * DAY, key="k")))
    await stage.store.cancel([*soon, *late], stage.now)

    async def clean_all() -> int:
        rows = 0
        for shard in range(16):
            rows += (await whole_round(stage, retention.clean_cancelled, shard=shard, limits=LIMITS, limit=100)).rows
        return rows

    stage.now += 28 * DAY + MINUTE - 1
    assert await clean_all() == 0
    stage.now += 2
    assert await clean_all() == 3
    assert stage.column("SELECT id FROM label") == late
    stage.now += 60 * DAY
    assert await clean_all() == 1
    assert (stage.count("cancelled"), stage.count("label")) == (0, 0)


async def test_pointers_to_nothing_go(stage: Stage, topic: Topic) -> None:
    gone, kept = ids_of(await stage.schedule(topic, MINUTE, MINUTE))
    await stage.store.write(timers.reschedule, [(gone, stage.now + HOUR), (kept, stage.now + HOUR)], stage.now)
    stage.tables.rows(f"DELETE FROM delay WHERE id = {gone}")  # a user's own transaction
    stage.now += 2 * HOUR
    for shard in range(16):
        await whole_round(stage, retention.clean_moved, shard=shard, limit=10)
    assert stage.column("SELECT id FROM moved") == [kept]


async def test_two_at_once_do_no_harm(stage: Stage, topic: Topic, group: Group) -> None:
    await fill(stage, topic, 60, key="k")
    await stage.ack(group, await stage.claim(group, 40))
    stage.now += 28 * DAY
    await seen(stage, group)
    results: list[Removed] = []

    async def work() -> None:
        results.append(await clean(stage, topic, limit=7))

    await at_once(*[work] * 3)
    assert sum(done.rows for done in results) == 60
    assert sum(sum(done.expired.values()) for done in results) == 20
    assert (stage.count("message"), stage.count("label")) == (0, 0)
    conserves(stage)


@on_servers
async def test_publishers_and_consumers_go_on_during_a_batch(stage: Stage, topic: Topic, group: Group) -> None:
    """A batch that is not committed yet holds up nobody (on the embedded store there is one writer at a time)."""
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
        with nobody_waits(stage.tables):
            await fill(stage, topic, 3, key="k")
            claim = await stage.claim(group, 2)
            await stage.fail(group, claim, (0,))
            await stage.ack(group, claim)
            await stage.store.cancel(ids_of(await stage.schedule(topic, HOUR)), stage.now)
        go_on.set()
    assert offsets(stage) == [20, 21, 22]


@on_servers
async def test_a_retry_that_somebody_works_on_stays(stage: Stage) -> None:
    """Promotion has it locked: the message waits for the next round."""
    topic, group = await stage.topic_and_group(ladder=Ladder((DAY,)))
    await fill(stage, topic, 3)
    claim = await stage.claim(group, 3)
    await stage.fail(group, claim, (1,))
    await stage.ack(group, claim)
    stage.now += 29 * DAY
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
    conserves(stage)

"""Removal: a group or a topic is gone for everybody at once, all of it goes in the end, and nothing else does."""

import random
from collections import Counter

import pytest
import trio

from support.at_once import at_once
from support.cleaning import clean
from support.effort import full, tries
from support.remains import everything, remains
from support.store_homes import on_servers
from support.stores import HOUR, MINUTE, SECOND, Stage, bodies, bodies_of, connect_raw, ids_of, uncommitted
from tarry.client.outbox import Outbox
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.cleaning import removal, retention
from tarry.store.cleaning.removal import BEGIN, GRACE
from tarry.store.errors import GroupGone, TopicGone, Unsettled
from tarry.store.looking import found_pages, tracing
from tarry.store.operating import redriving
from tarry.store.operating.redriving import Letters
from tarry.store.operating.replaying import Range
from tarry.store.records import ClaimRequest, Group, Publication, ReadRequest, Topic
from tarry.store.stream import readers, stretches
from tarry.store.stream.positions import Position
from tarry.store.timers import forecast, timers
from tarry.wheel.ladder import Ladder

SHORT = Ladder((SECOND,))
LOOK = 0.001
"""Seconds from one look at what others do to the next: who looks without a rest takes the processor from them."""


async def clear(stage: Stage, batch: int = 3) -> int:
    """Clears what may be cleared now, as the service does; returns the largest number of rows in one transaction."""
    most = 0
    for stone in await stage.store.read(removal.tombstones):
        place, held = BEGIN, False
        while True:
            done = await stage.store.write(removal.clear, stone, place, batch)
            most, held = max(most, done.rows), held or done.held
            if done.next is None:
                break
            place = done.next
        if not held and (stone.group_id or stage.now >= stone.removed_at + GRACE):
            await stage.store.write(removal.drop_tombstone, stone)
    await add_up(stage)
    return most


async def add_up(stage: Stage) -> None:
    while await stage.store.write(forecast.add_up, stage.now):
        pass


async def clear_all(stage: Stage) -> None:
    await clear(stage)
    stage.now += GRACE
    await clear(stage)
    assert stage.count("removed") == 0


def queues_of(stage: Stage, topic: Topic) -> set[int]:
    return set(stage.column(f"SELECT id FROM queue WHERE topic_id = {topic.id}"))


async def busy(stage: Stage, name: str, *groups: str, ordered: bool = False) -> tuple[Topic, list[Group]]:
    """A topic with something in every place that there is."""
    topic = await stage.topic(name, 2, SHORT, ordered=ordered)
    made = [await stage.group(topic, group) for group in groups]
    for queue in (0, 1):
        await stage.publish(
            *(
                stage.draft(topic, b"%d" % i, queue=queue, key=f"k{i}", ordering_key=f"o{i % 3}" if ordered else None)
                for i in range(12)
            )
        )
    waiting = await stage.publish(*(stage.draft(topic, b"later", HOUR, key="later") for _ in range(8)))
    await stage.ask(Publication((stage.draft(topic, b"once"),), idempotency_key="once"))
    await stage.store.cancel(ids_of(waiting[:3]), stage.now)
    await stage.store.write(timers.reschedule, [(waiting[4].id, stage.now + 2 * HOUR)], stage.now)
    for group in made:
        await wear(stage, group)
    await add_up(stage)
    return topic, made


async def wear(stage: Stage, group: Group) -> None:
    """Leaves something of the group in every place."""
    topic = group.topic
    failing = await stage.claim(group, 8)
    await stage.fail(group, failing, (0,))
    await stage.ack(group, failing)
    failing = await stage.claim(group, 8, client="client-2")
    await stage.fail(group, failing, (0,))
    await stage.ack(group, failing)
    stage.now += 2 * SECOND
    await stage.promote(*(~id_ for id_ in stage.column(f"SELECT id FROM retry WHERE group_id = {group.id}")))
    for client in ("client-1", "client-2"):
        dying = await stage.claim_some(group, 1, client=client)
        if dying is not None:
            await stage.fail(group, dying)
    await stage.store.seek(group, [topic.queues[1]], Position("earliest"), stage.now)
    await stage.claim_some(group, 2)
    failing = await stage.claim(group, 8, client="client-2")
    await stage.fail(group, failing, (0,))
    whole = Range(Position("earliest"), Position("latest"), topic.queues, bytes(32))
    await stage.store.replay(group, whole, 2, stage.now)


@pytest.mark.parametrize("ordered", [False, True])
async def test_all_of_a_group_goes_and_nothing_else(stage: Stage, *, ordered: bool) -> None:
    other, _ = await busy(stage, "others", "billing", ordered=ordered)
    topic, (stays,) = await busy(stage, "orders", "billing", ordered=ordered)
    before = everything(stage)
    gone = await stage.group(topic, "audit")
    await wear(stage, gone)
    queues = {queue.id for queue in gone.retry_queues}
    there = {"consumer_group", "queue", "cursor", "claim", "delivery", "retry", "redelivery", "dead", "seek", "replay"}
    there |= {"chain", "parked", "queue_owner"} if ordered else set()
    assert remains(stage, groups=[gone.id], queues=queues).keys() == there

    assert await stage.store.write(removal.remove_group, gone, stage.now)
    assert gone.id not in {group.id for group in await stage.store.groups([topic])}
    assert not await stage.store.write(removal.remove_group, gone, stage.now + 1)
    await clear_all(stage)
    assert remains(stage, groups=[gone.id], queues=queues) == {}
    assert everything(stage) == before
    assert {group.name for group in await stage.store.groups([topic, other])} == {stays.name}


@pytest.mark.parametrize("ordered", [False, True])
async def test_all_of_a_topic_goes_and_nothing_else(stage: Stage, *, ordered: bool) -> None:
    await busy(stage, "others", "billing", ordered=ordered)
    before = everything(stage)
    topic, groups = await busy(stage, "orders", "billing", "audit", ordered=ordered)
    queues, ids = queues_of(stage, topic), [group.id for group in groups]
    there = {"consumer_group", "queue", "cursor", "claim", "delivery", "retry", "redelivery", "dead", "seek", "replay"}
    there |= {"topic", "tally", "message", "delay", "cancelled", "label", "idempotency", "forecast", "cleaned"}
    there |= {"chain", "parked", "queue_owner"} if ordered else set()
    assert remains(stage, [topic.id], ids, queues).keys() == there

    assert await stage.store.remove_topic(topic, stage.now, force=True)
    assert await stage.store.read(catalogue.find_topics, ["orders"]) == []
    assert not await stage.store.remove_topic(topic, stage.now + 1, force=True)
    await clear_all(stage)
    assert remains(stage, [topic.id], ids, queues) == {}
    assert everything(stage) == before


async def test_it_goes_in_bounded_batches(stage: Stage) -> None:
    topic, _ = await busy(stage, "orders", "billing")
    await stage.store.remove_topic(topic, stage.now, force=True)
    assert await clear(stage, 4) == 4


async def test_a_crash_in_the_middle_is_gone_on_with(stage: Stage) -> None:
    """Batches that came to nothing's end, in any order, again and again: who clears next finds what is left."""
    topic, groups = await busy(stage, "orders", "billing", "audit")
    queues = queues_of(stage, topic)
    await stage.store.remove_topic(topic, stage.now, force=True)
    dice = random.Random(stage.kind)
    for _ in range(30):
        stone = dice.choice(await stage.store.read(removal.tombstones))
        place = BEGIN
        for _ in range(dice.randrange(8)):
            done = await stage.store.write(removal.clear, stone, place, 2)
            if done.next is None:
                break
            place = done.next
    assert remains(stage, [topic.id], [group.id for group in groups], queues) != {}
    await clear_all(stage)
    assert remains(stage, [topic.id], [group.id for group in groups], queues) == {}


async def test_a_group_of_the_same_name_begins_anew(stage: Stage, topic: Topic, group: Group) -> None:
    await stage.publish(*(stage.draft(topic, b"%d" % i) for i in range(4)))
    await stage.ack(group, await stage.claim(group, 3))
    await stage.fail(group, await stage.claim(group, 1))
    await stage.store.write(removal.remove_group, group, stage.now)
    again = await stage.group(topic)
    assert again.id > group.id
    assert {q.id for q in again.retry_queues}.isdisjoint(q.id for q in group.retry_queues)
    await stage.fall_due(after=MINUTE)
    assert bodies(await stage.claim(again)) == [b"0", b"1", b"2", b"3"]
    await clear_all(stage)
    assert (await stage.group_state(again)).claimed == 4
    assert (await stage.group_state(again)).acked == 0


async def test_a_topic_of_the_same_name_begins_anew(stage: Stage, topic: Topic) -> None:
    (first,) = await stage.publish(stage.draft(topic, b"old", key="k"))
    (later,) = await stage.publish(stage.draft(topic, b"old", HOUR, key="k"))
    await stage.ask(Publication((stage.draft(topic, b"old"),), idempotency_key="k"))
    await stage.store.remove_topic(topic, stage.now, force=True)
    again = await stage.topic()
    assert again.id > topic.id
    assert await stage.store.read(tracing.find_message, first.id) is None
    assert await stage.store.read(tracing.find_message, later.id) is None
    assert (await stage.store.read(found_pages.find_labelled, again, "k", -1, 10)).messages == ()
    (receipt,) = await stage.publish(stage.draft(again, b"new"))
    assert receipt.offset == 0
    answer = await stage.ask(Publication((stage.draft(again, b"new"),), idempotency_key="k"))
    assert isinstance(answer, list)
    assert not answer[0].replayed
    await clear_all(stage)
    group = await stage.group(again)
    assert bodies(await stage.claim(group)) == [b"new", b"new"]


async def test_late_turns_of_a_removed_group_find_nothing(stage: Stage) -> None:
    topic, (group,) = await busy(stage, "orders", "billing")
    claim = await stage.claim(group, 1, client="late")
    timers = [entry for entry in await stage.waiting() if entry < 0]
    assert timers
    await stage.store.write(removal.remove_group, group, stage.now)
    with pytest.raises(GroupGone):
        await stage.claim_some(group)
    with pytest.raises(GroupGone):
        await stage.ack(group, claim)
    with pytest.raises(GroupGone):
        await stage.store.seek(group, topic.queues, Position("latest"), stage.now)
    whole = Range(Position("earliest"), Position("latest"), topic.queues, bytes(range(32)))
    with pytest.raises(GroupGone):
        await stage.store.replay(group, whole, 10, stage.now)
    assert (await stage.store.redrive(group, Letters(), 10, stage.now)).count == 0
    assert (await stage.store.write(redriving.purge, group, Letters(), 10)).count == 0
    stage.now += HOUR
    assert [p for p in await stage.promote(*timers) if p.entry < 0] == []
    await clear_all(stage)
    assert await stage.promote(*timers) == []
    assert remains(stage, groups=[group.id]) == {}


async def test_late_publishes_of_a_removed_topic_are_refused(stage: Stage) -> None:
    topic, other = await stage.topic(queues=2), await stage.topic("others")
    for queue in range(2):
        await stage.publish(*(stage.draft(topic, queue=queue) for _ in range(3)))
    await stage.store.remove_topic(topic, stage.now, force=True)
    for draft in (stage.draft(topic), stage.draft(topic, queue=1), stage.draft(topic, delay=HOUR)):
        await stage.publish(stage.draft(other))  # the session has drawn an offset before
        with pytest.raises(TopicGone):
            await stage.publish(draft)
        with pytest.raises(TopicGone):
            await stage.publish(stage.draft(other, b"both"), draft)
    with pytest.raises(TopicGone):
        await stage.group(topic, "late")
    with pytest.raises(TopicGone):
        await stage.store.read(stretches.pull, topic.queues[1], 0, 1)
    await clear_all(stage)
    assert remains(stage, [topic.id], queues=[queue.id for queue in topic.queues]) == {}
    assert stage.column("SELECT body FROM message") == [b"{}"] * 3


async def test_what_waits_or_is_unsettled_is_in_the_way(stage: Stage) -> None:
    topic = await stage.topic(ladder=SHORT)
    billing, audit = await stage.group(topic), await stage.group(topic, "audit")
    (later,) = await stage.publish(stage.draft(topic, delay=HOUR))
    assert "1 that wait for their time;" in await refusal(stage, topic)
    await stage.store.cancel([later.id], stage.now)
    await stage.publish(*(stage.draft(topic) for _ in range(4)))
    assert "8 unsettled (billing: 4, audit: 4)" in await refusal(stage, topic)
    claim = await stage.claim(billing)
    await stage.ack(billing, claim, (0, 1))
    await stage.fail(billing, claim, (2,))
    assert "6 unsettled (audit: 4, billing: 2)" in await refusal(stage, topic)
    await stage.ack(audit, await stage.claim(audit))
    await stage.fall_due(after=2 * SECOND)
    assert "2 unsettled (billing: 2)" in await refusal(stage, topic)
    back = await stage.claim(billing)
    assert "2 unsettled (billing: 2)" in await refusal(stage, topic)
    await stage.ack(billing, claim)
    assert "1 unsettled (billing: 1)" in await refusal(stage, topic)
    await stage.fail(billing, back)  # a dead letter has been settled
    assert await refusal(stage, topic) == ""
    assert await stage.store.read(catalogue.find_topics, ["orders"]) == []


async def test_messages_that_no_group_has_read_are_in_the_way(stage: Stage, topic: Topic) -> None:
    await stage.publish(stage.draft(topic), stage.draft(topic))
    assert "2 that no group has read" in await refusal(stage, topic)


async def refusal(stage: Stage, topic: Topic) -> str:
    """Why the topic cannot be removed; empty when it was."""
    before = everything(stage)
    try:
        await stage.store.remove_topic(topic, stage.now)
    except Unsettled as error:
        assert everything(stage) == before
        assert stage.count("removed") == 0
        return str(error)
    return ""


async def test_an_ordered_topic_counts_what_is_parked(stage: Stage) -> None:
    topic, group = await stage.topic_and_group(ordered=True, ladder=SHORT)
    await stage.publish(*(stage.draft(topic, ordering_key="k") for _ in range(3)))
    await stage.fail(group, await stage.claim(group), (0,))
    assert "3 unsettled (billing: 3)" in await refusal(stage, topic)


async def test_clients_of_a_removed_broadcast_group_have_no_offsets(stage: Stage) -> None:
    topic = await stage.store.write(catalogue.add_topic, TopicDraft("news", kind="broadcast"), stage.now)
    group = await stage.group(topic, "screens")
    await stage.publish(stage.draft(topic, b"1"), stage.draft(topic, b"2"))
    (answer,) = await stage.store.write(readers.read_on, [ReadRequest(group, "a", 10, latest=False)], stage.now)
    assert bodies_of(answer) == [b"1", b"2"]
    await stage.store.write(removal.remove_group, group, stage.now)
    await clear_all(stage)
    with pytest.raises(GroupGone):
        await stage.store.write(readers.read_on, [ReadRequest(group, "a", 10, latest=False)], stage.now)
    assert remains(stage, groups=[group.id]) == {}
    again = await stage.group(topic, "screens")
    (answer,) = await stage.store.write(readers.read_on, [ReadRequest(again, "a", 10, latest=False)], stage.now)
    assert bodies_of(answer) == [b"1", b"2"]
    assert await stage.store.remove_topic(topic, stage.now), "clients of a broadcast topic settle nothing"
    with pytest.raises(TopicGone):
        await stage.store.write(readers.read_on, [ReadRequest(again, "a", 10, latest=False)], stage.now)
    with pytest.raises(TopicGone):
        await stage.group_state(again)


async def test_retention_waits_no_longer_for_a_removed_group(stage: Stage, topic: Topic) -> None:
    reads, lags = await stage.group(topic), await stage.group(topic, "lags")
    await stage.publish(*(stage.draft(topic) for _ in range(5)))
    await stage.ack(reads, await stage.claim(reads))
    await stage.fail(lags, await stage.claim(lags), (0,))
    limits = retention.Limits(HOUR, 1000 * HOUR, HOUR, HOUR)
    assert (await clean(stage, topic, limits=limits, after=2 * HOUR)).rows == 0
    await stage.store.write(removal.remove_group, lags, stage.now)
    await clear(stage)
    assert (await clean(stage, topic, limits=limits)).rows == 5


@on_servers
async def test_what_an_outbox_commits_after_the_removal_is_dropped_at_its_time(stage: Stage) -> None:
    topic, other = await stage.topic(), await stage.topic("others")
    user = connect_raw(stage.dsn)
    cursor = user.cursor()
    # Two minutes: what is due within the minute that is under way is in no forecast.
    receipt = Outbox().publish(cursor, "orders", b"late", content_type="a/b", delay="2m", key="k")
    Outbox().publish(cursor, "others", b"other", content_type="a/b", delay="2m", key="k")
    await stage.store.remove_topic(topic, stage.now)
    await clear_all(stage)
    user.commit()
    user.close()
    assert await stage.store.read(tracing.find_message, int(receipt.id)) is None
    stage.now = max(await stage.store.backend.now(), stage.now) + HOUR
    promoted = await stage.fall_due()
    assert [p.queue_id for p in promoted] == [other.queues[0].id], "its neighbours are promoted all the same"
    assert remains(stage, [topic.id]) == {"forecast_change": 1}, "which is added up, as an hour that is over, and gone"
    while await stage.store.write(forecast.add_up, stage.now + HOUR):
        pass
    assert remains(stage, [topic.id]) == {}
    assert await stage.waiting() == {}


@on_servers
async def test_an_outbox_in_time_is_in_the_way(stage: Stage, topic: Topic) -> None:
    user = connect_raw(stage.dsn)
    Outbox().publish(user.cursor(), "orders", b"late", content_type="a/b", delay="1h")
    user.commit()
    user.close()
    assert "1 that wait for their time" in await refusal(stage, topic)


@on_servers
async def test_a_user_who_holds_a_claim_is_not_waited_for(stage: Stage, topic: Topic, group: Group) -> None:
    await stage.publish(*(stage.draft(topic) for _ in range(4)))
    held = await stage.claim(group, 2)
    await stage.claim(group, 2)
    with uncommitted(stage.dsn, f"SELECT * FROM claim WHERE number = {held.key.number} FOR UPDATE"):
        await stage.store.write(removal.remove_group, group, stage.now)
        await clear(stage)
        assert remains(stage, groups=[group.id]) == {"claim": 1}
    await clear_all(stage)
    assert remains(stage, groups=[group.id]) == {}


@pytest.mark.slow
@full
async def test_removal_beside_publishers_claimers_and_promotion(stage: Stage) -> None:
    """Topics and groups are removed and made anew while everybody works on them: of none is a row left."""
    rounds, dice = tries(1, 3), random.Random(stage.kind)
    told: Counter[str] = Counter()
    made: list[tuple[Topic, list[Group], set[int]]] = []
    present: list[tuple[Topic, list[Group]]] = []
    quiet, (reader,) = await busy(stage, "quiet", "reader")
    stopped = trio.Event()

    async def make() -> None:
        topic = await stage.topic("orders", 2, SHORT)
        groups = [await stage.group(topic, name) for name in ("billing", "audit")]
        made.append((topic, groups, queues_of(stage, topic)))
        present[:] = [(topic, groups)]

    async def work(step: str) -> None:
        while not stopped.is_set():
            topic, groups = present[0]
            try:
                if step == "publish":
                    drafts = [
                        stage.draft(topic, b"x", dice.choice([None, 0, 1, HOUR]), queue=dice.randrange(2), key="k")
                    ]
                    await stage.publish(*drafts, stage.draft(quiet, b"y", HOUR))
                elif step == "promote":
                    stage.now += 1
                    waiting = stage.column("SELECT id FROM delay") + [
                        ~id_ for id_ in stage.column("SELECT id FROM retry")
                    ]
                    await stage.promote(*waiting[:50])
                elif step == "cancel":
                    if ids := stage.column(f"SELECT id FROM delay WHERE topic_id = {topic.id}")[:3]:
                        await stage.store.cancel(ids, stage.now)
                else:
                    group = dice.choice(groups)
                    turn = await stage.turn(group, requests=[ClaimRequest("c", 3, MINUTE)])
                    for claim in turn.ranges:
                        await stage.fail(group, claim, (0,))
                        await stage.ack(group, claim)
                told[step] += 1
            except (TopicGone, GroupGone):
                told[f"{step} gone"] += 1
            await trio.lowlevel.checkpoint()

    async def until_done() -> None:
        for _ in range(rounds):
            before = told.copy()
            while any(told[step] < before[step] + 3 for step in ("publish", "promote", "claim", "cancel")):
                await trio.sleep(LOOK)
            topic, groups = present[0]
            await stage.store.write(removal.remove_group, groups[0], stage.now)
            await clear(stage, 200)
            assert await stage.store.remove_topic(topic, stage.now, force=True)
            await make()
            await clear(stage, 200)
        stopped.set()

    await make()
    async with trio.open_nursery() as nursery:
        for step in ("publish", "publish", "promote", "claim", "claim", "cancel"):
            nursery.start_soon(work, step)
        nursery.start_soon(until_done)
    assert told["publish gone"] + told["claim gone"] > 0, told
    topic, _ = present[0]
    await stage.store.remove_topic(topic, stage.now, force=True)
    await clear_all(stage)
    for topic, groups, queues in made:
        left = remains(stage, [topic.id], [group.id for group in groups], queues)
        assert left.keys() <= {"forecast"}, "of which an hour with what was promoted stays until it is over"
    run_again = stage.store.backend.statistics().get("run_again", 0)
    assert run_again <= rounds * 4, f"{run_again} transactions were run again beside {rounds} removals"
    state = await stage.state(quiet)
    assert state.pending == stage.count("delay", f"topic_id = {quiet.id}")
    assert await stage.claim_some(reader) is not None


@pytest.mark.slow
async def test_no_acknowledged_publish_goes_with_a_topic_unless_forced(stage: Stage) -> None:
    """I1 beside an unforced removal, tried again and again: it comes through only when all is settled."""
    dice = random.Random(stage.kind)
    for _ in range(4):
        topic, group = await stage.topic_and_group("orders", 2)
        accepted: set[int] = set()
        acked: set[int] = set()
        over = trio.Event()

        async def publish(
            topic: Topic = topic, accepted: set[int] = accepted, acked: set[int] = acked, over: trio.Event = over
        ) -> None:
            while not over.is_set():
                draft = stage.draft(topic, b"x", dice.choice([None, 1]), queue=dice.randrange(2))
                try:
                    accepted.update(ids_of(await stage.publish(draft)))
                except TopicGone:
                    return
                while not accepted <= acked and not over.is_set():
                    await trio.sleep(LOOK)
                await trio.sleep(dice.choice([0, LOOK, 10 * LOOK, 30 * LOOK]))

        async def consume(group: Group = group, acked: set[int] = acked, over: trio.Event = over) -> None:
            while not over.is_set():
                stage.now += 1
                try:
                    if waiting := stage.column("SELECT id FROM delay"):
                        await stage.promote(*waiting)
                    claim = await stage.claim_some(group, 100)
                    if claim is not None:
                        await stage.ack(group, claim)
                        acked.update(message.id for message in claim.messages)
                except GroupGone:
                    return
                await trio.lowlevel.checkpoint()

        async def remove(topic: Topic = topic, accepted: set[int] = accepted, over: trio.Event = over) -> None:
            while len(accepted) < 5:
                await trio.sleep(LOOK)
            with trio.fail_after(30):
                while True:
                    try:
                        await stage.store.remove_topic(topic, stage.now)
                        break
                    except Unsettled:
                        await trio.lowlevel.checkpoint()
            over.set()

        await at_once(publish, consume, remove)
        assert accepted
        assert accepted == acked, f"{len(accepted - acked)} acknowledged messages went with the topic"
    await clear_all(stage)

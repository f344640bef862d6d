"""Seek and replay: a group is moved, its claims are closed, the others feel nothing, and the books stay right (I14)."""

from functools import partial

import pytest
from attrs import evolve

from support.at_once import at_once
from support.books import conserves
from support.letters import dead_letters_of
from support.stores import MINUTE, SECOND, Stage, bodies
from tarry.store.history import since_redrive
from tarry.store.operating import redriving, replaying, seeking
from tarry.store.operating.redriving import Letters
from tarry.store.operating.replaying import Range
from tarry.store.records import Group, Settlement, Topic
from tarry.store.stream.positions import Position
from tarry.wheel.ladder import Ladder

EARLIEST, LATEST = Position("earliest"), Position("latest")


def books(stage: Stage, group: Group) -> None:
    """I14, from the bare tables."""
    conserves(stage)
    tables = stage.tables
    entries = "SELECT SUM(position_after - position_before + released) FROM seek s WHERE s.group_id = c.group_id"
    for sought, told in tables.rows(
        f"SELECT sought, COALESCE(({entries} AND s.queue_id = c.queue_id), 0) FROM `cursor` c"
        f" WHERE group_id = {group.id}"
    ):
        assert sought == told, "seeks are entries of their own"
    ((on,),) = tables.rows(f"SELECT SUM(retried + redriven) FROM `cursor` WHERE group_id = {group.id}")
    ((back,),) = tables.rows(f"SELECT SUM(next_offset) FROM queue WHERE group_id = {group.id}")
    assert on == back + stage.count("retry", f"group_id = {group.id}"), "the ladder"
    ((dead,),) = tables.rows(f"SELECT SUM(dead - cleared) FROM `cursor` WHERE group_id = {group.id}")
    assert dead == stage.count("dead", f"group_id = {group.id}"), "dead letters"


async def filled(stage: Stage, messages: int = 10) -> Group:
    """A message a second, from START on."""
    topic = await stage.topic()
    for number in range(messages):
        await stage.publish(stage.draft(topic, b"%d" % number))
        stage.now += SECOND
    return await stage.group(topic)


async def seek(stage: Stage, group: Group, position: Position) -> int:
    sought = await stage.store.seek(group, group.topic.queues, position, stage.now)
    ((number, offset),) = sought.queues
    assert number == 0
    books(stage, group)
    return offset


async def rest(stage: Stage, group: Group) -> list[int]:
    """Takes and acks all that comes."""
    got: list[int] = []
    while (claim := await stage.claim_some(group, 100)) is not None:
        got += [int(body) for body in bodies(claim)]
        await stage.ack(group, claim)
    books(stage, group)
    return got


async def test_to_the_earliest_the_latest_an_offset_and_a_time(stage: Stage) -> None:
    began = stage.now
    group = await filled(stage)
    other = await stage.group(group.topic, "shipping")
    assert await rest(stage, group) == list(range(10))
    assert await seek(stage, group, EARLIEST) == 0
    assert await rest(stage, group) == list(range(10))
    assert await seek(stage, group, Position("offset", 7)) == 7
    assert await rest(stage, group) == [7, 8, 9]
    assert await seek(stage, group, Position("time", began + 4 * SECOND)) == 4
    assert await seek(stage, group, Position("time", began + 3 * SECOND + 1)) == 4
    assert await rest(stage, group) == [4, 5, 6, 7, 8, 9]
    assert await seek(stage, group, EARLIEST) == 0
    assert await seek(stage, group, LATEST) == 10
    assert await rest(stage, group) == []
    assert await seek(stage, group, Position("offset", 99)) == 10
    assert await seek(stage, group, Position("time", stage.now + MINUTE)) == 10
    assert await seek(stage, group, Position("time", 0)) == 0
    assert await rest(stage, other) == list(range(10))


async def test_open_claims_are_closed_and_their_acks_are_refused(stage: Stage) -> None:
    group = await filled(stage)
    first, second = await stage.claim(group, 4), await stage.claim(group, 3)
    assert (await stage.ack(group, first, (0, 1))).acked == 2
    sought = await stage.store.seek(group, group.topic.queues, Position("offset", 1), stage.now)
    assert set(sought.closed) == {first.key, second.key}
    books(stage, group)
    assert stage.count("claim") == 0
    for claim, places in ((first, None), (first, (2,)), (second, None), (second, (0,))):
        assert (await stage.ack(group, claim, places)).lost
        assert (await stage.fail(group, claim, places)).lost
    assert (await stage.ack(group, first, (0,))).acked == 1  # what had been acked stays so
    extended = await stage.settle_one(group, Settlement(second.key, "extend", lease=MINUTE))
    assert extended.lost
    assert await rest(stage, group) == [*range(1, 10)]


async def test_what_is_on_the_ladder_stays_there(stage: Stage) -> None:
    group = await filled(stage, 3)
    await stage.fail(group, await stage.claim(group, 1), reason="no")
    assert await seek(stage, group, LATEST) == 3
    assert await rest(stage, group) == []
    await stage.fall_due(after=MINUTE)
    claim = await stage.claim(group)
    assert ([m.attempt for m in claim.messages], bodies(claim)) == ([2], [b"0"])
    # A claim of the retry queue is closed too, and what it held comes back at once, uncounted.
    sought = await stage.store.seek(group, group.topic.queues, LATEST, stage.now)
    assert sought.closed == (claim.key,)
    assert len(sought.timers) == 1
    books(stage, group)
    assert (await stage.ack(group, claim)).lost
    assert [promoted.entry for promoted in await stage.fall_due()] == [entry for _, entry in sought.timers]
    again = await stage.claim(group)
    assert ([m.attempt for m in again.messages], bodies(again)) == ([2], [b"0"])
    books(stage, group)


async def test_one_queue_of_many(stage: Stage) -> None:
    topic = await stage.topic(queues=2)
    await stage.publish(*(stage.draft(topic, b"%d" % i, queue=i % 2) for i in range(6)))
    group = await stage.group(topic)
    claims = [await stage.claim(group, 3), await stage.claim(group, 3)]
    sought = await stage.store.seek(group, topic.queues[1:], EARLIEST, stage.now)
    assert sought.queues == ((1, 0),)
    (open_,) = [claim for claim in claims if claim.key not in sought.closed]
    assert open_.key.queue_id == topic.queues[0].id
    assert (await stage.ack(group, open_)).acked == 3
    assert await rest(stage, group) == [1, 3, 5]


async def test_a_time_is_found_although_writers_overtook_each_other(stage: Stage) -> None:
    began = stage.now
    group = await filled(stage, 40)
    stage.tables.rows(f"UPDATE message SET streamed_at = {began + 20 * SECOND} WHERE `offset` = 16")
    assert await seek(stage, group, Position("time", began + 20 * SECOND)) == 16
    stage.tables.rows("DELETE FROM message WHERE `offset` < 5")
    assert await seek(stage, group, EARLIEST) == 5
    assert await seek(stage, group, Position("time", 0)) == 5


async def test_a_new_group_may_begin_at_a_time(stage: Stage) -> None:
    began = stage.now
    topic = (await filled(stage)).topic
    group = await stage.store.add_group(topic, "late", stage.now, since=began + 6 * SECOND)
    assert await rest(stage, group) == [6, 7, 8, 9]


def range_of(group: Group, begin: Position, end: Position, request: bytes = bytes(32)) -> Range:
    return Range(begin, end, group.topic.queues, request)


async def test_a_range_is_replayed_to_one_group(stage: Stage) -> None:
    group = await filled(stage)
    other = await stage.group(group.topic, "shipping")
    assert await rest(stage, group) == await rest(stage, other) == list(range(10))
    asked = range_of(group, Position("offset", 3), Position("offset", 7))
    assert await stage.store.read(replaying.count, group, asked) == 4
    assert (await stage.store.replay(group, asked, 100, stage.now)).count == 4
    books(stage, group)
    await stage.fall_due()
    claim = await stage.claim(group)
    assert [int(body) for body in bodies(claim)] == [3, 4, 5, 6]
    assert {message.attempt for message in claim.messages} == {1}
    await stage.ack(group, claim)
    assert await rest(stage, other) == []
    books(stage, group)


async def test_a_message_that_comes_twice_is_in_a_claim_once(stage: Stage) -> None:
    group = await filled(stage, 2)
    await rest(stage, group)
    for request in (b"a" * 32, b"b" * 32):
        await stage.store.replay(group, range_of(group, EARLIEST, LATEST, request), 10, stage.now)
    await stage.fall_due()
    claim = await stage.claim(group)
    assert (claim.size, sorted(bodies(claim))) == (4, [b"0", b"1"])
    books(stage, group)
    assert (await stage.ack(group, claim, tuple(claim.places.values()))).ended
    books(stage, group)


async def test_a_replay_goes_on_where_it_was_killed(stage: Stage) -> None:
    topic = await stage.topic(queues=2)
    await stage.publish(*(stage.draft(topic, b"%d" % i, queue=i % 2) for i in range(20)))
    group = await stage.group(topic)
    assert len(await rest(stage, group)) == 20
    asked = range_of(group, EARLIEST, LATEST, b"a" * 32)
    for _ in range(4):  # the fourth begins the second queue; then the server is gone
        assert not (await stage.store.replay(group, asked, 3, stage.now)).done
    assert (await stage.store.replay(group, asked, 3, stage.now)).count == 3
    await stage.publish(*(stage.draft(topic, b"%d" % i, queue=i % 2) for i in range(20, 24)))  # of no concern to it
    replayed = await stage.store.replay(group, asked, 100, stage.now)
    assert replayed.done
    assert stage.count("replay") == 0
    books(stage, group)
    await stage.fall_due()
    assert sorted(await rest(stage, group)) == sorted([*range(20), *range(20, 24)])


async def test_another_replay_takes_the_place_of_one_that_was_given_up(stage: Stage) -> None:
    group = await filled(stage)
    await rest(stage, group)
    await stage.store.replay(group, range_of(group, EARLIEST, LATEST, b"a" * 32), 2, stage.now)
    asked = range_of(group, Position("offset", 8), LATEST, b"b" * 32)
    assert (await stage.store.replay(group, asked, 100, stage.now)).done
    assert (await stage.store.replay(group, range_of(group, EARLIEST, EARLIEST), 10, stage.now)).count == 0
    await stage.fall_due()
    assert sorted(await rest(stage, group)) == [0, 1, 8, 9]


async def test_a_named_replay_of_many_ranges_begins_again_and_hands_out_nothing_twice(stage: Stage) -> None:
    group = await filled(stage, 20)
    await rest(stage, group)

    async def run(name: bytes, limit: int, *ranges: tuple[int, int]) -> int:
        count = 0
        for begin, end in ranges:
            asked = range_of(group, Position("offset", begin), Position("offset", end), name)
            count += (await stage.store.replay(group, evolve(asked, named=True), limit, stage.now)).count
        return count

    name = b"n" * 32
    assert await run(name, 2, (1, 3), (5, 9)) == 4  # and killed in the middle of the second
    assert await run(name, 100, (1, 3), (5, 9), (12, 14)) == 4
    assert await run(name, 100, (1, 3), (5, 9), (12, 14)) == 0
    assert await run(name, 100, (2, 3), (13, 16)) == 2, "what is new, and above"
    await stage.fall_due()
    assert sorted(await rest(stage, group)) == [1, 2, 5, 6, 7, 8, 12, 13, 14, 15]
    books(stage, group)
    assert await run(b"m" * 32, 100, (1, 3)) == 2, "another name begins anew"
    assert await run(name, 100, (1, 3)) == 2, "and the first is forgotten"
    assert stage.count("replay") == 1


@pytest.mark.parametrize("position", [EARLIEST, LATEST, Position("time", 5), Position("offset", 5)])
async def test_an_empty_queue(stage: Stage, position: Position) -> None:
    group = await filled(stage, 0)
    assert await seek(stage, group, position) == 0


async def test_redriven_then_dead_again_is_one_letter(stage: Stage, topic: Topic) -> None:
    """I7 over a seek and a redrive."""
    group = await stage.group(topic, ladder=Ladder(()))
    await stage.publish(stage.draft(topic, b"0"))
    await stage.fail(group, await stage.claim(group), reason="first")
    assert await seek(stage, group, EARLIEST) == 0
    stage.now += MINUTE
    await stage.fail(group, await stage.claim(group), reason="second")
    books(stage, group)
    (letter,) = await stage.store.read(dead_letters_of, group, 0, 10)
    assert letter.dead_at == stage.now
    assert [entry.reason for entry in since_redrive(letter.history)] == ["second"]


async def test_seeks_beside_claims_acks_and_redrives(stage: Stage) -> None:
    """Whatever overtakes what: the books are right, and no lock is waited for in a circle for long."""
    topic = await stage.topic(queues=2)
    group = await stage.group(topic, ladder=Ladder(()))
    await stage.publish(*(stage.draft(topic, b"%d" % i, queue=i % 2) for i in range(200)))

    async def consume(client: str) -> None:
        for turn in range(25):
            claim = await stage.claim_some(group, 5, client=client)
            if claim is not None:
                verb = stage.fail if turn % 3 == 0 else stage.ack
                await verb(group, claim)

    async def operate() -> None:
        for turn in range(12):
            position = Position("offset", turn * 5)
            await stage.store.seek(group, topic.queues, position, stage.now)
            await stage.store.redrive(group, Letters(), 10, stage.now)
            await stage.store.write(redriving.purge, group, Letters(), 2)
            await stage.store.replay(group, range_of(group, position, LATEST), 3, stage.now)
            await stage.fall_due()

    await at_once(*(partial(consume, f"client-{number}") for number in range(3)), operate)
    books(stage, group)


async def test_a_server_that_knows_fewer_queues_moves_the_group_in_all(stage: Stage) -> None:
    """Another one has given the topic more since."""
    _, group = await stage.topic_and_group()
    wide = await stage.topic(queues=3)
    await stage.publish(*(stage.draft(wide, b"%d" % i, queue=i % 3) for i in range(6)))
    await stage.claim((await stage.store.groups([wide]))[0], 1)
    dry = await stage.store.read(seeking.targets, group, None, LATEST)
    sought = await stage.store.seek(group, None, LATEST, stage.now)
    assert dict(sought.queues) == dict(dry) == {0: 2, 1: 2, 2: 2}
    assert len(sought.closed) == 1
    books(stage, group)
    assert await rest(stage, (await stage.store.groups([wide]))[0]) == []


async def test_a_server_that_knows_fewer_queues_replays_all(stage: Stage, topic: Topic, group: Group) -> None:
    """And a topic that gains queues in the midst of a replay has them replayed too, and nothing twice."""
    asked = evolve(range_of(group, EARLIEST, LATEST), queues=None)

    async def wider(queues: int) -> Group:
        wide = await stage.topic(queues=queues)
        await stage.publish(*(stage.draft(wide, b"%d" % (10 * queues + i), queue=queues - 1) for i in range(4)))
        (grown,) = await stage.store.groups([wide])
        await rest(stage, grown)
        return grown

    await wider(1)
    await wider(2)
    assert await stage.store.read(replaying.count, group, asked) == 8
    assert not (await stage.store.replay(group, asked, 3, stage.now)).done
    grown = await wider(3)
    while not (await stage.store.replay(group, asked, 3, stage.now)).done:
        pass
    await stage.fall_due()
    assert sorted(await rest(stage, grown)) == [10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33]
    books(stage, grown)

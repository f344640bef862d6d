"""Erasing: content goes wherever a message lies, and its life stays."""

import json
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
import trio

from support.letters import dead_letters_of
from support.store_homes import on_servers
from support.stores import HOUR, MINUTE, SECOND, START, Stage, uncommitted
from tarry.store.erased import content_type_of
from tarry.store.errors import Contention
from tarry.store.looking import tracing
from tarry.store.operating import erasing, redriving
from tarry.store.operating.erasing import Erasure
from tarry.store.operating.redriving import Letters
from tarry.store.records import Group, Topic
from tarry.store.timers import timers
from tarry.wheel.ladder import Ladder

HISTORY = b'[{"at":1,"client":"c","reason":"Ada"}]'
SECRET = b'{"name":"Ada"}'
HEADERS = b'{"of":"Ada"}'
_CONTENTS = ("delay", "message", "dead")
_HISTORIES = ("retry", "redelivery", "parked", "dead")


async def _publish(stage: Stage, topic: Topic, delay: int | None = None, **rest: Any) -> int:
    (receipt,) = await stage.publish(stage.draft(topic, SECRET, delay, headers=HEADERS, key="k", **rest))
    return receipt.id


async def _erase(stage: Stage, id_: int) -> Erasure:
    erasure = await stage.store.write(erasing.erase, id_, stage.now)
    assert isinstance(erasure, Erasure), erasure
    return erasure


async def _erase_patiently(stage: Stage, id_: int) -> None:
    while True:
        with suppress(Contention):
            await _erase(stage, id_)
            return


def _left(stage: Stage) -> list[str]:
    """The tables in which something of what the message said is found."""
    left = [
        table
        for table in _CONTENTS
        for body, headers in stage.tables.rows(f"SELECT body, headers FROM {table}")
        if b"Ada" in bytes(body) + bytes(headers or b"")
    ]
    left += [
        table
        for table in _HISTORIES
        for (history,) in stage.tables.rows(f"SELECT history FROM {table}")
        if b"Ada" in bytes(history)
    ]
    return left


class TestInTheStream:
    async def test_it_is_handed_out_without_its_content(self, stage: Stage, topic: Topic, group: Group) -> None:
        id_ = await _publish(stage, topic, tag="t", content_type="text/x")
        assert _left(stage) == ["message"]
        stage.now += MINUTE
        assert await _erase(stage, id_) == Erasure(id_, stage.now, "none", None, True)
        assert _left(stage) == []
        (message,) = (await stage.claim(group)).messages
        assert (message.id, message.key, message.tag, message.accepted_at) == (id_, "k", "t", START)
        assert (message.body, message.headers) == (b"", None)
        assert message.content_type == content_type_of(stage.now)

    async def test_once_more_keeps_the_first_time(self, stage: Stage, topic: Topic) -> None:
        id_ = await _publish(stage, topic)
        first = await _erase(stage, id_)
        stage.now += HOUR
        assert await _erase(stage, id_) == first
        assert stage.count("erased") == 1

    async def test_no_other(self, stage: Stage, topic: Topic) -> None:
        id_, other = await _publish(stage, topic), await _publish(stage, topic)
        await _erase(stage, id_)
        assert stage.tables.rows(f"SELECT body, headers FROM message WHERE id = {other}") == [(SECRET, HEADERS)]

    async def test_its_life_stays(self, stage: Stage, topic: Topic, group: Group) -> None:
        id_ = await _publish(stage, topic)
        await stage.fail(group, await stage.claim(group), reason="no mail for Ada")
        before = await stage.store.read(tracing.find_message, id_)
        stage.now += SECOND
        await _erase(stage, id_)
        after = await stage.store.read(tracing.find_message, id_)
        assert before is not None
        assert after is not None
        assert [(e.what, e.at, e.client, e.attempt) for e in after.life] == [
            (e.what, e.at, e.client, e.attempt) for e in before.life
        ]
        assert {e.reason for e in before.life} == {None, "no mail for Ada"}
        assert {e.reason for e in after.life} == {None}
        assert (after.body, after.headers, after.content_type) == (b"", None, content_type_of(stage.now))


class TestWaiting:
    async def test_it_is_to_be_cancelled_first(self, stage: Stage, topic: Topic) -> None:
        id_ = await _publish(stage, topic, HOUR)
        assert await stage.store.write(erasing.erase, id_, stage.now) == "waiting"
        assert (_left(stage), stage.count("erased")) == (["delay"], 0)

    async def test_moved_apart(self, stage: Stage, topic: Topic) -> None:
        id_ = await _publish(stage, topic, HOUR)
        await stage.store.write(timers.reschedule, [(id_, stage.now + 2 * HOUR)], stage.now)
        assert await stage.store.write(erasing.erase, id_, stage.now) == "waiting"

    async def test_cancelled(self, stage: Stage, topic: Topic) -> None:
        id_ = await _publish(stage, topic, HOUR)
        await stage.store.cancel([id_], stage.now)
        erasure = await _erase(stage, id_)
        assert (erasure.known, _left(stage)) == (True, [])
        found = await stage.found(id_)
        assert (found.state, found.erased_at, found.key) == ("cancelled", stage.now, "k")

    async def test_promoted(self, stage: Stage, topic: Topic) -> None:
        id_ = await _publish(stage, topic, HOUR)
        await stage.fall_due(after=HOUR)
        await _erase(stage, id_)
        assert _left(stage) == []


async def _in_four_groups(stage: Stage, topic: Topic) -> tuple[int, list[Group]]:
    """A message that is dead in one group, on a rung of another, back from the ladder in a third, new to a fourth."""
    dead = await stage.group(topic, "dead", ladder=Ladder(()))
    rung = await stage.group(topic, "rung", ladder=Ladder((HOUR,)))
    back = await stage.group(topic, "back", ladder=Ladder((SECOND, HOUR)))
    new = await stage.group(topic, "new")
    id_ = await _publish(stage, topic)
    for group in (dead, rung, back):
        await stage.fail(group, await stage.claim(group), reason="Ada is unknown")
    await stage.fall_due(after=SECOND)
    return id_, [dead, rung, back, new]


class TestInGroups:
    async def test_everywhere(self, stage: Stage, topic: Topic) -> None:
        id_, (dead, _, back, _) = await _in_four_groups(stage, topic)
        assert sorted(_left(stage)) == ["dead", "dead", "message", "redelivery", "retry"]
        await _erase(stage, id_)
        assert _left(stage) == []
        (letter,) = await stage.store.read(dead_letters_of, dead, 0, 10)
        assert (letter.message.body, letter.message.content_type) == (b"", content_type_of(stage.now))
        (attempt,) = json.loads(letter.history)
        assert attempt == {"at": START, "client": "client-1", "reason": None}
        await stage.fail(back, await stage.claim(back), reason="still")
        assert _left(stage) == []
        assert stage.count("dead") == 1

    async def test_what_comes_after_it_goes_with_another_call(self, stage: Stage, topic: Topic) -> None:
        id_, (*_, back, _) = await _in_four_groups(stage, topic)
        first = await _erase(stage, id_)
        stage.now += HOUR
        await stage.fail(back, await stage.claim(back), reason="what became of Ada?")
        assert _left(stage) == ["retry"]
        assert await _erase(stage, id_) == first
        assert _left(stage) == []

    async def test_our_own_reason_stays(self, stage: Stage, topic: Topic) -> None:
        group = await stage.group(topic, ladder=Ladder(()))
        id_ = await _publish(stage, topic)
        claim = await stage.claim(group, lease=MINUTE)
        stage.now += HOUR
        await stage.end_leases(group)
        await _erase(stage, id_)
        (letter,) = await stage.store.read(dead_letters_of, group, 0, 10)
        assert json.loads(letter.history) == [{"at": claim.lease_until, "client": "client-1", "reason": "lease lost"}]

    async def test_a_letter_whose_message_is_gone(self, stage: Stage, topic: Topic) -> None:
        group = await stage.group(topic, ladder=Ladder(()))
        id_ = await _publish(stage, topic)
        await stage.fail(group, await stage.claim(group), reason="Ada")
        stage.tables.rows("DELETE FROM message")
        assert await stage.store.read(erasing.topic_of, id_) == topic.name
        await _erase(stage, id_)
        assert _left(stage) == []
        await stage.store.redrive(group, Letters(), 10, stage.now)
        await stage.fall_due()
        (message,) = (await stage.claim(group)).messages
        assert (message.body, message.content_type) == (b"", content_type_of(stage.now))

    async def test_parked_behind_one_of_its_key(self, stage: Stage) -> None:
        topic = await stage.topic(ordered=True)
        group = await stage.group(topic, ladder=Ladder((SECOND,) * 4))
        first = await _publish(stage, topic, ordering_key="o")
        second = await _publish(stage, topic, ordering_key="o")
        claim = await stage.claim(group)
        await stage.fail(group, claim, reason="Ada")
        assert (stage.count("retry"), stage.count("parked")) == (1, 1)
        stage.tables.rows("UPDATE parked SET history = X'" + HISTORY.hex() + "'")
        assert sorted(_left(stage)) == ["message", "message", "parked", "retry"]
        await _erase(stage, second)
        assert sorted(_left(stage)) == ["message", "retry"]
        await _erase(stage, first)
        assert _left(stage) == []


class TestUnknown:
    async def test_without_a_lake_there_is_nothing_to_erase(self, stage: Stage) -> None:
        assert await stage.store.write(erasing.erase, 7 << 21, stage.now) == "unknown"
        assert stage.count("erased") == 0
        assert await stage.store.read(erasing.topic_of, 7 << 21) is None

    async def test_with_a_lake_it_is_remembered(self, stage: Stage) -> None:
        stage.tables.rows("INSERT INTO lease (name, holder, epoch, lease_until) VALUES (X'6c616b65', X'78', 0, 0)")
        assert await _erase(stage, 7 << 21) == Erasure(7 << 21, START, "pending", None, False)
        assert stage.tables.rows("SELECT id, topic_id, lake_at FROM erased") == [(7 << 21, 0, None)]

    async def test_the_lake_is_told_again_of_what_came_since(self, stage: Stage) -> None:
        stage.tables.rows("INSERT INTO lease (name, holder, epoch, lease_until) VALUES (X'6c616b65', X'78', 0, 0)")
        topic, group = await stage.topic_and_group()
        id_ = await _publish(stage, topic)
        assert (await _erase(stage, id_)).lake == "pending"
        stage.tables.rows("UPDATE erased SET lake_at = 5")
        assert (await _erase(stage, id_)).lake_at == 5
        await stage.fail(group, await stage.claim(group), reason="Ada")
        assert (await _erase(stage, id_)).lake == "pending"


@pytest.mark.parametrize("rounds", [12])
async def test_beside_the_group_at_work(stage: Stage, rounds: int, topic: Topic) -> None:
    """A message is erased while three groups fail it, all at once: nothing of it comes back."""
    groups = [await stage.group(topic, f"g{n}", ladder=Ladder((SECOND,) * n)) for n in range(3)]
    for _ in range(rounds):
        id_ = await _publish(stage, topic)
        claims = [await stage.claim(group) for group in groups]
        async with trio.open_nursery() as nursery:
            for group, claim in zip(groups, claims, strict=True):
                nursery.start_soon(partial(stage.fail, group, claim, reason="oops"))
            nursery.start_soon(_erase_patiently, stage, id_)
        await stage.fall_due(after=SECOND)
        assert _left(stage) == []
        await _erase(stage, id_)
        for group in groups[1:]:
            while (again := await stage.claim_some(group)) is not None:
                await stage.ack(group, again)


@on_servers
async def test_a_turn_that_read_before_writes_nothing_back(stage: Stage, topic: Topic) -> None:
    """The cursor is held as a turn holds it: the erasure waits, and then finds what the turn has written."""
    group = await stage.group(topic, ladder=Ladder(()))
    id_ = await _publish(stage, topic)
    claim = await stage.claim(group)
    turn = f"SELECT position FROM `cursor` WHERE group_id = {group.id} FOR UPDATE"
    with uncommitted(stage.dsn, turn), pytest.raises(Contention):
        await stage.store.write(erasing.erase, id_, stage.now)
    assert stage.count("erased") == 0
    await stage.fail(group, claim, reason="Ada")
    await _erase(stage, id_)
    assert _left(stage) == []


async def test_redriven_ones_stay_erased(stage: Stage, topic: Topic) -> None:
    group = await stage.group(topic, ladder=Ladder(()))
    id_ = await _publish(stage, topic)
    await stage.fail(group, await stage.claim(group), reason="Ada")
    await _erase(stage, id_)
    await stage.store.write(redriving.redrive, group, Letters(), 10, stage.now, stage.store.ids.make)
    await stage.fall_due()
    (message,) = (await stage.claim(group)).messages
    assert (message.id, message.body, message.content_type) == (id_, b"", content_type_of(stage.now))

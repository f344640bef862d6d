"""Claims by tag: messages of other tags are settled for the group, counted, and never lost track of (I14)."""

import random

import pytest

from support.books import conserves
from support.stores import MINUTE, SECOND, Stage, bodies
from tarry.store.groups import claims
from tarry.store.records import Claim, ClaimRequest, Group, Settlement, Topic, Turn
from tarry.wheel.ladder import Ladder

RED = frozenset({"red"})


async def tell(stage: Stage, topic: Topic, *tags: str | None) -> None:
    """A message per tag, their bodies 0, 1, 2, ..."""
    await stage.publish(*(stage.draft(topic, b"%d" % i, tag=tag) for i, tag in enumerate(tags)))


async def take(stage: Stage, group: Group, *sizes: int, tags: frozenset[str] | None = RED) -> Turn:
    return await stage.turn(group, requests=[ClaimRequest("c", size, MINUTE, tags) for size in sizes or (10,)])


async def claim(stage: Stage, group: Group, size: int = 10, tags: frozenset[str] | None = RED) -> Claim:
    (got,) = (await take(stage, group, size, tags=tags)).claims
    assert got is not None, "there was nothing to claim"
    return got


async def test_only_the_tags_asked_for_come(stage: Stage, topic: Topic, group: Group) -> None:
    await tell(stage, topic, "blue", "red", None, "green", "red", "blue")
    got = await claim(stage, group)
    assert bodies(got) == [b"1", b"4"]
    conserves(stage)
    assert (await stage.ack(group, got)).acked == 2
    conserves(stage)
    assert stage.column("SELECT skipped FROM `cursor` ORDER BY queue_id") == [4, 0]
    assert (await stage.group_state(group)).skipped == 4
    assert stage.column("SELECT acked FROM `cursor` ORDER BY queue_id") == [2, 0]
    assert (await take(stage, group)).claims == (None,)
    assert (await take(stage, group, tags=None)).claims == (None,), "they count as settled for this group"


async def test_several_tags(stage: Stage, topic: Topic, group: Group) -> None:
    await tell(stage, topic, "blue", "red", None, "green")
    assert bodies(await claim(stage, group, tags=frozenset({"blue", "green"}))) == [b"0", b"3"]
    conserves(stage)


async def test_no_tag_is_like_another(stage: Stage, topic: Topic, group: Group) -> None:
    """Compared byte by byte, as keys are."""
    await tell(stage, topic, "Red", "red ", "red", "rèd")
    assert bodies(await claim(stage, group)) == [b"2"]


async def test_other_groups_feel_nothing(stage: Stage, topic: Topic) -> None:
    group, other = await stage.group(topic), await stage.group(topic, "audit")
    await tell(stage, topic, "blue", "red")
    await claim(stage, group)
    assert bodies(await stage.claim(other)) == [b"0", b"1"]


async def test_what_is_skipped_within_a_claim_cannot_be_settled(stage: Stage, topic: Topic, group: Group) -> None:
    await tell(stage, topic, "red", "blue", "red")
    got = await claim(stage, group)
    assert got.size == 3
    assert (await stage.ack(group, got, (1,))).lost
    assert (await stage.fail(group, got)).retried == 2
    conserves(stage)
    found = await stage.found(stage.column("SELECT id FROM message ORDER BY `offset`")[1])
    assert [event.what for event in found.life] == ["published", "skipped"]


async def test_a_claim_by_tag_is_filled(stage: Stage, topic: Topic, group: Group) -> None:
    """It reads on past other tags until it has as many as were wished for."""
    await tell(stage, topic, *["red", "blue", "blue"] * 20)
    turn = await take(stage, group, 10, 10)
    assert [len(one.messages) for one in turn.claims if one is not None] == [10, 10]
    conserves(stage)


async def test_a_claim_is_never_wider_than_a_thousand(stage: Stage, topic: Topic, group: Group) -> None:
    await tell(stage, topic, "red", *["blue"] * 998)
    await tell(stage, topic, "blue", "blue", "red")
    got = await claim(stage, group)
    assert got.size <= claims.WIDEST
    assert len(got.messages) == 1
    assert len((await claim(stage, group)).messages) == 1
    conserves(stage)


async def test_much_is_skipped_in_bounded_steps(stage: Stage, topic: Topic, group: Group) -> None:
    for _ in range(6):
        await tell(stage, topic, *["blue"] * 1000)
    await tell(stage, topic, "red")
    turn = await take(stage, group)
    assert turn.claims == (None,)
    assert turn.cut
    assert turn.more
    assert stage.column("SELECT position FROM `cursor` ORDER BY queue_id") == [claims.SCAN, 0]
    conserves(stage)
    turn = await take(stage, group)
    assert not turn.cut
    assert turn.claims[0] is not None
    conserves(stage)


async def test_who_asks_for_no_tags_gets_what_comes_next(stage: Stage, topic: Topic, group: Group) -> None:
    await tell(stage, topic, "blue", "red", "blue", "green")
    wishes = [ClaimRequest("c", 1, MINUTE, RED), ClaimRequest("c", 5, MINUTE)]
    first, second = (await stage.turn(group, requests=wishes)).claims
    assert first is not None
    assert second is not None
    assert (bodies(first), bodies(second)) == ([b"1"], [b"2", b"3"])
    conserves(stage)


async def test_retries_keep_matching(stage: Stage, topic: Topic) -> None:
    group = await stage.group(topic, ladder=Ladder((1000, 1000)))
    await tell(stage, topic, "blue", "red", "red")
    await stage.fail(group, await claim(stage, group))
    await stage.fall_due(after=1000)
    got = await claim(stage, group)
    assert bodies(got) == [b"1", b"2"]
    assert [message.attempt for message in got.messages] == [2, 2]
    conserves(stage)
    await stage.ack(group, got)
    conserves(stage)


async def test_what_retention_has_taken_is_expired_and_not_skipped(stage: Stage, topic: Topic, group: Group) -> None:
    await tell(stage, topic, "blue", "blue", "red", "blue", "red")
    stage.tables.rows("DELETE FROM message WHERE `offset` IN (0, 3)")
    assert bodies(await claim(stage, group)) == [b"2", b"4"]
    assert stage.column("SELECT skipped FROM `cursor` ORDER BY queue_id") == [1, 0]
    await stage.counts(group, skipped=1, expired=2)
    assert stage.column("SELECT expired FROM `cursor` ORDER BY queue_id") == [2, 0]
    conserves(stage)


async def test_lost_leases_of_a_claim_by_tag(stage: Stage, topic: Topic, group: Group) -> None:
    await tell(stage, topic, "red", "blue", "red")
    got = await claim(stage, group)
    stage.now += MINUTE
    ended = await stage.settle_one(group, Settlement(got.key, "end"))
    assert ended.retried == 2
    conserves(stage)


@pytest.mark.parametrize("seed", [1, 2])
async def test_random_tags(stage: Stage, seed: int) -> None:
    """I14 with tags in it, for retries as for what is new: whatever a group passed over is counted, once."""
    dice = random.Random(seed)
    topic = await stage.topic(queues=2)
    group = await stage.group(topic, ladder=Ladder((SECOND,)))
    tags = ("red", "blue", "", None)
    held: list[Claim] = []
    tag_of: dict[int, str | None] = {}
    for _ in range(40):
        drafts = [stage.draft(topic, tag=dice.choice(tags), queue=dice.randrange(2)) for _ in range(dice.randrange(5))]
        for draft, receipt in zip(drafts, await stage.publish(*drafts) if drafts else (), strict=True):
            tag_of[receipt.id] = draft.tag
        wanted = dice.choice((None, frozenset({"red"}), frozenset({"blue", ""})))
        for claim in (await take(stage, group, *dice.choices((1, 2, 5), k=dice.randrange(1, 4)), tags=wanted)).ranges:
            assert wanted is None or {tag_of[message.id] for message in claim.messages} <= wanted
            held.append(claim)
        conserves(stage)
        if held and dice.random() < 0.8:
            claim = held.pop(dice.randrange(len(held)))
            places = tuple(place for place in claim.places.values() if dice.random() < 0.6)
            if places:
                await stage.fail(group, claim, places)
            if len(places) < len(claim.places):
                await stage.ack(group, claim)
            conserves(stage)
        await stage.fall_due(after=dice.choice((0, 0, SECOND)))
    for claim in held:
        await stage.ack(group, claim)
    # What is left in the queues is taken whole, so that every message has an end.
    for _ in range(3):
        while (left := await stage.claim_some(group)) is not None:
            await stage.ack(group, left)
        await stage.fall_due(after=SECOND)
    conserves(stage)
    ((acked, dead, skipped_),) = stage.tables.rows("SELECT SUM(acked), SUM(dead), SUM(skipped) FROM `cursor`")
    assert int(acked) + int(dead) + int(skipped_) == len(tag_of)
    assert min(int(acked), int(dead), int(skipped_)) > 0

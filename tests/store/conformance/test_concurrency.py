"""Concurrency: a group has so many messages in its clients' hands at most, whoever asks, however they are settled."""

import attrs
import pytest

from support.stores import MINUTE, Stage
from tarry.store import catalogue
from tarry.store.records import Claim, ClaimRequest, Group, Settlement, Topic
from tarry.wheel.ladder import Ladder


async def limited(stage: Stage, limit: int | None, queues: int = 1) -> tuple[Topic, Group]:
    topic = await stage.topic(queues=queues)
    group = await stage.group(topic, ladder=Ladder((1000,)))
    await stage.store.write(catalogue.limit_group, group, limit)
    (group,) = await stage.store.groups([topic])
    assert group.concurrency == limit
    return topic, group


async def publish(stage: Stage, topic: Topic, count: int, queue: int = 0) -> None:
    await stage.publish(*(stage.draft(topic, queue=queue) for _ in range(count)))


async def ask(stage: Stage, group: Group, *sizes: int) -> tuple[list[int], bool, list[Claim]]:
    turn = await stage.turn(group, requests=[ClaimRequest("c", size, MINUTE) for size in sizes])
    claims = [claim for claim in turn.claims if claim is not None]
    return [len(claim.messages) for claim in claims], turn.full, claims


async def test_no_more_than_so_many_are_in_hand(stage: Stage) -> None:
    topic, group = await limited(stage, 5, queues=2)
    await publish(stage, topic, 10)
    await publish(stage, topic, 10, queue=1)
    sizes, full, claims = await ask(stage, group, 3, 3, 3)
    assert sizes == [3, 2]
    assert full
    assert (await ask(stage, group, 3))[:2] == ([], True)
    await stage.ack(group, claims[0], (0,))
    sizes, full, _ = await ask(stage, group, 3)
    assert (sizes, full) == ([1], True)


@pytest.mark.parametrize("how", ["ack", "fail", "end", "suspend"])
async def test_room_is_made_by_whatever_settles(stage: Stage, how: str) -> None:
    topic, group = await limited(stage, 2)
    await publish(stage, topic, 4)
    _, _, (claim,) = await ask(stage, group, 10)
    verbs = {
        "ack": Settlement(claim.key, "ack"),
        "fail": Settlement(claim.key, "fail"),
        "suspend": Settlement(claim.key, "fail", count=False),
        "end": Settlement(claim.key, "end"),
    }
    if how == "end":
        stage.now += MINUTE
    turn = await stage.turn(group, [verbs[how]], [ClaimRequest("c", 10, MINUTE)])
    assert [len(c.messages) for c in turn.claims if c] == [2], "in the same turn"
    assert turn.full


async def test_retries_count_as_well(stage: Stage) -> None:
    topic, group = await limited(stage, 2)
    await publish(stage, topic, 4)
    _, _, (claim,) = await ask(stage, group, 10)
    await stage.fail(group, claim)
    await ask(stage, group, 1)
    await stage.fall_due(after=1000)
    sizes, full, _ = await ask(stage, group, 10)
    assert (sizes, full) == ([1], True)


async def test_a_limit_that_is_lowered_takes_nothing_back(stage: Stage) -> None:
    topic, group = await limited(stage, 4)
    await publish(stage, topic, 9)
    _, _, (claim,) = await ask(stage, group, 4)
    group = attrs.evolve(group, concurrency=2)
    assert (await ask(stage, group, 4))[:2] == ([], True)
    await stage.ack(group, claim, (0, 1, 2))
    assert (await ask(stage, group, 4))[:2] == ([1], True)


async def test_without_a_limit_nothing_is_full(stage: Stage) -> None:
    topic, group = await limited(stage, None)
    await publish(stage, topic, 9)
    assert (await ask(stage, group, 4, 4))[:2] == ([4, 4], False)

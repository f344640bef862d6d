"""A claim of several ranges: what it is given, and that it is settled whole or not at all."""

from typing import Any

import pytest
from attrs import evolve

from support.stores import HOUR, MINUTE, SECOND, Stage, bodies, of_all
from tarry.store import catalogue
from tarry.store.groups.claim_ids import RANGES, format_claim, parse_claim
from tarry.store.records import Claim, ClaimRequest, Group, Settled, Settlement, Topic
from tarry.store.stream.positions import Position

QUEUES = 5


async def _stream(stage: Stage, queues: int = QUEUES, *, ordered: bool = False) -> tuple[Topic, Group]:
    """A message in each queue; its body is the queue's number."""
    topic, group = await stage.topic_and_group(queues=queues, ordered=ordered)
    await stage.publish(*(stage.draft(topic, b"%d" % queue, queue=queue) for queue in range(queues)))
    return topic, group


async def _claimed(stage: Stage, lease: int = MINUTE) -> tuple[Group, Claim]:
    """All of them, in one claim."""
    _, group = await _stream(stage)
    return group, await stage.claim(group, 10, lease)


def _of(claim: Claim, verb: Any, *places: tuple[int, ...] | None, **how: Any) -> Settlement:
    """Of the claim's first ranges, as many as there are places."""
    parts = [Settlement(one.key, verb, some, **how) for one, some in zip(claim.ranges, places, strict=False)]
    return evolve(parts[0], others=tuple(parts[1:]))


@pytest.mark.parametrize("ordered", [False, True])
async def test_all_queues_in_one_claim(stage: Stage, ordered: bool) -> None:
    _, group = await _stream(stage, ordered=ordered)
    claim = await stage.claim(group, 10)
    assert sorted(bodies(claim)) == [b"%d" % queue for queue in range(QUEUES)]
    keys = tuple(one.key for one in claim.ranges)
    assert len({key.queue_id for key in keys}) == QUEUES
    assert {key.token for key in keys} == {claim.key.token}
    assert parse_claim(format_claim(*keys)) == keys
    assert stage.count("claim") == QUEUES
    assert await stage.ack(group, claim) == Settled(acked=QUEUES, ended=True)
    assert await stage.ack(group, claim) == Settled(acked=QUEUES, ended=True), "a second time it is the same"
    assert (stage.count("claim"), stage.count("delivery")) == (0, QUEUES)
    await stage.counts(group, acked=QUEUES, claimed=0)


async def test_it_ends_at_its_size(stage: Stage) -> None:
    _, group = await _stream(stage)
    claim = await stage.claim(group, 3)
    assert len(bodies(claim)) == 3
    assert len(bodies(await stage.claim(group, 3))) == 2


async def test_who_has_nothing_comes_first(stage: Stage) -> None:
    _, group = await _stream(stage)
    turn = await stage.turn(group, requests=[ClaimRequest(name, 10, MINUTE) for name in "abc"])
    assert [claim and len(claim.ranges) for claim in turn.claims] == [3, 1, 1]
    assert not turn.more


@pytest.mark.parametrize("ordered", [False, True])
async def test_it_has_so_many_ranges(stage: Stage, ordered: bool) -> None:
    _, group = await _stream(stage, RANGES + 6, ordered=ordered)
    claim = await stage.claim(group, 1000)
    assert len(claim.ranges) == RANGES
    rest = await stage.claim(group, 1000)
    assert sorted(bodies(claim) + bodies(rest), key=int) == [b"%d" % queue for queue in range(RANGES + 6)]


async def test_it_stops_growing_at_its_bytes(stage: Stage) -> None:
    topic, group = await stage.topic_and_group(queues=4)
    await stage.publish(*(stage.draft(topic, bytes(3 << 20), queue=queue) for queue in range(4)))
    assert [len(body) for body in bodies(await stage.claim(group, 100))] == [3 << 20] * 3


async def test_one_by_tags_is_of_one_queue(stage: Stage) -> None:
    topic, group = await stage.topic_and_group(queues=3)
    await stage.publish(*(stage.draft(topic, queue=queue, tag="red") for queue in range(3)))
    turn = await stage.turn(group, requests=[ClaimRequest("a", 10, MINUTE, frozenset({"red"}))])
    assert [claim and len(claim.ranges) for claim in turn.claims] == [1]
    assert turn.more


async def test_the_limit_of_a_group_holds(stage: Stage) -> None:
    topic, group = await _stream(stage)
    await stage.store.write(catalogue.limit_group, group, 4)
    (group,) = await stage.store.groups([topic])
    turn = await stage.turn(group, requests=[ClaimRequest("a", 10, MINUTE)])
    assert (len(turn.ranges), turn.full) == (4, True)


async def test_what_came_back_and_what_is_new_are_two_claims(stage: Stage) -> None:
    """After a seek a message lies in both, and a claim must not hold it twice."""
    topic, group = await _stream(stage)
    await stage.fail(group, await stage.claim(group, 10), retry_after=SECOND)
    await stage.store.seek(group, topic.queues, Position("earliest"), stage.now)
    await stage.fall_due(after=SECOND)
    back, new = await stage.claim(group, 10), await stage.claim(group, 10)
    assert [{message.attempt for one in claim.ranges for message in one.messages} for claim in (back, new)] == [
        {2},
        {1},
    ]
    assert len(back.ranges) == len(new.ranges) == QUEUES
    assert {id_ for one in back.ranges for id_ in one.places} == {id_ for one in new.ranges for id_ in one.places}


async def test_all_of_an_ack_or_nothing(stage: Stage) -> None:
    group, claim = await _claimed(stage)
    assert (await stage.fail(group, claim.ranges[2], (0,), retry_after=HOUR)).retried == 1
    (settled,) = await stage.settle(group, _of(claim, "ack", (0,), (0,), (0,)))
    assert settled == Settled(lost=True)
    assert (await stage.group_state(group)).acked == 0
    (settled,) = await stage.settle(group, _of(claim, "ack", (0,), (0,)))
    assert settled == Settled(acked=2, ended=True)
    assert await stage.ack(group, claim) == Settled(acked=QUEUES - 1, ended=True), "what is open, and what was acked"
    assert (await stage.group_state(group)).acked == QUEUES - 1


async def test_what_failed_before_is_not_failed_again(stage: Stage) -> None:
    group, claim = await _claimed(stage)
    await stage.ack(group, claim.ranges[0], (0,))
    await stage.fail(group, claim.ranges[1], (0,), retry_after=HOUR)
    (settled,) = await stage.settle(group, _of(claim, "fail", (0,), None, None))
    assert settled == Settled(lost=True), "a message that is named must be in its hands"
    assert stage.count("retry") == 1
    settled = await stage.fail(group, claim, retry_after=HOUR)
    assert (settled.retried, settled.lost, settled.ended, len(settled.timers)) == (QUEUES - 2, False, True, QUEUES - 2)
    assert await stage.fail(group, claim) == Settled(lost=True, ended=True)
    assert stage.count("retry") == QUEUES - 1


async def test_extended_as_long_as_something_is_open(stage: Stage) -> None:
    group, claim = await _claimed(stage)
    await stage.ack(group, claim.ranges[1], (0,))
    (settled,) = await stage.settle(group, of_all(Settlement(claim.key, "extend", lease=HOUR), claim))
    assert settled == Settled(lease_until=stage.now + HOUR)
    assert stage.column("SELECT lease_until FROM claim") == [stage.now + HOUR] * (QUEUES - 1)
    await stage.ack(group, claim)
    (settled,) = await stage.settle(group, of_all(Settlement(claim.key, "extend", lease=HOUR), claim))
    assert settled == Settled(lost=True, ended=True)


@pytest.mark.parametrize("verb", ["ack", "fail", "extend"])
async def test_an_operator_takes_one_range(stage: Stage, verb: Any) -> None:
    """Nothing is done, and what is left goes when its lease is over."""
    topic, group = await _stream(stage)
    claim = await stage.claim(group, 10, lease=MINUTE)
    await stage.store.seek(group, topic.queues[3:4], Position("latest"), stage.now)
    (settled,) = await stage.settle(group, of_all(Settlement(claim.key, verb, lease=HOUR), claim))
    assert settled == Settled(lost=True)
    assert stage.column("SELECT outcome FROM claim") == [b"\0"] * (QUEUES - 1)
    assert stage.column("SELECT lease_until FROM claim") == [claim.lease_until] * (QUEUES - 1)
    stage.now = claim.lease_until
    assert [settled and settled.retried for settled in await stage.end_leases(group)] == [1] * (QUEUES - 1)


@pytest.mark.parametrize("verb", ["ack", "fail", "extend"])
@pytest.mark.parametrize("of", ["all", "one range"])
async def test_a_lease_that_is_over(stage: Stage, of: str, verb: Any) -> None:
    group, claim = await _claimed(stage, lease=MINUTE)
    if of == "all":
        stage.now = claim.lease_until
    else:  # as when its end was begun elsewhere
        stage.tables.rows(f"UPDATE claim SET lease_until = {stage.now} WHERE queue_id = {claim.others[1].key.queue_id}")
    (settled,) = await stage.settle(group, of_all(Settlement(claim.key, verb, lease=HOUR), claim))
    assert settled == Settled(lost=True)
    assert stage.count("claim", f"outcome = X'00' AND lease_until = {claim.lease_until}") == QUEUES - (of != "all")


async def test_two_settle_it_in_one_turn(stage: Stage) -> None:
    group, claim = await _claimed(stage)
    settled = await stage.settle(
        group,
        _of(claim, "fail", (0,), (0,), retry_after=HOUR),
        _of(claim, "ack", (0,), (0,), (0,)),
        _of(claim, "ack", None, None, None, None, None),
    )
    assert [one and (one.retried, one.acked, one.lost) for one in settled] == [
        (2, 0, False),
        (0, 0, True),
        (0, QUEUES - 2, False),
    ]


async def test_ordered_queues_are_free_one_by_one(stage: Stage) -> None:
    topic, group = await _stream(stage, ordered=True)
    claim = await stage.claim(group, 10)
    await stage.publish(*(stage.draft(topic, b"later", queue=queue) for queue in range(QUEUES)))
    assert await stage.claim_some(group, 10) is None
    await stage.ack(group, claim.ranges[0], (0,))
    later = await stage.claim(group, 10)
    assert [message.queue for message in later.messages] == [claim.messages[0].queue]
    assert not later.others

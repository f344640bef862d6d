"""What a client had not begun goes back uncounted when its lease ends, where it tells what it begins; up to a bound."""

import json

import pytest

from support.stores import MINUTE, SECOND, START, Stage, bodies
from tarry.store.groups import clients
from tarry.store.groups.failing import FREE_LOSSES
from tarry.store.records import Claim, ClaimRequest, Group, Settlement, Topic
from tarry.store.stream.positions import Position
from tarry.wheel.ladder import Ladder


async def _claim(stage: Stage, group: Group, *, tells: bool = True, client: str = "client-1", size: int = 10) -> Claim:
    (claim,) = (await stage.turn(group, requests=[ClaimRequest(client, size, MINUTE, tells=tells)])).claims
    assert claim is not None
    return claim


async def _told(
    stage: Stage, count: int, *, ordered: bool = False, key: str | None = None, ladder: Ladder | None = None
) -> tuple[Topic, Group, Claim]:
    topic = await stage.topic(ordered=ordered)
    group = await stage.group(topic, ladder=ladder)
    await stage.publish(*(stage.draft(topic, b"%d" % i, ordering_key=key) for i in range(count)))
    return topic, group, await _claim(stage, group)


async def _begin(stage: Stage, group: Group, claim: Claim, *places: int) -> None:
    settled = await stage.settle_one(group, Settlement(claim.key, "begin", begun=places))
    assert not settled.lost


async def _lose(stage: Stage, group: Group) -> None:
    """The leases that are open run out, and what goes back at once is there again."""
    stage.now += MINUTE + SECOND
    await stage.end_leases(group)
    await stage.fall_due()


def outcomes(stage: Stage) -> list[list[int]]:
    return [list(outcome) for outcome in stage.column("SELECT outcome FROM delivery ORDER BY number")]


async def test_what_was_begun_counts_and_the_rest_comes_again_as_it_was(stage: Stage) -> None:
    _, group, claim = await _told(stage, 4)
    await _begin(stage, group, claim, 1)
    await _lose(stage, group)
    assert outcomes(stage) == [[6, 4, 6, 6]]
    back = await _claim(stage, group)
    assert [(m.body, m.attempt, m.losses) for m in back.messages] == [(b"0", 1, 1), (b"2", 1, 1), (b"3", 1, 1)]
    await stage.fall_due(after=MINUTE)
    (killer,) = (await _claim(stage, group)).messages
    assert (killer.body, killer.attempt, killer.losses) == (b"1", 2, 1)
    histories = stage.tables.rows("SELECT message_offset, history FROM redelivery")
    assert {offset: len(json.loads(history)) for offset, history in histories} == {0: 0, 1: 1, 2: 0, 3: 0}


async def test_of_a_client_that_tells_nothing_all_counts(stage: Stage, topic: Topic, group: Group) -> None:
    await stage.publish(stage.draft(topic))
    await _claim(stage, group, tells=False)
    stage.now += 2 * MINUTE
    await stage.end_leases(group)
    assert outcomes(stage) == [[4]]
    await stage.fall_due()
    (message,) = (await _claim(stage, group, tells=False)).messages
    assert (message.attempt, message.losses) == (2, 1)


@pytest.mark.parametrize("verb", ["ack", "extend", "begin"])
async def test_it_is_told_with_any_settlement(stage: Stage, verb: str) -> None:
    _, group, claim = await _told(stage, 3)
    places = {"ack": (0,), "extend": None, "begin": None}[verb]
    wish = Settlement(claim.key, verb, places, lease=MINUTE, begun=(1,))  # type: ignore[arg-type]
    await stage.settle(group, wish)
    await _lose(stage, group)
    assert outcomes(stage)[0][1:] == [4, 6]


async def test_what_was_settled_or_lost_is_not_begun(stage: Stage) -> None:
    _, group, claim = await _told(stage, 2)
    await stage.ack(group, claim, (0,))
    times = stage.column("SELECT settled_at FROM claim")[0][:8]
    stage.now += SECOND
    await _begin(stage, group, claim, 0, 1)
    assert stage.column("SELECT settled_at FROM claim")[0][:8] == times
    stage.now = claim.lease_until
    late = await stage.settle_one(group, Settlement(claim.key, "begin", begun=(1,)))
    assert late.lost


async def test_when_its_client_dies(stage: Stage) -> None:
    _, group, claim = await _told(stage, 3)
    await _begin(stage, group, claim, 2)
    await stage.store.write(clients.renew, {"client-1": START}, {"client-1"})
    stage.now += 15 * SECOND
    await stage.store.write(clients.remove, {"client-1": START}, stage.now)
    await stage.end_leases(group)
    assert outcomes(stage) == [[6, 6, 4]]


async def test_the_bound(stage: Stage) -> None:
    """A client that says nothing of what it begins, and dies, has the message counted in the end."""
    _, group, _ = await _told(stage, 1, ladder=Ladder((SECOND,)))
    for losses in range(1, FREE_LOSSES + 1):
        await _lose(stage, group)
        (message,) = (await _claim(stage, group)).messages
        assert (message.attempt, message.losses) == (1, losses)
    await _lose(stage, group)
    await stage.fall_due(after=SECOND)
    (message,) = (await _claim(stage, group)).messages
    assert (message.attempt, message.losses) == (2, FREE_LOSSES + 1)
    await _lose(stage, group)
    assert await stage.claim_some(group) is None
    ((history,),) = stage.tables.rows("SELECT history FROM dead")
    assert len(json.loads(history)) == 2
    await stage.counts(group, dead=1, retried=FREE_LOSSES + 1)


@pytest.mark.parametrize("count", [True, False])
async def test_who_gives_it_back_alive_ends_the_row_of_losses(stage: Stage, count: bool) -> None:
    _, group, _ = await _told(stage, 1)
    await _lose(stage, group)
    claim = await _claim(stage, group)
    assert [m.losses for m in claim.messages] == [1]
    await stage.fail(group, claim, retry_after=0, count=count)
    await stage.fall_due()
    assert [m.losses for m in (await _claim(stage, group)).messages] == [0]


async def test_of_an_ordered_topic_the_first_of_the_key_goes_uncounted_and_the_others_are_behind_it(
    stage: Stage,
) -> None:
    _, group, claim = await _told(stage, 4, ordered=True, key="a")
    await stage.ack(group, claim, (0,))
    await _lose(stage, group)
    assert outcomes(stage) == [[1, 6, 9, 9]]
    back = await _claim(stage, group)
    assert (bodies(back), [m.attempt for m in back.messages]) == ([b"1"], [1])
    await _begin(stage, group, back, 0)
    await _lose(stage, group)
    await stage.fall_due(after=MINUTE)
    back = await _claim(stage, group)
    assert [(m.body, m.attempt, m.losses) for m in back.messages] == [(b"1", 2, 2)]
    await stage.ack(group, back)
    rest = await _claim(stage, group)
    assert [(m.body, m.attempt) for m in rest.messages] == [(b"2", 1), (b"3", 1)]


async def test_a_life_tells_it_as_given_back(stage: Stage) -> None:
    _, group, claim = await _told(stage, 1)
    (id_,) = claim.places
    stage.now += MINUTE + SECOND
    await stage.end_leases(group)
    await stage.fall_due(after=1)
    found = await stage.found(id_)
    events = [(event.what, event.attempt) for event in found.life if event.group is not None]
    assert events == [("claimed", 1), ("suspended", 1), ("returned", 1)]


async def test_a_seek_takes_what_is_begun_and_what_is_not(stage: Stage) -> None:
    _, group, claim = await _told(stage, 2)
    await _begin(stage, group, claim, 1)
    await stage.store.seek(group, None, Position("earliest"), stage.now)
    assert outcomes(stage) == [[20, 20]]
    assert bodies(await _claim(stage, group)) == [b"0", b"1"]

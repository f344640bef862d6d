"""Two nodes on one group: each claims from queues of its own, neither waits for the other, and nothing is left."""

from collections.abc import Sequence

import pytest
import trio

from support.stores import MINUTE, SECOND, Stage, bodies
from tarry.store import catalogue
from tarry.store.cleaning import removal
from tarry.store.errors import GroupGone, Locked
from tarry.store.groups import turns
from tarry.store.groups.reach import STILL, reach_of
from tarry.store.ports import Transaction
from tarry.store.records import ClaimRequest, Group, Settlement, Turn
from tarry.store.store import Store

HERE, THERE = (0, 2), (1, 2)
ONE = [ClaimRequest("c", 1, MINUTE)]


async def fill(stage: Stage, each: int = 10, *, ordered: bool = False) -> Group:
    """A group of four queues with so many messages in each; their bodies tell the queue."""
    topic = await stage.topic(queues=4, ordered=ordered)
    group = await stage.group(topic)
    await stage.publish(*(stage.draft(topic, b"%d" % queue, queue=queue) for queue in range(4) for _ in range(each)))
    return group


def queues_of(turn: Turn) -> list[int]:
    """Of the messages of its claims."""
    return [int(body) for claim in turn.claims if claim is not None for body in bodies(claim)]


async def beside(
    stage: Stage, group: Group, settlements: Sequence[Settlement] = (), requests: Sequence[ClaimRequest] = ONE
) -> Turn:
    """A turn at the other node, which waits for nobody, while one of this node is at work."""
    if not stage.store.backend.shared:
        pytest.skip("one server alone")
    other = Store(stage.store.backend)

    async def work(tx: Transaction) -> Turn:
        reach = reach_of(group, HERE, None)
        await turns.take(tx, group, [], ONE, now=stage.now, make_id=lambda due: due << 21, reach=reach)
        return await other.turn(group, settlements, requests, stage.now, free=True, place=THERE)

    return await stage.store.backend.write(work)


async def test_turns_of_two_nodes_go_side_by_side(stage: Stage) -> None:
    group = await fill(stage)
    assert queues_of(await beside(stage, group)) in ([1], [3])


async def test_a_settlement_waits_only_for_who_holds_its_queue(stage: Stage) -> None:
    group = await fill(stage)
    claims: dict[int, Settlement] = {}
    for place in (HERE, THERE):
        turn = await stage.store.turn(group, [], ONE, stage.now, place=place)
        (claim,) = turn.claims
        assert claim is not None
        claims[place[0]] = Settlement(claim.key, "ack")
    assert [settled and settled.acked for settled in (await beside(stage, group, [claims[1]])).settled] == [1]
    with pytest.raises(Locked):
        await beside(stage, group, [claims[0]], [])


async def _limited(stage: Stage, group: Group) -> Group:
    await stage.store.write(catalogue.limit_group, group, 30)
    return (await stage.store.groups([group.topic]))[0]


@pytest.mark.parametrize("how", ["ordered", "limited"])
async def test_what_cannot_be_shared_out_is_held_as_a_whole(stage: Stage, how: str) -> None:
    group = await fill(stage, ordered=how == "ordered")
    if how == "limited":
        group = await _limited(stage, group)
    with pytest.raises(Locked):
        await beside(stage, group)


async def test_one_node_alone_drains_what_the_other_leaves(stage: Stage) -> None:
    group = await fill(stage)
    seen: list[int] = []
    more, took, in_vain = True, 0, 0
    while more:
        turn = await stage.store.turn(group, [], [ClaimRequest("c", 5, MINUTE)] * 3, stage.now, place=HERE)
        assert turn.more or not turn.beside
        seen += queues_of(turn)
        more, took, in_vain = turn.more, took + 1, in_vain + turn.beside
        assert took < 20
    assert sorted(seen) == sorted([0, 1, 2, 3] * 10)
    assert set(seen[:20]) == {0, 2}, "its own come first"
    assert in_vain == 1, "as long as its own hold nothing it looks at all at once"


async def test_who_has_enough_of_its_own_takes_what_nobody_else_moves(stage: Stage) -> None:
    group = await fill(stage, 100)
    for number in range(12):
        stage.now += STILL // 10
        seen = queues_of(await stage.store.turn(group, [], [ClaimRequest("c", 9, MINUTE)], stage.now, place=HERE))
        assert (set(seen) <= {0, 2}) == (number < 10), number


async def test_neither_takes_what_the_other_moves(stage: Stage) -> None:
    group = await fill(stage, 100)
    other = Store(stage.store.backend)
    for number in range(15):
        for store, place, size in ((stage.store, HERE, 6), (other, THERE, 12)):
            stage.now += STILL // 10
            turn = await store.turn(group, [], [ClaimRequest("c", size, MINUTE)], stage.now, place=place)
            assert {queue % 2 for queue in queues_of(turn)} == {place[0]}, number


async def test_who_has_room_takes_what_a_slow_node_leaves(stage: Stage) -> None:
    """Its own queues hold a little at each turn, and the other moves its own, but slowly."""
    topic, other = await stage.topic(queues=4), Store(stage.store.backend)
    group = await stage.group(topic)
    await stage.publish(*[stage.draft(topic, b"1", queue=1) for _ in range(200)])
    taken = 0
    for _ in range(STILL // 100 + 4):
        stage.now += 100
        await stage.publish(stage.draft(topic, b"0", queue=0))
        turn = await stage.store.turn(group, [], [ClaimRequest("fast", 100, MINUTE)], stage.now, place=HERE)
        taken += queues_of(turn).count(1)
        taken += len(queues_of(await other.turn(group, [], ONE, stage.now, place=THERE)))
    assert taken == 200


async def test_what_is_settled_across_draws_no_claims_after_it(stage: Stage) -> None:
    """The other's queue is held for the settlement, and left to it all the same; the retry comes back to both."""
    group = await fill(stage)
    turn = await stage.store.turn(group, [], ONE, stage.now, place=THERE)
    (claim,) = turn.claims
    assert claim is not None
    other = Store(stage.store.backend)
    failed = [Settlement(claim.key, "fail", reason="no", retry_after=SECOND)]
    turn = await other.turn(group, failed, [ClaimRequest("c", 25, MINUTE)], stage.now, place=HERE)
    assert [settled and settled.retried for settled in turn.settled] == [1]
    assert sorted(set(queues_of(turn))) == [0, 2]
    assert turn.more
    stage.now += 2 * SECOND
    assert len(await stage.fall_due()) == 1
    turn = await stage.store.turn(group, [], ONE, stage.now, place=THERE)
    (again,) = turn.claims
    assert again is not None
    assert [message.attempt for message in again.messages] == [2]
    state = await stage.store.read(catalogue.group_state, group)
    assert (state.retried, state.claimed) == (1, 21)


async def test_two_that_drain_at_once_and_settle_across_get_each_message_once(stage: Stage) -> None:
    group = await fill(stage, 60)
    stores = [stage.store, Store(stage.store.backend)]
    seen: list[int] = []
    acked = 0

    async def drain(at: int) -> None:
        nonlocal acked
        here, there = stores[at], stores[1 - at]
        more = True
        while more:
            turn = await here.turn(group, [], [ClaimRequest("c", 7, MINUTE)] * 2, stage.now, place=(at, 2))
            seen.extend(id_ for claim in turn.ranges for id_ in claim.places)
            more = turn.more
            acks = [Settlement(claim.key, "ack") for claim in turn.ranges]
            if acks:
                answer = await there.turn(group, acks, [], stage.now, place=(1 - at, 2))
                acked += sum(settled.acked for settled in answer.settled if settled is not None)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(drain, 0)
        nursery.start_soon(drain, 1)
    assert len(seen) == len(set(seen)) == acked == 240
    state = await stage.store.read(catalogue.group_state, group)
    assert (state.acked, state.claimed) == (240, 0)


async def test_a_group_that_is_gone_is_gone_for_both(stage: Stage) -> None:
    group = await fill(stage)
    await stage.store.write(removal.remove_group, group, stage.now)
    for requests in (ONE, []):
        with pytest.raises(GroupGone):
            await stage.store.turn(group, [], requests, stage.now, place=THERE)

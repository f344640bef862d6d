"""Two nodes on one group: each claims from queues of its own, neither waits for the other, and nothing is left."""

from collections import Counter
from collections.abc import Sequence
from functools import partial

import attrs
import pytest
import trio

from support.at_once import at_once
from support.stores import MINUTE, SECOND, Stage, bodies
from tarry.store import catalogue
from tarry.store.cleaning import removal
from tarry.store.errors import GroupGone, Locked
from tarry.store.groups import turns
from tarry.store.groups.reach import STILL, reach_of
from tarry.store.operating.redriving import Letters
from tarry.store.ports import Transaction
from tarry.store.records import Claim, ClaimKey, ClaimRequest, Group, Settled, Settlement, Turn
from tarry.store.store import Store
from tarry.store.stream.positions import Position
from tarry.wheel.ladder import Ladder

HERE, THERE = (0, 2), (1, 2)
ONE = [ClaimRequest("c", 1, MINUTE)]


async def fill(stage: Stage, each: int = 10, *, ordered: bool = False) -> Group:
    """A group of four queues with so many messages in each; their bodies tell the queue."""
    topic, group = await stage.topic_and_group(queues=4, ordered=ordered)
    await stage.publish(*(stage.draft(topic, b"%d" % queue, queue=queue) for queue in range(4) for _ in range(each)))
    return group


def queues_of(turn: Turn) -> list[int]:
    """Of the messages of its claims."""
    return [int(body) for claim in turn.claims if claim is not None for body in bodies(claim)]


async def beside(
    stage: Stage,
    group: Group,
    settlements: Sequence[Settlement] = (),
    requests: Sequence[ClaimRequest] = ONE,
    *,
    there: Store | None = None,
    free: bool = True,
) -> Turn:
    """A turn at the other node, which waits for nobody if `free`, while one of this node is at work."""
    if not stage.store.backend.shared:
        pytest.skip("one server alone")
    other = Store(stage.store.backend) if there is None else there

    async def work(tx: Transaction) -> Turn:
        reach = reach_of(group, HERE, None)
        await turns.take(tx, group, [], ONE, now=stage.now, make_id=lambda due: due << 21, reach=reach)
        return await other.turn(group, settlements, requests, stage.now, free=free, place=THERE)

    return await stage.store.backend.write(work)


async def test_turns_of_two_nodes_go_side_by_side(stage: Stage) -> None:
    group = await fill(stage)
    assert queues_of(await beside(stage, group)) in ([1], [3])


async def left_lying(stage: Stage, there: Store, group: Group) -> None:
    """The other node has something of its own, and finds for long that nobody moves what lies in this node's queues."""
    for _ in range(2):
        await there.turn(group, [], ONE, stage.now, place=THERE)
        stage.now += STILL


@pytest.mark.parametrize("free", [True, False])
async def test_a_node_that_hangs_holds_up_no_claims_of_anothers_queues(stage: Stage, free: bool) -> None:
    """Also when the other would take what lies there, since nobody seemed to be at work on it."""
    group, there = await fill(stage), Store(stage.store.backend)
    await left_lying(stage, there, group)
    turn = await beside(stage, group, there=there, free=free)
    assert queues_of(turn) in ([1], [3])
    assert turn.more, "there is something that it was not given"
    assert set(queues_of(await there.turn(group, [], ONE * 30, stage.now, place=THERE))) == {0, 1, 2, 3}


async def test_who_has_nothing_else_waits_for_who_is_at_work(stage: Stage) -> None:
    group, there = await fill(stage), Store(stage.store.backend)
    await there.turn(group, [], [ClaimRequest("c", 20, MINUTE)], stage.now, place=THERE)
    turn = await beside(stage, group, there=there)
    assert (turn.claims, turn.beside) == ((None,), True)
    with pytest.raises(Locked):
        await beside(stage, group, there=there)
    await stage.publish(stage.draft(group.topic, b"1", queue=1))
    assert queues_of(await beside(stage, group, there=there)) == [1]


async def test_queues_where_nothing_lies_are_not_held(stage: Stage) -> None:
    """Those of a node with no consumers, for instance: what it settles there waits for nobody."""
    topic, there = await stage.topic(queues=4), Store(stage.store.backend)
    group = await stage.group(topic)
    await stage.publish(*(stage.draft(topic, b"1", queue=1) for _ in range(10)))
    await left_lying(stage, there, group)

    async def work(tx: Transaction) -> Turn:
        reach = there._reach[group.id]
        await turns.take(tx, group, [], ONE, now=stage.now, make_id=lambda due: due << 21, reach=reach)
        return await stage.store.turn(group, [], ONE, stage.now, free=True, place=HERE)

    if not stage.store.backend.shared:
        pytest.skip("one server alone")
    assert (await stage.store.backend.write(work)).claims == (None,)


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
    assert len(await stage.fall_due(after=2 * SECOND)) == 1
    turn = await stage.store.turn(group, [], ONE, stage.now, place=THERE)
    (again,) = turn.claims
    assert again is not None
    assert [message.attempt for message in again.messages] == [2]
    await stage.counts(group, retried=1, claimed=21)


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

    await at_once(partial(drain, 0), partial(drain, 1))
    assert len(seen) == len(set(seen)) == acked == 240
    await stage.counts(group, acked=240, claimed=0)


async def test_a_group_that_is_gone_is_gone_for_both(stage: Stage) -> None:
    group = await fill(stage)
    await stage.store.write(removal.remove_group, group, stage.now)
    for requests in (ONE, []):
        with pytest.raises(GroupGone):
            await stage.store.turn(group, [], requests, stage.now, place=THERE)


@attrs.define
class Drain:
    """Consumers at two nodes, who settle what they are given at the other one."""

    stage: Stage
    group: Group
    acked: Counter[bytes] = attrs.field(factory=Counter[bytes])
    given: Counter[bytes] = attrs.field(factory=Counter[bytes])
    under_way: trio.Event = attrs.field(factory=trio.Event)
    over: bool = False
    """Nothing more comes in."""

    async def run(self, at: int, stores: Sequence[Store]) -> None:
        more = True
        while more or not self.over:
            more = not self.over
            requests = [ClaimRequest("c", 7, MINUTE)] * 2
            turn = await stores[at].turn(self.group, [], requests, self.stage.now, place=(at, 2))
            more |= turn.more
            for claim in turn.ranges:
                self.given.update(bodies(claim))
                settled = await self.ack(claim, 1 - at, stores)
                assert settled.lost or settled.acked == len(claim.messages)
                if settled.acked:
                    self.acked.update(bodies(claim))
            if self.acked.total() > 60:
                self.under_way.set()

    async def ack(self, claim: Claim, at: int, stores: Sequence[Store]) -> Settled:
        """Asked again while the seek holds the claim."""
        while True:
            ack = Settlement(claim.key, "ack")
            (settled,) = (await stores[at].turn(self.group, [ack], [], self.stage.now, place=(at, 2))).settled
            assert settled is not None
            if not settled.locked:
                return settled


async def test_a_seek_and_a_redrive_beside_turns_of_two_nodes_lose_nothing(stage: Stage) -> None:
    topic, group = await stage.topic_and_group(queues=4, ladder=Ladder((SECOND,)))
    letters = {b"letter %d" % queue for queue in range(4)}
    await stage.publish(*(stage.draft(topic, b"letter %d" % queue, queue=queue) for queue in range(4)))
    for _ in range(2):
        await stage.fail(group, await stage.claim(group, 4), reason="no")
        await stage.fall_due(after=2 * SECOND)
    names = [[b"%d %d" % (queue, offset) for offset in range(1, 61)] for queue in range(4)]
    await stage.publish(*(stage.draft(topic, name, queue=int(name[:1])) for some in names for name in some))
    drain, stores, target = Drain(stage, group), [stage.store, Store(stage.store.backend)], 6
    closed: set[ClaimKey] = set()

    async def seek() -> None:
        sought = await stage.store.seek(group, [topic.queues[0]], Position("offset", target), stage.now)
        assert sought.queues == ((0, target),)
        closed.update(sought.closed)

    async def redrive() -> None:
        while (await stores[1].redrive(group, Letters(), 1, stage.now)).count:
            pass

    async def operate() -> None:
        await drain.under_way.wait()
        await at_once(seek, redrive)
        await stage.fall_due(after=5 * SECOND)
        drain.over = True

    await at_once(*(partial(drain.run, at, stores) for at in (0, 1, 0, 1)), operate)

    again = set(names[0][target - 1 :])
    every = letters.union(*names)
    passed = every - drain.acked.keys()
    assert passed <= set(names[0][: target - 1]), "lost"
    assert not passed or closed, "what was before the seek's offset, and in hand"
    assert {name for name, times in drain.acked.items() if times > 1} <= again, "twice"
    assert drain.acked.total() <= len(every) + len(again)
    given_again = {name for name, times in drain.given.items() if times > 1}
    assert given_again <= again | letters
    state = await stage.group_state(group)
    assert (state.acked, state.claimed, state.letters, state.redriven) == (drain.acked.total(), 0, 0, 4)
    assert [(queue.offset, queue.end) for queue in state.queues if not queue.retry] == [(61, 61)] * 4
    assert all(queue.lag == 0 for queue in state.queues)

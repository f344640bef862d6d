"""Everybody settles the same claims at once: what an answer said is what came of it, for good (I4, I5, I7).

Acks, fails, extensions, ends of leases, a seek and forged tokens in random order, from several tasks, while the clock
goes on over the ends of the leases.
"""

import random
from collections import Counter
from typing import Literal

import attrs
import pytest

from support.at_once import at_once
from support.letters import dead_letters_of
from support.stores import HOUR, SECOND, Stage
from tarry.store.groups import holdings
from tarry.store.records import Claim, ClaimKey, Group, Outcome, Settled, Settlement
from tarry.store.stream.positions import Position
from tarry.wheel.ladder import Ladder

WORKERS = 6
LEASE = 150
LONGEST = 300


@attrs.define
class Told:
    """What was answered about one claim."""

    claim: Claim
    acked: set[int] = attrs.field(factory=set[int])
    """Places."""
    all_late: list[int] = attrs.field(factory=list[int])
    late: set[int] = attrs.field(factory=set[int])
    """Both by acks that began when the lease was known to be over: others have acked all that before."""
    all_acked: list[int] = attrs.field(factory=list[int])
    """How many, by acks that named no place."""
    failed: set[int] = attrs.field(factory=set[int])
    gone: Counter[str] = attrs.field(factory=Counter[str])
    """Retried and dead messages that answers told of."""
    until: int = 0
    """The latest end of the lease that anybody asked for."""
    over: bool = False
    """Somebody was told that the lease is over, or that nothing is left."""


@attrs.define
class Crowd:
    stage: Stage
    group: Group
    dice: random.Random
    told: list[Told] = attrs.field(factory=list[Told])

    async def begin(self, count: int) -> None:
        """Claims in hand, some of them of messages whose next failure is the last."""
        stage, topic = self.stage, self.group.topic
        await stage.publish(*(stage.draft(topic, b"%d" % i, queue=i % 2) for i in range(count)))
        for _ in range(2):
            await stage.fail(self.group, await stage.claim(self.group, count // 4), retry_after=0)
        assert len(await stage.fall_due()) == 2 * (count // 4)
        while (claim := await stage.claim_some(self.group, self.dice.randrange(1, 5), LEASE)) is not None:
            self.told += [Told(one, until=one.lease_until) for one in claim.ranges]

    async def settle(self, settlement: Settlement, now: int) -> Settled | None:
        while True:  # the other turn may hold the claim: nothing was done, and the coordinator would ask again
            (settled,) = (await self.stage.store.turn(self.group, [settlement], [], now)).settled
            if settled is None or not settled.locked:
                return settled

    async def ack(self, told: Told, now: int) -> None:
        places = None if self.dice.random() < 0.3 else self._some(told.claim)
        was_over = told.over or now >= told.until
        settled = await self.settle(Settlement(told.claim.key, "ack", places), now)
        assert settled is not None
        if settled.lost:
            return
        if places is None:
            (told.all_late if was_over else told.all_acked).append(settled.acked)
        else:
            assert settled.acked == len(places)
            (told.late if was_over else told.acked).update(places)

    async def fail(self, told: Told, now: int) -> None:
        places = self._some(told.claim)
        was_over = told.over or now >= told.until
        settled = await self.settle(Settlement(told.claim.key, "fail", places, "no"), now)
        assert settled is not None
        if not settled.lost:
            assert not was_over, "failed after its lease"
            assert settled.retried + settled.dead == len(set(places))
            assert told.failed.isdisjoint(places), "failed twice"
            told.failed |= set(places)
            self._count(told, settled)

    async def extend(self, told: Told, now: int) -> None:
        was_over = told.over or now >= told.until
        told.until = max(told.until, now + LONGEST)
        settled = await self.settle(Settlement(told.claim.key, "extend", lease=LONGEST), now)
        assert settled is not None
        assert settled.lost or (not was_over and settled.lease_until == now + LONGEST)

    async def end(self, told: Told, now: int) -> None:
        settled = await self.settle(Settlement(told.claim.key, "end"), now)
        assert settled is not None
        if settled.lost:
            told.over = True
            self._count(told, settled)
        else:
            assert settled.ended or now < settled.lease_until
            assert settled.retried == settled.dead == 0

    async def end_if_there(self, told: Told, now: int) -> None:
        """What the service does in the end with a lease that is over."""
        if told.claim.key in {key for key, _ in await self.stage.store.read(holdings.over, now, 1000)}:
            await self.end(told, now)

    async def forge(self, told: Told, now: int) -> None:
        key = attrs.evolve(told.claim.key, token=self.dice.randrange(1 << 63))
        verbs: tuple[Literal["ack", "fail", "extend", "end"], ...] = ("ack", "fail", "extend", "end")
        assert await self.settle(Settlement(key, self.dice.choice(verbs)), now) is None

    async def seek(self, told: Told, now: int) -> None:
        """Behind all there is, so that nothing comes again."""
        del told
        sought = await self.stage.store.seek(self.group, self.group.topic.queues[:1], Position("latest"), now)
        by_key: dict[ClaimKey, Told] = {one.claim.key: one for one in self.told}
        for key in sought.closed:
            by_key[key].over = True

    def _some(self, claim: Claim) -> tuple[int, ...]:
        return tuple(self.dice.choices(range(claim.size), k=self.dice.randrange(1, claim.size + 1)))

    @staticmethod
    def _count(told: Told, settled: Settled) -> None:
        told.gone.update(retried=settled.retried, dead=settled.dead)

    async def check(self) -> None:
        """What the tables say of each claim, against what was told."""
        stage = self.stage
        ended = {
            (queue_id, number): bytes(outcome)
            for queue_id, number, outcome in stage.tables.rows("SELECT queue_id, claim, outcome FROM delivery")
        }
        acked: list[int] = []
        retried: list[int] = []
        dead: list[int] = []
        released: list[int] = []
        backs = {queue.id for queue in self.group.retry_queues}
        for told in self.told:
            claim = told.claim
            outcome = ended[claim.key.queue_id, claim.key.number]
            is_acked = {place for place, o in enumerate(outcome) if o == Outcome.ACKED}
            assert told.acked <= is_acked, "told that it is acked, and it is not"
            assert told.all_acked or told.acked == is_acked, "told that nothing was done, and it was"
            assert told.all_acked or told.late <= told.acked, "acked after its lease"
            assert all(many == len(is_acked) for many in told.all_acked + told.all_late)
            in_retry = {place for place, o in enumerate(outcome) if o in (Outcome.RETRIED, Outcome.LOST)}
            in_dead = {place for place, o in enumerate(outcome) if o in (Outcome.DEAD, Outcome.LOST_DEAD)}
            assert told.failed <= in_retry | in_dead
            assert (told.gone["retried"], told.gone["dead"]) == (len(in_retry), len(in_dead))
            ids = {place: id_ for id_, place in claim.places.items()}
            acked += [ids[place] for place in is_acked]
            retried += [ids[place] for place in in_retry]
            dead += [ids[place] for place in in_dead]
            if claim.key.queue_id in backs:
                released += [ids[place] for place, o in enumerate(outcome) if o == Outcome.RELEASED]
        assert sorted(stage.column("SELECT message_id FROM retry")) == sorted(retried + released)
        letters = await stage.store.read(dead_letters_of, self.group, 0, 1000)
        assert [letter.message.id for letter in letters] == sorted(dead), "each dead letter once"
        assert stage.count("claim") == 0
        await stage.counts(self.group, acked=len(acked), dead=len(dead), claimed=0)
        assert len(acked) > 10
        assert len(dead) > 2
        assert len(retried) > 2


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.cases(1)
async def test_what_is_answered_is_what_came_of_it(stage: Stage, seed: int) -> None:
    topic = await stage.topic(queues=2)
    crowd = Crowd(stage, await stage.group(topic, ladder=Ladder((HOUR,))), random.Random(seed))
    dice = crowd.dice
    await crowd.begin(120)
    todo = [(job, told) for told in crowd.told for job in dice.choices(_JOBS, _WEIGHTS, k=dice.randrange(2, 7))]
    # Those of one claim lie close together, so that they meet.
    todo = [todo[at] for at in sorted(range(len(todo)), key=lambda at: at + dice.randrange(12))]
    if seed == 2:
        todo.insert(len(todo) // 3, (Crowd.seek, crowd.told[0]))
    todo.reverse()

    async def work() -> None:
        while todo:
            job, told = todo.pop()
            stage.now += dice.randrange(3)
            await job(crowd, told, stage.now)

    await at_once(*[work] * WORKERS)
    stage.now += LONGEST + SECOND
    for told in crowd.told:
        if not told.over:
            await crowd.end_if_there(told, stage.now)
        await crowd.ack(told, stage.now)
        await crowd.fail(told, stage.now)
        await crowd.extend(told, stage.now)
        await crowd.forge(told, stage.now)
    await crowd.check()


_JOBS = (Crowd.ack, Crowd.fail, Crowd.extend, Crowd.end, Crowd.forge)
_WEIGHTS = (5, 2, 1, 3, 1)


@pytest.mark.parametrize("ordered", [False, True])
async def test_a_token_cannot_be_worked_out(stage: Stage, ordered: bool) -> None:
    """Whoever knows the state of `random`, as from ids that it gave, does not know the token of the next claim."""
    topic, group = await stage.topic_and_group(ordered=ordered)
    tokens: set[int] = set()
    for _ in range(2):
        await stage.publish(stage.draft(topic))
        random.seed(5)
        claim = await stage.claim(group)
        await stage.ack(group, claim)
        tokens.add(claim.key.token)
    assert len(tokens) == 2

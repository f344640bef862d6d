"""Random ways down the default ladder: seventeen counted deliveries, none early, then one whole letter (I6, I7)."""

import json
import random

import attrs
import pytest

from support.letters import dead_letters_of
from support.stores import MINUTE, SECOND, Stage
from tarry.store.records import Claim, DeadLetter, Draft, Group
from tarry.wheel.ladder import DEFAULT_RUNGS, Ladder

MESSAGES = 6
RESTS = tuple(SECOND * rest for rest in (10, 30, *range(60, 601, 60), 1200, 1800, 3600, 7200))
"""The promise in figures, not read from the code under test."""


@attrs.define
class Life:
    """One message as its group should see it."""

    draft: Draft
    due: int
    """Before this it does not come."""
    latest: int
    jitter: float
    counted: int = 0
    history: list[dict[str, object]] = attrs.field(factory=list[dict[str, object]])
    state: str = "away"

    def lose(self, at: int, client: str, reason: str | None, after: int | None, *, count: bool) -> None:
        """A failure, counted or not."""
        if count:
            self.history.append({"at": at, "client": client, "reason": reason})
            self.counted += 1
            if self.counted > len(RESTS):
                self.state = "dead"
                return
        rest = RESTS[min(max(self.counted - 1 + (not count), 0), len(RESTS) - 1)]
        self.state, self.due = "away", at + (rest if after is None else after)
        self.latest = self.due + (0 if after is not None else int(rest * self.jitter))


@attrs.define
class Lives:
    stage: Stage
    group: Group
    dice: random.Random
    lives: dict[int, Life] = attrs.field(factory=dict[int, Life])

    async def begin(self) -> None:
        stage, dice = self.stage, self.dice
        for i in range(MESSAGES):
            text = "".join(dice.choices("aż🐢'\"\\\0 ", k=dice.randrange(1, 9)))
            draft = stage.draft(
                self.group.topic,
                dice.randbytes(dice.randrange(3000)),
                dice.choice((None, 3 * MINUTE)),
                queue=i % 2,
                headers=json.dumps({"h": text}).encode(),
                key=dice.choice((None, text)),
                ordering_key=dice.choice((None, text)),
                tag=dice.choice((None, text)),
                content_type=dice.choice((None, "x/y")),
            )
            (receipt,) = await stage.publish(draft)
            self.lives[receipt.id] = Life(draft, receipt.due, receipt.due, self.group.ladder.jitter)

    async def claim(self) -> None:
        """Claims, looks at what comes, and fails, acks or forgets it."""
        client = f"client-{self.dice.randrange(3)}"
        found = await self.stage.claim_some(self.group, self.dice.randrange(1, 5), MINUTE, client)
        if found is None:
            return
        for one in found.ranges:
            await self._handle(one)
        lost = [id_ for one in found.ranges for id_ in one.places if self.lives[id_].state == "in hand"]
        if lost:
            self.stage.now = found.lease_until + self.dice.choice((0, 1, MINUTE))
            ended = [settled for settled in await self.stage.end_leases(self.group) if settled is not None]
            assert sum(settled.retried + settled.dead for settled in ended) == len(lost)
            for id_ in lost:
                self.lives[id_].lose(found.lease_until, client, "lease lost", None, count=True)

    async def _handle(self, claim: Claim) -> None:
        for message in claim.messages:
            life = self.lives[message.id]
            assert life.state == "away", f"{life.state}, and handed out"
            assert life.due <= self.stage.now, "early"
            assert message.attempt == life.counted + 1 <= 17
            life.state = "in hand"
        for message in claim.messages:
            chance = self.dice.random()
            if chance < 0.01:
                assert (await self.stage.ack(self.group, claim, (claim.places[message.id],))).acked == 1
                self.lives[message.id].state = "acked"
            elif chance < 0.85:
                await self._fail(claim, message.id)

    async def _fail(self, claim: Claim, id_: int) -> None:
        dice, life = self.dice, self.lives[id_]
        self.stage.now += dice.randrange(20)
        reason = dice.choice((None, "no 🐢"))
        after = dice.choice((None, None, None, 0, 7 * SECOND))
        count = dice.random() < 0.9
        how = {"reason": reason, "retry_after": after, "count": count}
        settled = await self.stage.fail(self.group, claim, (claim.places[id_],), **how)
        life.lose(self.stage.now, claim.client, reason, after, count=count)
        assert (settled.dead, settled.retried) == ((1, 0) if life.state == "dead" else (0, 1))

    async def go_on(self) -> None:
        """To the next due time; a millisecond before nothing more is promoted."""
        waiting = await self.stage.waiting()
        if not waiting:
            return
        await self._check_rests()
        entries = list(waiting)
        next_due = min(waiting.values())
        if next_due > self.stage.now:
            self.stage.now = next_due - 1
            assert await self.stage.promote(*entries) == []
            self.stage.now = next_due + self.dice.choice((0, 0, 5 * MINUTE))
        expected = {entry for entry, due in waiting.items() if due <= self.stage.now}
        assert {promoted.entry for promoted in await self.stage.promote(*entries)} == expected

    async def _check_rests(self) -> None:
        for id_, retry, attempt in self.stage.tables.rows("SELECT message_id, id, attempt FROM retry"):
            life = self.lives[id_]
            assert life.due <= retry >> 21 <= life.latest + SECOND
            assert attempt == life.counted + 1

    async def check(self) -> None:
        dead = {id_: life for id_, life in self.lives.items() if life.state == "dead"}
        letters = await self.stage.store.read(dead_letters_of, self.group, 0, 1000)
        assert [letter.message.id for letter in letters] == sorted(dead)
        for letter in letters:
            self._check_letter(letter, dead[letter.message.id])
        state = await self.stage.group_state(self.group)
        acked = [life for life in self.lives.values() if life.state == "acked"]
        assert (state.acked, state.dead, state.letters) == (len(acked), len(dead), len(dead))

    @staticmethod
    def _check_letter(letter: DeadLetter, life: Life) -> None:
        message, draft = letter.message, life.draft
        assert (message.body, message.headers, message.content_type) == (draft.body, draft.headers, draft.content_type)
        assert (message.key, message.ordering_key, message.tag) == (draft.key, draft.ordering_key, draft.tag)
        assert draft.deliver_at in (None, message.deliver_at)
        assert json.loads(letter.history) == life.history
        assert len(life.history) == 17


@pytest.mark.slow
@pytest.mark.parametrize("jitter", [0.0, 0.1])
@pytest.mark.cases(2)
async def test_down_the_whole_ladder(stage: Stage, jitter: float) -> None:
    topic = await stage.topic(queues=2)
    group = await stage.group(topic, ladder=Ladder(DEFAULT_RUNGS, jitter=jitter))
    lives = Lives(stage, group, random.Random(f"{jitter}"))
    await lives.begin()
    for _ in range(MESSAGES * 50):
        await lives.claim()
        await lives.go_on()
        if all(life.state in ("acked", "dead") for life in lives.lives.values()):
            break
    await lives.check()
    states = [life.state for life in lives.lives.values()]
    assert set(states) <= {"acked", "dead"}, "some never come to rest"
    assert states.count("dead") >= MESSAGES // 2

"""Messages that expire: none is handed out from its `expires_at` on, whatever way it would go, and each is counted."""

import random
from typing import Any

import pytest

from support.books import conserves
from support.stores import HOUR, MINUTE, SECOND, Stage, bodies, bodies_of
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.groups import claims
from tarry.store.operating import redriving
from tarry.store.operating.redriving import Letters
from tarry.store.operating.replaying import Range
from tarry.store.records import Claim, ClaimRequest, Event, Group, ReadRequest, Topic
from tarry.store.stream import readers, stretches
from tarry.store.stream.positions import Position
from tarry.store.timers import timers
from tarry.wheel.ladder import Ladder

RED = frozenset({"red"})


async def tell(stage: Stage, topic: Topic, texts: str, left: int = SECOND, **how: Any) -> None:
    """A message per word, published now; those that end with x expire when so much time has passed."""
    ends = {True: stage.now + left, False: None}
    drafts = [stage.draft(topic, text.encode(), expires_at=ends[text.endswith("x")], **how) for text in texts.split()]
    await stage.publish(*drafts)


async def begin(stage: Stage, texts: str, *, ladder: Ladder | None = None) -> tuple[Topic, Group]:
    topic = await stage.topic(ladder=ladder)
    await tell(stage, topic, texts)
    return topic, await stage.group(topic)


async def take(
    stage: Stage, group: Group, size: int = 10, tags: frozenset[str] | None = None
) -> tuple[Claim | None, int]:
    """Turn after turn, as the coordinator does, until there is something or no more; and how many have expired."""
    expired = 0
    while True:
        turn = await stage.turn(group, requests=[ClaimRequest("c", size, MINUTE, tags)])
        expired += turn.expired
        if turn.claims[0] is not None or not (turn.cut or (group.topic.ordered and turn.more)):
            return turn.claims[0], expired


async def given(stage: Stage, group: Group, size: int = 10, tags: frozenset[str] | None = None) -> list[bytes]:
    claim, _ = await take(stage, group, size, tags)
    conserves(stage)
    return [] if claim is None else bodies(claim)


async def expired(stage: Stage, group: Group) -> int:
    return (await stage.group_state(group)).expired


async def life(stage: Stage, body: bytes, group: str = "billing") -> list[str]:
    """What has happened to a message, in the order of time; in one group."""
    ((id_,),) = stage.tables.rows(f"SELECT id FROM message WHERE HEX(body) = '{body.hex().upper()}'")
    found = await stage.found(int(id_))
    return [event.what for event in found.life if event.group in (None, group)]


class TestClaims:
    async def test_up_to_its_time_and_not_from_then_on(self, stage: Stage) -> None:
        _, group = await begin(stage, "ax b cx")
        stage.now += SECOND - 1
        assert await given(stage, group, 1) == [b"ax"]
        stage.now += 1
        assert await given(stage, group) == [b"b"]
        assert await expired(stage, group) == 1
        assert await given(stage, group) == []

    async def test_a_claim_under_way_is_not_touched(self, stage: Stage) -> None:
        _, group = await begin(stage, "ax")
        claim = await stage.claim(group)
        stage.now += 2 * SECOND
        assert (await stage.ack(group, claim)).acked == 1
        assert await expired(stage, group) == 0

    async def test_each_group_counts_it(self, stage: Stage) -> None:
        topic, group = await begin(stage, "ax b")
        other = await stage.group(topic, "audit")
        assert await given(stage, other) == [b"ax", b"b"]
        stage.now += SECOND
        assert await given(stage, group) == [b"b"]
        assert (await expired(stage, group), await expired(stage, other)) == (1, 0)
        assert await life(stage, b"ax") == ["published", "expired"]
        assert await life(stage, b"ax", "audit") == ["published", "claimed"]

    async def test_what_is_behind_comes_with_the_same_claim(self, stage: Stage) -> None:
        _, group = await begin(stage, "ax bx cx d ex f")
        stage.now += SECOND
        claim, many = await take(stage, group, 2)
        assert claim is not None
        assert (bodies(claim), many) == ([b"d", b"f"], 4)

    @pytest.mark.parametrize("many", [1, 255, 256, 257, 499, 500, 501, 1300])
    @pytest.mark.parametrize("size", [1, 300])
    async def test_many_in_a_row(self, stage: Stage, many: int, size: int) -> None:
        """At the edges of a page, and of a look at none of the bodies."""
        topic, group = await begin(stage, "x " * many + "last")
        stage.now += SECOND
        claim, passed = await take(stage, group, size)
        assert claim is not None
        assert (bodies(claim), passed, await expired(stage, group)) == ([b"last"], many, many)
        conserves(stage)
        assert await stage.claim_some(group) is None
        assert (await stage.state(topic)).streamed == many + 1

    async def test_a_turn_passes_over_so_many_and_is_gone_on_with(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(claims, "SCAN", 40)
        _, group = await begin(stage, "x " * 1500 + "last")
        stage.now += SECOND
        turns = [await stage.turn(group, requests=[ClaimRequest("c", 1, MINUTE)])]
        while turns[-1].claims[0] is None:
            assert (turns[-1].cut, turns[-1].more) == (True, True)
            assert 40 <= turns[-1].expired <= 1000
            turns.append(await stage.turn(group, requests=[ClaimRequest("c", 1, MINUTE)]))
        assert sum(turn.expired for turn in turns) == 1500
        conserves(stage)

    async def test_with_tags(self, stage: Stage, topic: Topic, group: Group) -> None:
        for text, tag in (("1x", "red"), ("2", "blue"), ("3x", "blue"), ("4", "red"), ("5x", "red"), ("6", "red")):
            await tell(stage, topic, text, tag=tag)
        stage.now += SECOND
        assert await given(stage, group, tags=RED) == [b"4", b"6"]
        await stage.counts(group, expired=3, skipped=1)
        assert (
            await life(stage, b"1x") == await life(stage, b"3x") == await life(stage, b"5x") == ["published", "expired"]
        )

    async def test_a_long_run_among_other_tags(self, stage: Stage, topic: Topic, group: Group) -> None:
        await tell(stage, topic, "x " * 700, tag="red")
        await tell(stage, topic, "no " * 700, tag="blue")
        await tell(stage, topic, "yes", tag="red")
        stage.now += SECOND
        assert await given(stage, group, tags=RED) == [b"yes"]
        await stage.counts(group, expired=700, skipped=700)

    async def test_promotion_does_not_look_at_it(self, stage: Stage, topic: Topic, group: Group) -> None:
        await stage.publish(stage.draft(topic, b"late", SECOND, expires_at=stage.now + 2 * SECOND))
        assert len(await stage.fall_due(after=HOUR)) == 1
        assert await given(stage, group) == []
        assert await expired(stage, group) == 1
        await stage.counts(topic, accepted=1, streamed=1, pending=0)

    async def test_the_guess_of_what_comes_next_is_judged_too(self, stage: Stage) -> None:
        """The second turn reads its page together with its locks."""
        topic, group = await begin(stage, "a b")
        for _ in range(2):
            await take(stage, group, 1)
        await tell(stage, topic, "cx d")
        stage.now += SECOND
        assert await given(stage, group) == [b"d"]


class TestTheLadder:
    async def test_what_comes_back_is_judged_again(self, stage: Stage, topic: Topic) -> None:
        """Its rung is over before it expires; it is claimed after."""
        group = await stage.group(topic, ladder=Ladder((SECOND,)))
        await tell(stage, topic, "ax", 2 * SECOND)
        await stage.fail(group, await stage.claim(group))
        await stage.fall_due(after=SECOND)
        assert stage.count("redelivery") == 1
        stage.now += SECOND
        assert await given(stage, group) == []
        assert await expired(stage, group) == 1
        assert await life(stage, b"ax") == ["published", "claimed", "failed", "returned", "expired"]

    @pytest.mark.parametrize("how", ["fail", "lose", "suspend"])
    async def test_what_would_come_back_too_late_expires_at_once(self, stage: Stage, how: str, topic: Topic) -> None:
        group = await stage.group(topic, ladder=Ladder((SECOND, MINUTE)))
        await tell(stage, topic, "ax", 2 * SECOND)
        claim = await stage.claim(group, lease=SECOND)
        if how == "lose":
            stage.now += SECOND
            await stage.end_leases(group)
        else:
            count, rest = how == "fail", 2 * SECOND
            assert (await stage.fail(group, claim, count=count, retry_after=rest)).retried == 0
        assert stage.count("retry") == stage.count("dead") == 0
        assert await expired(stage, group) == 1
        assert await life(stage, b"ax") == ["published", "claimed", "expired"]
        conserves(stage)

    async def test_the_last_rung_comes_first(self, stage: Stage, topic: Topic) -> None:
        """Who has had all attempts is a dead letter, though its time is past."""
        group = await stage.group(topic, ladder=Ladder(()))
        await tell(stage, topic, "ax")
        claim = await stage.claim(group)
        stage.now += 2 * SECOND
        assert (await stage.fail(group, claim)).dead == 1
        assert (stage.count("dead"), await expired(stage, group)) == (1, 0)


class TestOrder:
    async def begin(self, stage: Stage, texts: str, ladder: Ladder) -> Group:
        """A message per word: its key, a number."""
        topic, group = await stage.topic_and_group(ordered=True, ladder=ladder)
        for text in texts.split():
            await tell(stage, topic, text, 30 * SECOND, ordering_key=text[0])
        return group

    async def test_one_that_expires_does_not_keep_its_key(self, stage: Stage) -> None:
        group = await self.begin(stage, "a1x a2 b1 a3x a4", Ladder((SECOND,)))
        stage.now += 30 * SECOND
        assert await given(stage, group) == [b"a2", b"b1", b"a4"]
        assert stage.count("chain") == stage.count("parked") == 0

    async def test_a_head_that_fails_for_longer_than_it_has(self, stage: Stage) -> None:
        """Those behind it come at once, and not when its rung would be over."""
        group = await self.begin(stage, "a1x a2 a3", Ladder((HOUR,)))
        await stage.fail(group, await stage.claim(group))
        assert await expired(stage, group) == 1
        assert await given(stage, group) == [b"a2", b"a3"]
        assert stage.count("chain") == 1, "these two have come back, and are away until they are settled"

    async def test_a_head_that_expires_on_its_rung(self, stage: Stage) -> None:
        """Its rung is over before it expires, and it is claimed after: what is parked behind it comes."""
        group = await self.begin(stage, "a1x a2 a3", Ladder((20 * SECOND,)))
        await stage.fail(group, await stage.claim(group))
        assert stage.count("parked") == 2
        await stage.fall_due(after=20 * SECOND)
        stage.now += 10 * SECOND
        assert await given(stage, group) == [b"a2", b"a3"]
        assert (stage.count("parked"), await expired(stage, group)) == (0, 1)

    async def test_one_that_expires_while_it_is_parked(self, stage: Stage) -> None:
        group = await self.begin(stage, "a1 a2x a3", Ladder((30 * SECOND,)))
        await stage.fail(group, await stage.claim(group))
        await stage.fall_due(after=30 * SECOND)
        claim, _ = await take(stage, group)
        assert claim is not None
        assert bodies(claim) == [b"a1"]
        await stage.ack(group, claim)
        assert await given(stage, group) == [b"a3"]
        assert (stage.count("parked"), await expired(stage, group)) == (0, 1)

    async def test_it_comes_before_others_of_its_key_in_one_claim(self, stage: Stage) -> None:
        """Both lie in the retry queue, side by side."""
        group = await self.begin(stage, "a1x a2 b1", Ladder((20 * SECOND, 9 * SECOND)))
        await stage.fail(group, await stage.claim(group))
        await stage.fall_due(after=20 * SECOND)
        head = await stage.claim(group)
        assert bodies(head) == [b"a1x", b"b1"]
        await stage.fail(group, head)
        await stage.fall_due(after=9 * SECOND)
        stage.now += SECOND
        head = await stage.claim(group)
        assert bodies(head) == [b"b1"]
        await stage.ack(group, head)
        assert await given(stage, group) == [b"a2"]

    async def test_a_long_run(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(claims, "SCAN", 40)
        group = await self.begin(stage, "ax " * 100 + "b a", Ladder((SECOND,)))
        stage.now += 30 * SECOND
        assert await given(stage, group, 1) == [b"b"]
        assert await expired(stage, group) == 100


class TestDeadLetters:
    async def dead(self, stage: Stage, texts: str) -> Group:
        topic, group = await begin(stage, texts, ladder=Ladder(()))
        await stage.fail(group, await stage.claim(group, 1000))
        assert stage.count("dead") == len(texts.split())
        assert topic.ladder is not None
        return group

    async def test_a_letter_past_its_time_stays_where_it_is(self, stage: Stage) -> None:
        group = await self.dead(stage, "ax b cx")
        stage.now += SECOND
        would = await stage.store.read(redriving.would_redrive, group, Letters(), stage.now)
        assert (would.count, would.expired, would.astray) == (1, 2, 0)
        done = await stage.store.redrive(group, Letters(), 10, stage.now)
        assert (done.count, done.expired, stage.count("dead")) == (1, 2, 2)
        await stage.fall_due()
        assert await given(stage, group) == [b"b"]
        ids = tuple(stage.column("SELECT id FROM dead"))
        assert (await stage.store.redrive(group, Letters(ids=ids), 10, stage.now)).expired == 2
        would = await stage.store.read(redriving.would_redrive, group, Letters(ids=ids), stage.now)
        assert (would.count, would.expired) == (0, 2)
        assert (await stage.store.write(redriving.purge, group, Letters(ids=ids), 10)).count == 2

    async def test_the_next_batch_begins_behind_those_that_stay(self, stage: Stage) -> None:
        """All of them died in one millisecond."""
        group = await self.dead(stage, "ax bx cx dx e fx g")
        stage.now += SECOND
        letters, count = Letters(), 0
        for _ in range(7):
            done = await stage.store.redrive(group, letters, 2, stage.now)
            count += done.count
            if done.last is None:
                break
            letters = Letters(done.last[0], letters.until, after=done.last[1])
        else:
            raise AssertionError("it comes to no end")
        assert (count, stage.count("dead")) == (2, 5)

    async def test_one_with_time_left_keeps_its_end(self, stage: Stage) -> None:
        group = await self.dead(stage, "ax b")
        assert (await stage.store.redrive(group, Letters(), 10, stage.now)).count == 2
        await stage.fall_due()
        stage.now += SECOND
        assert await given(stage, group) == [b"b"]

    async def test_a_letter_restores_it_with_its_end(self, stage: Stage) -> None:
        """Retention has taken the message from the stream."""
        group = await self.dead(stage, "ax")
        stage.tables.rows("DELETE FROM message")
        assert (await stage.store.redrive(group, Letters(), 10, stage.now)).count == 1
        assert stage.column("SELECT expires_at FROM message") == [stage.now + SECOND]


class TestOperators:
    async def test_a_seek_brings_nothing_past_its_time(self, stage: Stage) -> None:
        topic, group = await begin(stage, "ax b")
        await stage.ack(group, await stage.claim(group))
        stage.now += SECOND
        await stage.store.seek(group, topic.queues, Position("earliest"), stage.now)
        assert await given(stage, group) == [b"b"]
        assert await expired(stage, group) == 1

    async def test_nor_does_a_replay(self, stage: Stage) -> None:
        topic, group = await begin(stage, "ax b")
        await stage.ack(group, await stage.claim(group))
        stage.now += SECOND
        range_ = Range(Position("earliest"), Position("latest"), topic.queues, b"r" * 32)
        assert (await stage.store.replay(group, range_, 10, stage.now)).count == 2
        await stage.fall_due()
        claim, many = await take(stage, group)
        assert claim is not None
        assert (bodies(claim), many) == ([b"b"], 1)

    async def test_it_is_not_moved_past_its_end(self, stage: Stage, topic: Topic) -> None:
        end = stage.now + HOUR
        (receipt,) = await stage.publish(stage.draft(topic, b"1", MINUTE, expires_at=end))
        for at in (end, end + 1):
            (verdict,) = await stage.store.write(timers.reschedule, [(receipt.id, at)], stage.now)
            assert (verdict.result, verdict.expires_at) == ("expires", end)
        assert await stage.waiting() == {receipt.id: stage.now + MINUTE}
        (verdict,) = await stage.store.write(timers.reschedule, [(receipt.id, end - 1)], stage.now)
        assert verdict.result == "rescheduled"
        stage.now = end
        (verdict,) = await stage.store.write(timers.reschedule, [(receipt.id, 0)], stage.now)
        assert verdict.result == "expires", "now is too late as well"


class TestReaders:
    async def read(self, stage: Stage, group: Group, size: int) -> list[bytes]:
        got: list[bytes] = []
        while True:
            wish = ReadRequest(group, "screen", size, latest=False)
            (answer,) = await stage.store.write(readers.read_on, [wish], stage.now)
            got += bodies_of(answer)
            if not answer.messages and not answer.more:
                return got

    @pytest.mark.parametrize("size", [1, 10])
    async def test_of_a_broadcast_topic(self, stage: Stage, size: int) -> None:
        draft = TopicDraft("news", kind="broadcast")
        topic = await stage.store.write(catalogue.add_topic, draft, stage.now)
        group = await stage.group(topic, "screens")
        await tell(stage, topic, "a bx c " + "x " * 1100 + "d ex")
        stage.now += SECOND
        assert await self.read(stage, group, size) == [b"a", b"c", b"d"]

    @pytest.mark.parametrize("size", [1, 10])
    async def test_by_an_offset(self, stage: Stage, size: int) -> None:
        topic, _ = await begin(stage, "a bx c " + "x " * 6000 + "d ex")
        stage.now += SECOND
        got, at, stops = list[bytes](), 0, 0
        while True:
            pulled = await stage.store.read(stretches.read_from, topic.queues[0], at, size, stage.now)
            got += [message.body for message in pulled.messages]
            stops += pulled.more
            if at == pulled.next:
                break
            at = pulled.next
        assert (got, at) == ([b"a", b"c", b"d"], 6005)
        assert stops == 1, "so many at once and no more"


async def test_it_tells_when_it_expires_wherever_it_is(stage: Stage, topic: Topic) -> None:
    at = stage.now + HOUR
    later, soon = await stage.publish(
        stage.draft(topic, b"1", MINUTE, expires_at=at), stage.draft(topic, b"2", expires_at=at)
    )
    for receipt in (later, soon):
        found = await stage.found(receipt.id)
        assert found.expires_at == at
    group = await stage.group(topic)
    assert [message.expires_at for message in (await stage.claim(group)).messages] == [at]
    await stage.fall_due(after=MINUTE)
    assert [message.expires_at for message in (await stage.claim(group)).messages] == [at]


async def test_a_life_with_others(stage: Stage) -> None:
    """In a range that is claimed it is told as in one that held nothing."""
    _, group = await begin(stage, "a bx c")
    stage.now += SECOND
    await stage.ack(group, await stage.claim(group))
    ((id_,),) = stage.tables.rows("SELECT id FROM message WHERE `offset` = 1")
    found = await stage.found(int(id_))
    assert found.life[-1] == Event("expired", stage.now, "billing", attempt=1)
    assert not found.standings


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.cases(2)
async def test_nothing_is_lost_and_nothing_comes_late(stage: Stage, seed: int, ordered: bool) -> None:
    """Random ends, claims, fails and waits: each message is acked once, or it expired, and never the one after it was
    past its time."""
    dice = random.Random(seed)
    topic, group = await stage.topic_and_group(ordered=ordered, ladder=Ladder((SECOND,) * 50))
    ends: dict[bytes, int | None] = {}
    for number in range(60):
        body, end = b"%d" % number, dice.choice((None, stage.now + dice.randrange(1, 20 * SECOND)))
        ends[body] = end
        await stage.publish(stage.draft(topic, body, expires_at=end, ordering_key=dice.choice("abc")))
    acked = list[bytes]()
    for _ in range(200):
        await stage.fall_due(after=dice.choice((0, 1, 300, SECOND)))
        claim, _ = await take(stage, group, dice.randrange(1, 6))
        if claim is None and not await stage.waiting():
            break
        if claim is not None:
            for one in claim.messages:
                end = ends[one.body]
                assert end is None or claim.claimed_at < end
            if dice.random() < 0.6:
                acked += bodies(claim)
                await stage.ack(group, claim)
            else:
                await stage.fail(group, claim)
        conserves(stage)
    assert len(acked) == len(set(acked))
    assert len(acked) + await expired(stage, group) == 60
    assert {body for body, end in ends.items() if end is None} <= set(acked)
    assert stage.count("claim") == stage.count("retry") == stage.count("parked") == stage.count("chain") == 0

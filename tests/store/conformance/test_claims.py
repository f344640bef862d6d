"""Claims: ranges of a queue in one client's hands, fenced by a token and a lease."""

import random
from functools import partial

import attrs
import pytest

from support.at_once import at_once
from support.store_homes import on_servers
from support.stores import MINUTE, SECOND, START, Stage, bodies, nobody_waits, uncommitted
from tarry.store.errors import Locked
from tarry.store.groups import holdings
from tarry.store.records import Claim, ClaimRequest, Group, Settled, Settlement, Topic
from tarry.store.stream import stretches
from tarry.store.stream.positions import Position
from tarry.store.stream.stretches import CLAIM_BYTES, PAGE


async def _stream(stage: Stage, count: int, queues: int = 1) -> tuple[Topic, Group]:
    topic, group = await stage.topic_and_group(queues=queues)
    if count:
        await stage.publish(*(stage.draft(topic, b"%d" % i, queue=i % queues) for i in range(count)))
    return topic, group


async def _claimed(stage: Stage, count: int, lease: int = MINUTE) -> tuple[Group, Claim]:
    """So many, all in one claim."""
    _, group = await _stream(stage, count)
    return group, await stage.claim(group, count, lease)


class TestClaiming:
    async def test_a_claim_is_a_range(self, stage: Stage) -> None:
        topic, group = await _stream(stage, 5)
        claim = await stage.claim(group, 3, lease=30 * SECOND, client="10.0.0.1-1-u-1")
        assert (claim.key.group_id, claim.key.queue_id, claim.key.first) == (group.id, topic.queues[0].id, 0)
        assert (claim.client, claim.size) == ("10.0.0.1-1-u-1", 3)
        assert (claim.claimed_at, claim.lease_until) == (START, START + 30 * SECOND)
        assert bodies(claim) == [b"0", b"1", b"2"]
        assert [m.attempt for m in claim.messages] == [1, 1, 1]
        assert [claim.places[m.id] for m in claim.messages] == [0, 1, 2]
        assert stage.count("claim") == 1
        rest = await stage.claim(group, 3)
        assert (rest.key.first, bodies(rest)) == (3, [b"3", b"4"])
        assert rest.key.number != claim.key.number
        assert rest.key.token != claim.key.token
        assert await stage.claim_some(group) is None

    async def test_of_an_empty_queue(self, stage: Stage) -> None:
        _, group = await _stream(stage, 0)
        turn = await stage.turn(group, requests=[ClaimRequest("a", 1, MINUTE)] * 2)
        assert turn.claims == (None, None)
        assert not turn.more
        assert stage.count("claim") == 0

    async def test_requests_share_what_there_is(self, stage: Stage) -> None:
        _, group = await _stream(stage, 10)
        turn = await stage.turn(group, requests=[ClaimRequest(c, 4, MINUTE) for c in "abcd"])
        assert [claim and (claim.client, bodies(claim)) for claim in turn.claims] == [
            ("a", [b"0", b"1", b"2", b"3"]),
            ("b", [b"4", b"5", b"6", b"7"]),
            ("c", [b"8", b"9"]),
            None,
        ]
        assert not turn.more

    async def test_tells_whether_there_is_more(self, stage: Stage) -> None:
        _, group = await _stream(stage, 4)
        assert (await stage.turn(group, requests=[ClaimRequest("a", 3, MINUTE)])).more
        assert not (await stage.turn(group, requests=[ClaimRequest("a", 1, MINUTE)])).more

    async def test_several_queues(self, stage: Stage) -> None:
        _, group = await _stream(stage, 30, queues=3)
        got: list[bytes] = []
        while (claim := await stage.claim_some(group, 4)) is not None:
            assert len(bodies(claim)) == min(4, 30 - len(got)), "there was room for more"
            got += bodies(claim)
            for one in claim.ranges:
                assert {int(b) % 3 for b in bodies(one)} == {int(bodies(one)[0]) % 3}
        assert sorted(map(int, got)) == list(range(30))

    async def test_the_fullest_queue_first(self, stage: Stage) -> None:
        topic, group = await stage.topic_and_group(queues=2)
        await stage.publish(
            stage.draft(topic, b"short", queue=0), *(stage.draft(topic, b"long", queue=1) for _ in "12")
        )
        assert bodies(await stage.claim(group, 1)) == [b"long"]

    async def test_the_retry_queue_first(self, stage: Stage) -> None:
        _, group = await _stream(stage, 20)
        await stage.fail(group, await stage.claim(group, 2), retry_after=SECOND)
        await stage.fall_due(after=SECOND)
        turn = await stage.turn(group, requests=[ClaimRequest("a", 10, MINUTE), ClaimRequest("b", 10, MINUTE)])
        assert [claim and [(m.body, m.attempt) for m in claim.messages] for claim in turn.claims] == [
            [(b"0", 2), (b"1", 2)],
            [(b"%d" % i, 1) for i in range(2, 12)],
        ]

    async def test_a_thousand(self, stage: Stage) -> None:
        _, group = await _stream(stage, 1500)
        claim = await stage.claim(group, 1000)
        assert bodies(claim) == [b"%d" % i for i in range(1000)]
        assert (await stage.fail(group, claim, (999,))).retried == 1
        assert (await stage.ack(group, claim)).acked == 999
        assert stage.count("claim") == 0
        assert stage.column("SELECT acked FROM `cursor` ORDER BY acked DESC")[0] == 999

    @pytest.mark.parametrize("count", [PAGE - 1, PAGE, PAGE + 1, 2 * PAGE])
    async def test_at_the_edges_of_a_page(self, stage: Stage, count: int) -> None:
        _, group = await _stream(stage, count)
        turn = await stage.turn(group, requests=[ClaimRequest("a", PAGE // 3, MINUTE)] * 7)
        got = [body for claim in turn.claims if claim for body in bodies(claim)]
        assert got == [b"%d" % i for i in range(min(count, 7 * (PAGE // 3)))]

    async def test_large_bodies_shorten_a_claim(self, stage: Stage, topic: Topic, group: Group) -> None:
        body = b"x" * (256 << 10)
        for _ in range(2):
            await stage.publish(*(stage.draft(topic, body) for _ in range(20)))
        turn = await stage.turn(group, requests=[ClaimRequest("a", 100, MINUTE), ClaimRequest("b", 100, MINUTE)])
        assert [claim and claim.size for claim in turn.claims] == [CLAIM_BYTES // len(body), 8]

    async def test_one_larger_than_a_claim(self, stage: Stage, topic: Topic, group: Group) -> None:
        await stage.publish(*(stage.draft(topic) for _ in range(3)))
        large = "zeroblob(%d)" if stage.kind == "sqlite" else "REPEAT('x', %d)"
        stage.tables.rows(f"UPDATE message SET body = {large % (CLAIM_BYTES + 1)} WHERE `offset` = 1")
        assert [(await stage.claim(group)).size for _ in range(3)] == [1, 1, 1]

    async def test_a_group_does_not_feel_another(self, stage: Stage) -> None:
        topic, group = await _stream(stage, 6)
        other = await stage.group(topic, "shipping")
        claim = await stage.claim(group, 6)
        await stage.fail(group, claim, (0,), retry_after=0)
        await stage.fall_due()
        assert bodies(await stage.claim(other, 10)) == [b"%d" % i for i in range(6)]
        assert await stage.claim_some(other) is None
        await stage.counts(other, acked=0, retried=0, claimed=6)

    async def test_what_retention_took_is_passed_by(self, stage: Stage) -> None:
        _, group = await _stream(stage, 12)
        stage.tables.rows("DELETE FROM message WHERE `offset` IN (0, 1, 2, 3, 5, 6, 11)")
        got: list[bytes] = []
        while (claim := await stage.claim_some(group, 5)) is not None:
            got += bodies(claim)
            assert (await stage.ack(group, claim)).acked == len(claim.messages)
        assert got == [b"4", b"7", b"8", b"9", b"10"]
        ((position, acked, expired),) = stage.tables.rows(
            "SELECT position, acked, expired FROM `cursor` WHERE position > 0"
        )
        assert (position, acked, expired) == (12, 5, 7)
        assert stage.count("claim") == 0

    async def test_two_tasks_on_one_group(self, stage: Stage) -> None:
        """Each message comes into one hand only, and every one into some."""
        _, group = await _stream(stage, 600, queues=2)
        seen: list[bytes] = []

        async def consume(client: str) -> None:
            while (claim := await stage.claim_some(group, 7, client=client)) is not None:
                seen.extend(bodies(claim))
                settled = await stage.ack(group, claim)
                assert (settled.acked, settled.lost) == (len(bodies(claim)), False)

        await at_once(*(partial(consume, client) for client in "abcd"))
        assert sorted(map(int, seen)) == list(range(600))
        assert (await stage.group_state(group)).acked == 600

    async def test_claims_while_others_publish(self, stage: Stage) -> None:
        topic, group = await _stream(stage, 0)
        seen: list[int] = []
        writing = 4

        async def publish(number: int) -> None:
            nonlocal writing
            for i in range(25):
                await stage.publish(stage.draft(topic, b"%d" % (100 * number + i)))
            writing -= 1

        async def consume() -> None:
            while True:
                last_look = not writing
                claim = await stage.claim_some(group, 10)
                if claim is not None:
                    seen.extend(int(body) for body in bodies(claim))
                elif last_look:
                    return

        await at_once(consume, *(partial(publish, number) for number in range(4)))
        assert sorted(seen) == sorted(100 * n + i for n in range(4) for i in range(25))
        in_the_log = [int(m.body) for m in await stage.store.read(stretches.pull, topic.queues[0], 0, 1000)]
        assert seen == in_the_log


class TestAck:
    async def test_all(self, stage: Stage) -> None:
        group, claim = await _claimed(stage, 5)
        assert await stage.ack(group, claim) == Settled(acked=5, ended=True)
        assert stage.count("claim") == 0
        (row,) = stage.tables.rows("SELECT claim, token, `first`, size, claimed_at, ended_at, outcome FROM delivery")
        assert row == (claim.key.number, claim.key.token, 0, 5, START, START, b"\1" * 5)
        await stage.counts(group, acked=5, claims=0, claimed=0)

    async def test_again_counts_again_and_does_nothing(self, stage: Stage) -> None:
        group, claim = await _claimed(stage, 4)
        for _ in range(2):
            assert (await stage.ack(group, claim, (0, 2))).acked == 2
        for _ in range(2):
            assert await stage.ack(group, claim) == Settled(acked=4, ended=True)
        assert await stage.ack(group, claim, (1, 2)) == Settled(acked=2, ended=True)
        assert (await stage.group_state(group)).acked == 4
        assert stage.count("delivery") == 1

    async def test_again_in_the_same_turn(self, stage: Stage) -> None:
        group, claim = await _claimed(stage, 3)
        settled = await stage.settle(
            group,
            Settlement(claim.key, "ack", (0,)),
            Settlement(claim.key, "ack", (0, 1)),
            Settlement(claim.key, "ack"),
        )
        assert [s and s.acked for s in settled] == [1, 2, 3]
        assert (await stage.group_state(group)).acked == 3

    async def test_of_a_claim_that_failed_whole(self, stage: Stage) -> None:
        group, claim = await _claimed(stage, 2)
        await stage.fail(group, claim)
        assert await stage.ack(group, claim) == Settled(lost=True, ended=True)

    async def test_what_was_given_back(self, stage: Stage) -> None:
        """All or nothing: one message that is not in its hands refuses the whole ack."""
        group, claim = await _claimed(stage, 3)
        await stage.fail(group, claim, (1,))
        assert await stage.ack(group, claim, (0, 1)) == Settled(lost=True)
        assert (await stage.group_state(group)).acked == 0
        assert await stage.ack(group, claim) == Settled(acked=2, ended=True)
        assert (await stage.ack(group, claim, (0, 1))).lost
        assert await stage.ack(group, claim) == Settled(acked=2, ended=True)

    async def test_a_forged_token(self, stage: Stage) -> None:
        """I5."""
        group, claim = await _claimed(stage, 2)
        forged = attrs.evolve(claim.key, token=claim.key.token ^ 1)
        for verb in ("ack", "fail", "extend", "end"):
            assert await stage.settle(group, Settlement(forged, verb)) == [None]
        assert await stage.store.read(holdings.find_places, [forged]) == {}
        assert stage.column("SELECT outcome FROM claim") == [b"\0\0"]
        await stage.ack(group, claim)
        assert await stage.settle(group, Settlement(forged, "ack")) == [None]
        assert await stage.store.read(holdings.find_places, [forged]) == {}

    async def test_another_group_s_claim(self, stage: Stage) -> None:
        topic, group = await _stream(stage, 2)
        other = await stage.group(topic, "shipping")
        claim = await stage.claim(group)
        assert await stage.settle(other, Settlement(claim.key, "ack")) == [None]
        mine = await stage.claim(other)
        assert mine.key.number == claim.key.number, "else the numbers alone would tell them apart"
        assert await stage.settle(other, Settlement(claim.key, "ack")) == [None]
        assert (await stage.ack(group, claim)).acked == 2

    async def test_an_unknown_claim(self, stage: Stage) -> None:
        group, claim = await _claimed(stage, 1)
        for stranger in (attrs.evolve(claim.key, number=77), attrs.evolve(claim.key, queue_id=1 << 30)):
            assert await stage.settle(group, Settlement(stranger, "ack")) == [None]
            assert await stage.store.read(holdings.find_places, [stranger]) == {}

    async def test_one_turn_for_many(self, stage: Stage) -> None:
        """Answers come in the order of the questions, whatever their kinds."""
        _, group = await _stream(stage, 12, queues=2)
        one, two, three = [await stage.claim(group, 2) for _ in range(3)]
        forged = attrs.evolve(one.key, token=1)
        turn = await stage.turn(
            group,
            [
                Settlement(three.key, "fail", (0,), reason="no"),
                Settlement(forged, "ack"),
                Settlement(one.key, "ack"),
                Settlement(two.key, "extend", lease=5 * MINUTE),
                Settlement(three.key, "ack"),
            ],
            [ClaimRequest("x", 2, MINUTE), ClaimRequest("y", 2, MINUTE)],
        )
        fail, none, ack, extend, rest = turn.settled
        assert none is None
        assert fail is not None
        assert (fail.retried, fail.ended) == (1, True)
        assert ack == Settled(acked=2, ended=True)
        assert extend == Settled(lease_until=START + 5 * MINUTE)
        assert rest == Settled(acked=1, ended=True)
        assert [claim and claim.client for claim in turn.claims] == ["x", "y"]

    async def test_places_of_a_claim(self, stage: Stage) -> None:
        group, claim = await _claimed(stage, 3)
        assert await stage.store.read(holdings.find_places, [claim.key]) == {claim.key: dict(claim.places)}
        await stage.fail(group, claim, (0, 1), retry_after=0)
        await stage.ack(group, claim)
        assert await stage.store.read(holdings.find_places, [claim.key]) == {claim.key: dict(claim.places)}
        await stage.fall_due()
        back = await stage.claim(group)
        assert await stage.store.read(holdings.find_places, [back.key]) == {back.key: dict(back.places)}
        assert set(back.places) == {m.id for m in claim.messages[:2]}


class TestLeases:
    @pytest.mark.parametrize("late", [0, 1, MINUTE])
    @pytest.mark.parametrize("verb", ["ack", "fail", "extend"])
    async def test_nothing_is_taken_after_it(self, stage: Stage, verb: str, late: int) -> None:
        """I5. Even if nobody has the message yet."""
        group, claim = await _claimed(stage, 2, lease=MINUTE)
        assert (await stage.ack(group, claim, (0,))).acked == 1
        stage.now = claim.lease_until + late
        for places in (None, (0,), (1,), (0, 1)):
            settlement = Settlement(claim.key, verb, places, lease=MINUTE)  # type: ignore[arg-type]
            (settled,) = await stage.settle(group, settlement)
            assert settled == Settled(lost=True)
        assert stage.column("SELECT outcome FROM claim") == [b"\1\0"]
        assert stage.column("SELECT lease_until FROM claim") == [claim.lease_until]
        assert stage.count("retry") == 0

    async def test_is_not_ended_before(self, stage: Stage) -> None:
        group, claim = await _claimed(stage, 2, lease=MINUTE)
        stage.now = claim.lease_until - 1
        assert await stage.store.read(holdings.over, stage.now, 10) == []
        assert await stage.settle(group, Settlement(claim.key, "end")) == [Settled(lease_until=claim.lease_until)]
        assert stage.count("retry") == 0
        stage.now += 1
        assert await stage.store.read(holdings.over, stage.now, 10) == [(claim.key, claim.lease_until)]
        settled = await stage.end_lease(group)
        assert (settled.lost, settled.retried, settled.ended) == (True, 2, True)
        assert await stage.store.read(holdings.over, stage.now, 10) == []

    async def test_the_acked_stay_acked(self, stage: Stage) -> None:
        group, claim = await _claimed(stage, 3)
        await stage.ack(group, claim, (1,))
        stage.now += MINUTE
        assert (await stage.end_lease(group)).retried == 2
        await stage.counts(group, acked=1, retried=2)

    async def test_an_ack_of_all_after_the_end(self, stage: Stage) -> None:
        """Some were acked in time; to say so would hide that the others were lost."""
        group, claim = await _claimed(stage, 3, lease=MINUTE)
        await stage.ack(group, claim, (1,))
        stage.now += MINUTE
        await stage.end_leases(group)
        assert await stage.ack(group, claim) == Settled(lost=True, ended=True)
        assert (await stage.ack(group, claim, (0,))).lost
        assert await stage.ack(group, claim, (1,)) == Settled(acked=1, ended=True)

    async def test_extension(self, stage: Stage) -> None:
        group, claim = await _claimed(stage, 1, lease=MINUTE)
        stage.now += MINUTE - 1
        (settled,) = await stage.settle(group, Settlement(claim.key, "extend", lease=10 * MINUTE))
        until = stage.now + 10 * MINUTE
        assert settled == Settled(lease_until=until)
        stage.now = claim.lease_until + MINUTE
        assert await stage.store.read(holdings.over, stage.now, 10) == []
        assert await stage.settle(group, Settlement(claim.key, "end")) == [Settled(lease_until=until)]
        stage.now = until - 1
        assert (await stage.ack(group, claim)).acked == 1

    async def test_over_comes_oldest_first(self, stage: Stage) -> None:
        _, group = await _stream(stage, 30)
        leases = list(range(1, 31))
        random.Random(1).shuffle(leases)
        for lease in leases:
            await stage.claim(group, 1, lease=lease * SECOND)
        stage.now += 20 * SECOND
        over = await stage.store.read(holdings.over, stage.now, 12)
        assert [until - START for _, until in over] == [i * SECOND for i in range(1, 13)]

    async def test_a_lost_lease_is_ended_once(self, stage: Stage) -> None:
        group, claim = await _claimed(stage, 5, lease=SECOND)
        stage.now += SECOND
        ended: list[Settled | None] = []

        async def end() -> None:
            ended.extend(await stage.settle(group, Settlement(claim.key, "end")))

        await at_once(*[end] * 4)
        assert sorted(s.retried for s in ended if s) == [0, 0, 0, 5]
        assert stage.count("retry") == 5

    @pytest.mark.parametrize("how", ["ack", "fail", "end", "seek"])
    async def test_the_end_of_a_claim_that_is_over_is_silent(self, stage: Stage, how: str) -> None:
        """Somebody who watches its lease for us, or for another node, hears late that it was settled."""
        topic, group = await _stream(stage, 5)
        claim = await stage.claim(group, lease=SECOND)
        if how == "ack":
            await stage.ack(group, claim)
        elif how == "fail":
            await stage.fail(group, claim)
        elif how == "seek":
            await stage.store.seek(group, topic.queues, Position("latest"), stage.now)
        stage.now += SECOND
        if how == "end":
            assert (await stage.end_leases(group)) != []
        before = stage.count("retry")
        ended = await stage.settle_one(group, Settlement(claim.key, "end"))
        assert ended.ended
        assert (ended.lost, ended.retried, ended.dead, ended.timers) == (False, 0, 0, ())
        assert stage.count("retry") == before

    async def test_acks_race_the_end_of_the_lease(self, stage: Stage) -> None:
        """I4, I5: a message is acked or comes again, never both, and the answer says which."""
        topic, group = await _stream(stage, 200)
        claims = [await stage.claim(group, 5, lease=MINUTE) for _ in range(40)]
        acked: set[int] = set()
        dice = random.Random(1)

        async def ack(claim: Claim) -> None:
            places = tuple(dice.sample(range(5), 3))
            settled = await settle(Settlement(claim.key, "ack", places), claim.lease_until - 1)
            if not settled.lost:
                acked.update(claim.messages[place].id for place in places)

        async def end(claim: Claim) -> None:
            await settle(Settlement(claim.key, "end"), claim.lease_until)

        async def settle(settlement: Settlement, now: int) -> Settled:
            while True:  # the other turn may hold the claim: nothing was done, and the coordinator would ask again
                (settled,) = (await stage.store.turn(group, [settlement], [], now)).settled
                assert settled is not None
                if not settled.locked:
                    return settled

        await at_once(*(partial(job, claim) for claim in claims for job in dice.sample([ack, end], 2)))
        again = set(stage.column("SELECT message_id FROM retry"))
        everything = {m.id for m in await stage.store.read(stretches.pull, topic.queues[0], 0, 1000)}
        assert acked.isdisjoint(again)
        assert acked | again == everything
        assert (await stage.group_state(group)).acked == len(acked)


@on_servers
async def test_a_free_turn_waits_for_nobody_who_holds_the_group(stage: Stage) -> None:
    """It has a connection, and others want one: it says so at once, with nothing done."""
    group, claim = await _claimed(stage, 3)
    with uncommitted(stage.dsn, "SELECT position FROM `cursor` FOR UPDATE"):
        for settlements, requests in ([Settlement(claim.key, "ack")], []), ([], [ClaimRequest("c", 1, MINUTE)]):
            with nobody_waits(stage.tables), pytest.raises(Locked):
                await stage.store.turn(group, settlements, requests, stage.now, free=True)
    turn = await stage.store.turn(group, [Settlement(claim.key, "ack")], [], stage.now, free=True)
    assert [settled.acked for settled in turn.settled if settled] == [3]

"""Ordered topics (I11): a key's messages go back together, wait for each other, and are in one hand."""

import pytest

from support.cleaning import DAY, clean
from support.stores import MINUTE, SECOND, Stage, bodies
from tarry.store import catalogue
from tarry.store.cleaning.retention import Limits
from tarry.store.records import Claim, ClaimRequest, Group, Outcome, Settlement, Topic
from tarry.store.stream.positions import Position
from tarry.wheel.ladder import Ladder


async def _published(stage: Stage, keys: str, ladder: Ladder | None = None) -> tuple[Topic, Group]:
    """A message per letter, its key; bodies are the key with a number."""
    topic, group = await stage.topic_and_group(ordered=True, ladder=ladder)
    await publish(stage, topic, keys)
    return topic, group


async def publish(stage: Stage, topic: Topic, keys: str, begin: int = 1) -> None:
    numbers: dict[str, int] = {}
    for key in keys:
        numbers[key] = numbers.get(key, begin - 1) + 1
        await stage.publish(stage.draft(topic, f"{key}{numbers[key]}".encode(), ordering_key=key))


async def _back(stage: Stage, group: Group, rest: int, size: int = 10) -> Claim:
    await stage.fall_due(after=rest)
    return await stage.claim(group, size)


async def test_a_key_goes_back_together_and_others_go_on(stage: Stage) -> None:
    _, group = await _published(stage, "aabab")
    claim = await stage.claim(group)
    assert bodies(claim) == [b"a1", b"a2", b"b1", b"a3", b"b2"]
    failed = await stage.fail(group, claim, (1,), reason="no")
    assert (failed.retried, failed.dead, len(failed.timers)) == (1, 0, 1)
    assert (await stage.ack(group, claim, (3,))).lost, "a3 left the claim with a2"
    assert (await stage.ack(group, claim)).acked == 3
    assert stage.count("claim") == 0
    assert (await stage.group_state(group)).parked == 1
    back = await _back(stage, group, 10 * SECOND + 2)
    assert bodies(back) == [b"a2"]
    assert back.messages[0].attempt == 2
    assert (await stage.ack(group, back)).acked == 1
    last = await stage.claim(group)
    assert bodies(last) == [b"a3"]
    assert last.messages[0].attempt == 1, "what was parked is not counted"
    await stage.ack(group, last)
    assert stage.count("chain") == stage.count("parked") == 0
    await stage.counts(group, acked=5, retried=1, parked=0)
    assert await stage.claim_some(group) is None


async def test_later_messages_of_the_key_are_parked_until_the_chain_is_through(stage: Stage) -> None:
    topic, group = await _published(stage, "ab")
    claim = await stage.claim(group)
    await stage.fail(group, claim, (0,))
    await stage.ack(group, claim, (1,))
    await publish(stage, topic, "aab", begin=2)
    later = await stage.claim(group)
    assert bodies(later) == [b"b2"]
    assert later.size == 3
    await stage.ack(group, later)
    back = await _back(stage, group, 10 * SECOND + 2)
    assert bodies(back) == [b"a1"]
    await publish(stage, topic, "a", begin=4)
    assert await stage.claim_some(group) is None, "one claim of a queue at a time"
    await stage.ack(group, back)
    chain = await stage.claim(group)
    assert bodies(chain) == [b"a2", b"a3"]
    await stage.fail(group, chain, (0,))
    assert await stage.claim_some(group) is None
    back = await _back(stage, group, 10 * SECOND + 2)
    assert bodies(back) == [b"a2"]
    await stage.ack(group, back)
    rest = await stage.claim(group)
    assert bodies(rest) == [b"a3", b"a4"]
    await stage.ack(group, rest)
    assert stage.count("chain") == stage.count("parked") == 0


async def test_a_lost_lease_sends_the_first_of_each_key_and_parks_the_rest(stage: Stage) -> None:
    _, group = await _published(stage, "aabb")
    claim = await stage.claim(group)
    await stage.ack(group, claim, (0,))
    stage.now = claim.lease_until
    settled = await stage.end_lease(group)
    assert settled.lost
    assert len(settled.timers) == 2, "a2 and b1"
    assert stage.count("parked") == 1
    back = await _back(stage, group, 10 * SECOND + 2)
    assert [(m.body, m.attempt) for m in back.messages] == [(b"a2", 2), (b"b1", 2)]
    await stage.ack(group, back)
    assert [(m.body, m.attempt) for m in (await stage.claim(group)).messages] == [(b"b2", 1)]


async def test_fails_in_reverse_come_back_in_order(stage: Stage) -> None:
    """The third first, with the shortest rest; then the second, then the first."""
    _, group = await _published(stage, "aaa")
    claim = await stage.claim(group)
    for place, rest in ((2, 1), (1, 2), (0, 5)):
        assert (await stage.fail(group, claim, (place,), retry_after=rest * SECOND)).retried == 1
    await stage.fall_due(after=SECOND + 2)
    assert await stage.claim_some(group) is None
    await stage.fall_due(after=SECOND)
    assert await stage.claim_some(group) is None
    got: list[bytes] = []
    await stage.fall_due(after=3 * SECOND)
    while (back := await stage.claim_some(group, 1)) is not None:
        got += bodies(back)
        await stage.ack(group, back)
    assert got == [b"a1", b"a2", b"a3"]


async def test_one_that_returns_waits_for_those_parked_before_it(stage: Stage) -> None:
    """The first and the last of four come back at once, and two lie between them."""
    _, group = await _published(stage, "aaaa")
    claim = await stage.claim(group)
    for place in (3, 0):
        await stage.fail(group, claim, (place,), retry_after=SECOND)
    back = await _back(stage, group, SECOND + 2)
    assert bodies(back) == [b"a1"]
    await stage.ack(group, back)
    rest = await stage.claim(group)
    assert [(m.body, m.attempt) for m in rest.messages] == [(b"a2", 1), (b"a3", 1), (b"a4", 2)]


async def test_an_exhausted_message_is_dead_and_its_chain_goes_on(stage: Stage) -> None:
    _, group = await _published(stage, "aaa", Ladder(()))
    claim = await stage.claim(group)
    failed = await stage.fail(group, claim)
    assert (failed.retried, failed.dead) == (2, 1), "the ids named, those parked included"
    claim = await stage.claim(group)
    assert bodies(claim) == [b"a2", b"a3"]
    await stage.fail(group, claim, (0,))
    last = await stage.claim(group)
    assert bodies(last) == [b"a3"]
    await stage.ack(group, last)
    assert stage.count("dead") == 2
    assert stage.count("chain") == 0


async def test_a_group_may_block_instead(stage: Stage) -> None:
    """With a ladder of one second: a second, for ever."""
    topic, group = await _published(stage, "aab", Ladder((SECOND,)))
    await stage.store.write(catalogue.change_group, group, None, block=True)
    (group,) = await stage.store.groups([topic])
    assert group.block
    claim = await stage.claim(group)
    await stage.fail(group, claim, (0,))
    await stage.ack(group, claim)
    for attempt in range(2, 6):
        back = await _back(stage, group, SECOND + 2)
        assert [(m.body, m.attempt) for m in back.messages] == [(b"a1", attempt)]
        assert (await stage.fail(group, back)).dead == 0
    back = await _back(stage, group, SECOND + 2)
    await stage.ack(group, back)
    assert bodies(await stage.claim(group)) == [b"a2"]


async def test_given_back_uncounted(stage: Stage) -> None:
    _, group = await _published(stage, "aab")
    claim = await stage.claim(group)
    assert (await stage.fail(group, claim, None, retry_after=0, count=False)).retried == 3
    await stage.fall_due()
    back = await stage.claim(group)
    assert [(m.body, m.attempt) for m in back.messages] == [(b"a1", 1), (b"b1", 1)]
    await stage.ack(group, back)
    assert [(m.body, m.attempt) for m in (await stage.claim(group)).messages] == [(b"a2", 1)]


async def test_without_keys_one_queue_is_one_order(stage: Stage) -> None:
    topic, group = await stage.topic_and_group(ordered=True)
    await stage.publish(*(stage.draft(topic, b"%d" % i) for i in range(6)))
    got: list[bytes] = []
    claim = await stage.claim(group, 3)
    await stage.ack(group, claim, (0,))
    got += bodies(claim)[:1]
    await stage.fail(group, claim, (1,), retry_after=0)
    while len(got) < 6:
        await stage.fall_due()
        claim = await stage.claim(group, 3)
        got += bodies(claim)
        await stage.ack(group, claim)
    assert got == [b"%d" % i for i in range(6)]


async def test_a_queue_belongs_to_one_client_and_changes_hands_when_it_is_free(stage: Stage) -> None:
    topic, group = await stage.topic_and_group(queues=2, ordered=True)
    for queue in (0, 1):
        await stage.publish(*(stage.draft(topic, b"%d" % i, queue=queue) for i in range(4)))

    async def ask(*clients: str, acked: Claim | None = None) -> list[Claim | None]:
        acks = [] if acked is None else [Settlement(acked.key, "ack")]
        requests = [ClaimRequest(client, 1, MINUTE) for client in clients]
        turn = await stage.store.turn(group, acks, requests, stage.now, {"a", "b"} if "b" in clients else {"a"})
        return list(turn.claims)

    first, second, third = await ask("a", "a", "a")
    assert first is not None
    assert second is not None
    assert third is None, "two queues, an open claim of each"
    assert {first.messages[0].queue, second.messages[0].queue} == {0, 1}
    assert await ask("b") == [None], "both are in a's hands"
    (hers,) = await ask("b", acked=first)
    assert hers is not None
    assert hers.messages[0].queue == first.messages[0].queue
    assert await ask("a") == [None], "hers is hers, and a's is open"
    owners = (await stage.group_state(group)).owners
    assert owners == {first.messages[0].queue: "b", second.messages[0].queue: "a"}
    again, none = await ask("a", "a", acked=second)
    assert again is not None
    assert again.messages[0].queue == second.messages[0].queue
    assert none is None
    assert stage.column("SELECT epoch FROM queue_owner ORDER BY epoch") == [1, 2]
    free = [Settlement(hers.key, "ack")]
    turn = await stage.store.turn(group, free, [ClaimRequest("a", 1, MINUTE)], stage.now, {"a", "b"})
    assert turn.claims == (None,), "free, with messages in it, and b's as long as b is there"
    assert turn.left
    (taken,) = await ask("a")
    assert taken is not None, "b has gone"
    assert taken.messages[0].queue == first.messages[0].queue


async def _ack_outside(stage: Stage, claim: Claim) -> None:
    """What `outbox.ack` leaves of a claim of one message: a byte, counted by whoever locks the claim next."""
    where = f"WHERE group_id = {claim.key.group_id} AND queue_id = {claim.key.queue_id}"
    outcome = bytes([Outcome.ACKED_OUTSIDE]).hex()
    stage.tables.rows(f"UPDATE claim SET outcome = x'{outcome}' {where} AND number = {claim.key.number}")


@pytest.mark.parametrize("counted_by", ["lease", "seek"])
async def test_what_a_users_own_transaction_acks_lets_its_chain_go_on(stage: Stage, counted_by: str) -> None:
    topic, group = await _published(stage, "aa")
    await stage.fail(group, await stage.claim(group))
    back = await _back(stage, group, 10 * SECOND + 2)
    assert bodies(back) == [b"a1"]
    await _ack_outside(stage, back)
    if counted_by == "lease":
        stage.now += MINUTE
        await stage.end_leases(group)
    else:
        await stage.store.seek(group, topic.queues, Position("latest"), stage.now)
    assert bodies(await stage.claim(group)) == [b"a2"]
    await stage.counts(group, acked=1, retried=1)


async def test_a_parked_message_is_kept_however_old(stage: Stage) -> None:
    topic, group = await _published(stage, "aab")
    claim = await stage.claim(group)
    await stage.fail(group, claim, (0,))
    await stage.ack(group, claim)
    stage.now += 20 * DAY
    limits = Limits(retention=DAY, hard=1000 * DAY, history=DAY, dead=DAY)
    await clean(stage, topic, limits=limits, limit=9)
    assert stage.column("SELECT `offset` FROM message ORDER BY `offset`") == [0, 1]


async def test_a_key_does_not_wait_for_what_retention_has_taken(stage: Stage) -> None:
    topic, group = await _published(stage, "aa")
    await stage.fail(group, await stage.claim(group), (0,))
    assert stage.count("parked") == 1
    stage.now += 20 * DAY
    limits = Limits(retention=DAY, hard=DAY, history=DAY, dead=DAY)
    await clean(stage, topic, limits=limits, limit=9)
    assert stage.column("SELECT `offset` FROM message") == [1], "what is parked stays"
    assert await stage.claim_some(group) is None, "a1 has come back, and is gone"
    assert bodies(await stage.claim(group)) == [b"a2"]
    assert stage.count("parked") == 0

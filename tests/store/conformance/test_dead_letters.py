"""Dead letters: every exhausted message once, whole, with its history (I7)."""

import itertools
import json
import random

import attrs
import pytest

from support.letters import dead_letters_of
from support.stores import MINUTE, SECOND, START, Stage, ids_of
from tarry.store import catalogue
from tarry.store.history import since_redrive
from tarry.store.looking import dead_letters
from tarry.store.looking.dead_letters import DeadSearch
from tarry.store.operating import redriving
from tarry.store.operating.redriving import Letters
from tarry.store.records import DeadLetter, Group, Topic
from tarry.wheel.ladder import Ladder


async def _exhaust(stage: Stage, group: Group) -> int:
    """Fails all that comes, until nothing comes any more; returns how many deliveries that took."""
    deliveries = 0
    while True:
        while (claim := await stage.claim_some(group, 100)) is not None:
            deliveries += sum(len(one.messages) for one in claim.ranges)
            await stage.fail(group, claim, reason="poison")
        waiting = [due for entry, due in (await stage.waiting()).items() if entry < 0]
        if not waiting:
            return deliveries
        stage.now = max(waiting)
        await stage.fall_due()


async def test_seventeen_deliveries_then_dead_once(stage: Stage, topic: Topic, group: Group) -> None:
    body, headers = bytes(range(256)) * 400, b'{"trace":"1"}'
    (receipt,) = await stage.publish(
        stage.draft(topic, body, key="k🐢", ordering_key="o", tag="t", headers=headers, content_type="x/y")
    )
    assert await _exhaust(stage, group) == 17
    (letter,) = await stage.store.read(dead_letters_of, group, 0, 10)
    assert letter.dead_at == stage.now
    assert letter.message.id == receipt.id
    assert (letter.message.body, letter.message.headers, letter.message.content_type) == (body, headers, "x/y")
    assert (letter.message.key, letter.message.ordering_key, letter.message.tag) == ("k🐢", "o", "t")
    assert (letter.message.queue, letter.message.offset, letter.message.attempt) == (0, 0, 17)
    assert (letter.message.accepted_at, letter.message.deliver_at) == (START, START)
    history = json.loads(letter.history)
    assert len(history) == 17
    assert all(entry["reason"] == "poison" and entry["client"] == "client-1" for entry in history)
    assert [entry["at"] for entry in history] == sorted(entry["at"] for entry in history)
    assert stage.count("dead") == 1
    assert stage.count("retry") == 0
    assert await stage.claim_some(group) is None


async def test_without_a_ladder_the_first_failure_is_the_last(stage: Stage, topic: Topic) -> None:
    group = await stage.group(topic, ladder=Ladder(()))
    await stage.publish(stage.draft(topic, b"a"), stage.draft(topic, b"b"))
    settled = await stage.fail(group, await stage.claim(group), reason="no")
    assert (settled.retried, settled.dead, settled.ended, settled.timers) == (0, 2, True, ())
    letters = await stage.store.read(dead_letters_of, group, 0, 10)
    assert sorted(letter.message.body for letter in letters) == [b"a", b"b"]
    assert stage.column("SELECT outcome FROM delivery") == [b"\3\3"]


async def test_by_a_lost_lease(stage: Stage, topic: Topic) -> None:
    group = await stage.group(topic, ladder=Ladder(()))
    await stage.publish(stage.draft(topic))
    claim = await stage.claim(group, lease=MINUTE)
    stage.now += 2 * MINUTE
    settled = await stage.end_lease(group)
    assert (settled.lost, settled.dead) == (True, 1)
    (letter,) = await stage.store.read(dead_letters_of, group, 0, 10)
    assert json.loads(letter.history) == [{"at": claim.lease_until, "client": "client-1", "reason": "lease lost"}]
    assert letter.dead_at == stage.now
    assert stage.column("SELECT outcome FROM delivery") == [b"\5"]


async def test_the_last_rung_overrules_a_wait_of_one_s_own(stage: Stage, topic: Topic) -> None:
    group = await stage.group(topic, ladder=Ladder(()))
    await stage.publish(stage.draft(topic))
    assert (await stage.fail(group, await stage.claim(group), retry_after=SECOND)).dead == 1


async def test_a_scheduled_one(stage: Stage, topic: Topic) -> None:
    group = await stage.group(topic, ladder=Ladder((SECOND, SECOND)))
    (receipt,) = await stage.publish(stage.draft(topic, b"later", MINUTE, key="k"))
    await stage.fall_due(after=MINUTE)
    assert await _exhaust(stage, group) == 3
    (letter,) = await stage.store.read(dead_letters_of, group, 0, 10)
    assert (letter.message.id, letter.message.deliver_at) == (receipt.id, START + MINUTE)


async def test_pages_by_id(stage: Stage) -> None:
    topic = await stage.topic(queues=2)
    group = await stage.group(topic, ladder=Ladder(()))
    receipts = await stage.publish(*(stage.draft(topic, b"%d" % i, queue=i % 2) for i in range(25)))
    await _exhaust(stage, group)
    got: list[DeadLetter] = []
    while page := await stage.store.read(dead_letters_of, group, got[-1].message.id if got else 0, 10):
        got += page
    assert [letter.message.id for letter in got] == sorted(ids_of(receipts))
    assert {letter.message.queue for letter in got} == {0, 1}


async def test_each_group_has_its_own(stage: Stage, topic: Topic) -> None:
    group, other = await stage.group(topic, ladder=Ladder(())), await stage.group(topic, "shipping")
    await stage.publish(stage.draft(topic))
    await _exhaust(stage, group)
    assert await stage.store.read(dead_letters_of, other, 0, 10) == []
    claim = await stage.claim(other)
    assert (await stage.ack(other, claim)).acked == 1
    assert len(await stage.store.read(dead_letters_of, group, 0, 10)) == 1


async def test_many_poisoned_among_many(stage: Stage, topic: Topic) -> None:
    """Those that are sound go through; those that are not die once each."""
    group = await stage.group(topic, ladder=Ladder((SECOND, 2 * SECOND, 3 * SECOND)))
    await stage.publish(*(stage.draft(topic, b"%d" % i) for i in range(300)))
    deliveries: dict[bytes, int] = {}
    for _ in range(5):
        while (claim := await stage.claim_some(group, 64)) is not None:
            poisoned: list[int] = []
            for place, message in enumerate(claim.messages):
                deliveries[message.body] = deliveries.get(message.body, 0) + 1
                if int(message.body) % 10 == 0:
                    poisoned.append(place)
            if poisoned:
                await stage.fail(group, claim, tuple(poisoned), reason="poison")
            await stage.ack(group, claim)
        await stage.fall_due(after=10 * SECOND)
    letters = await stage.store.read(dead_letters_of, group, 0, 1000)
    assert sorted(int(letter.message.body) for letter in letters) == list(range(0, 300, 10))
    assert all(len(json.loads(letter.history)) == 4 for letter in letters)
    assert deliveries == {b"%d" % i: 4 if i % 10 == 0 else 1 for i in range(300)}
    await stage.counts(group, acked=270, dead=30, retried=90)


async def _dead(stage: Stage, count: int, every: int = SECOND) -> Group:
    """Letters, one after the other, their bodies 0, 1, 2, ..."""
    topic = await stage.topic(queues=2)
    group = await stage.group(topic, ladder=Ladder(()))
    for i in range(count):
        await stage.publish(stage.draft(topic, b"%d" % i, queue=i % 2, key=f"k{i % 3}", headers=b'{"h":"1"}'))
        await stage.fail(group, await stage.claim(group), reason=f"No ink in {i}")
        stage.now += every
    return group


async def _bodies(stage: Stage, group: Group) -> list[int]:
    return sorted(int(letter.message.body) for letter in await stage.store.read(dead_letters_of, group, 0, 1000))


async def _redriven(stage: Stage, group: Group) -> list[int]:
    """What comes back, each from its first attempt on."""
    await stage.fall_due()
    got: list[int] = []
    while (claim := await stage.claim_some(group, 100)) is not None:
        messages = [message for one in claim.ranges for message in one.messages]
        assert {(message.attempt, message.headers) for message in messages} == {(1, b'{"h":"1"}')}
        got += [int(message.body) for message in messages]
        await stage.ack(group, claim)
    return sorted(got)


async def test_redrive_in_batches_exactly_once(stage: Stage) -> None:
    group = await _dead(stage, 10)
    counts: list[int] = []
    while (redriven := await stage.store.redrive(group, Letters(), 4, stage.now)).count:
        counts.append(redriven.count)
        assert len(redriven.timers) == redriven.count
        # At any moment a letter is in one place.
        assert stage.count("dead") + stage.count("retry") == 10
    assert counts == [4, 4, 2]
    assert await _redriven(stage, group) == list(range(10))
    assert await _redriven(stage, group) == []
    assert await _bodies(stage, group) == []
    state = await stage.group_state(group)
    assert (state.acked, state.dead, state.letters, sum(state.retries)) == (10, 10, 0, 0)
    assert (await stage.store.read(catalogue.lags, [group.id]))[group.id] == (0, 0)


async def test_redrive_and_purge_by_ids_and_by_time(stage: Stage) -> None:
    group = await _dead(stage, 6)
    letters = {int(letter.message.body): letter for letter in await stage.store.read(dead_letters_of, group, 0, 10)}
    some = tuple(letters[n].message.id for n in (1, 4))
    assert await stage.store.read(redriving.count, group, Letters(ids=(*some, 5))) == 2
    assert (await stage.store.redrive(group, Letters(ids=(*some, 5)), 100, stage.now)).count == 2
    assert (await stage.store.redrive(group, Letters(ids=some), 100, stage.now)).count == 0
    assert (await stage.store.redrive(group, Letters(ids=()), 100, stage.now)).count == 0
    assert await _bodies(stage, group) == [0, 2, 3, 5]
    between = Letters(letters[2].dead_at, letters[5].dead_at)
    assert await stage.store.read(redriving.count, group, between) == 2
    assert (await stage.store.write(redriving.purge, group, between, 100)).count == 2
    early = Letters(0, letters[0].dead_at, (letters[5].message.id,))
    assert (await stage.store.write(redriving.purge, group, early, 100)).count == 0
    assert await _bodies(stage, group) == [0, 5]
    assert (await stage.store.write(redriving.purge, group, Letters(), 1)).count == 1
    assert await _bodies(stage, group) == [5]
    assert (await stage.group_state(group)).letters == 1
    assert await _redriven(stage, group) == [1, 4]


SOUGHT = [
    (Letters(key="a"), [0, 3]),
    (Letters(tag="t"), [0, 1]),
    (Letters(reason="no route"), [0, 1]),
    (Letters(reason="no*"), [0, 1, 2]),
    (Letters(reason="No route"), []),
    (Letters(reason="*"), [0, 1, 2, 3]),
    (Letters(reason="*route"), []),
    (Letters(reason="no route", key="a", tag="t"), [0]),
    (Letters(reason="no*", since=START + 2), [2]),
    (Letters(reason="no*", until=START + 2), [0, 1]),
    (Letters(key="a", tag="u"), []),
]


async def test_letters_are_sought_by_what_they_say(stage: Stage, topic: Topic) -> None:
    """Page by page, several of one millisecond among them; and among those that are named."""
    group = await stage.group(topic, ladder=Ladder(()))
    ids: list[int] = []
    for key, tag, reason, dead_at in (("a", "t", "no route", 1), ("b", "t", "no route", 1), ("b", None, "no", 2)):
        ids += ids_of(await stage.publish(stage.draft(topic, key=key, tag=tag)))
        stage.now = START + dead_at
        await stage.fail(group, await stage.claim(group), reason=reason)
    ids += ids_of(await stage.publish(stage.draft(topic, key="a")))
    stage.now = START + 3
    await stage.fail(group, await stage.claim(group), reason=None)
    for (letters, fitting), size in itertools.product(SOUGHT, (1, 3, 100)):
        named = attrs.evolve(letters, ids=(*ids[1:], 7))
        for sought, expected in ((letters, fitting), (named, [number for number in fitting if number])):
            found: list[int] = []
            ahead: Letters | None = sought
            while ahead is not None:
                looked = await stage.store.read(redriving.fitting, group, ahead, size)
                found += [id_ for _, id_ in looked.places]
                ahead = looked.ahead
            assert sorted(ids.index(id_) for id_ in found) == expected, (sought, size)


async def test_one_redriven_may_die_again(stage: Stage) -> None:
    group = await _dead(stage, 1)
    for again in range(3):
        assert (await stage.store.redrive(group, Letters(), 10, stage.now)).count == 1
        await stage.fall_due()
        await stage.fail(group, await stage.claim(group), reason=f"again {again}")
        (letter,) = await stage.store.read(dead_letters_of, group, 0, 10)
        assert [entry.reason for entry in since_redrive(letter.history)] == [f"again {again}"]
        assert letter.message.attempt == 1
    assert (await stage.group_state(group)).letters == 1


async def test_one_that_retention_took_from_the_stream_comes_back_whole(stage: Stage) -> None:
    group = await _dead(stage, 2)
    before = stage.tables.rows("SELECT queue_id, `offset`, id, body, `key`, accepted_at FROM message ORDER BY id")
    stage.tables.rows("DELETE FROM message")
    assert (await stage.store.redrive(group, Letters(), 10, stage.now)).count == 2
    after = stage.tables.rows("SELECT queue_id, `offset`, id, body, `key`, accepted_at FROM message ORDER BY id")
    assert after == before
    assert await _redriven(stage, group) == [0, 1]


@pytest.mark.parametrize(("astray", "queue"), [("queue_id = 0", -1), ("queue_id = 999", -1), ("`offset` = -4", 1)])
async def test_one_that_is_astray_is_listed_and_left_and_the_others_go(stage: Stage, astray: str, queue: int) -> None:
    group = await _dead(stage, 3)
    letters = await stage.store.read(dead_letters_of, group, 0, 10)
    ids = tuple(letter.message.id for letter in letters)
    stage.tables.rows(f"UPDATE dead SET {astray} WHERE id = {ids[1]}")
    listed = await stage.store.read(dead_letters_of, group, 0, 10)
    assert [letter.message.id for letter in listed] == list(ids)
    assert [letter.message.queue for letter in listed] == [0, queue, 0]
    for wish in (Letters(), Letters(ids=ids)):
        would = await stage.store.read(redriving.would_redrive, group, wish, stage.now)
        assert (would.count, would.expired, would.astray) == (2, 0, 1)
    some = await stage.store.redrive(group, Letters(ids=ids[1:]), 10, stage.now)
    assert (some.count, some.astray, len(some.timers)) == (1, 1, 1)
    rest = await stage.store.redrive(group, Letters(), 10, stage.now)
    assert (rest.count, rest.astray, len(rest.timers)) == (1, 1, 1)
    assert stage.column("SELECT id FROM dead") == [ids[1]]
    assert await _redriven(stage, group) == [int(letters[0].message.body), int(letters[2].message.body)]
    assert (await stage.store.write(redriving.purge, group, Letters(), 10)).count == 1


async def test_other_groups_letters_are_left_alone(stage: Stage) -> None:
    group = await _dead(stage, 2)
    other = await stage.group(group.topic, "shipping", ladder=Ladder(()))
    await _exhaust(stage, other)
    assert (await stage.store.redrive(group, Letters(), 10, stage.now)).count == 2
    assert len(await stage.store.read(dead_letters_of, other, 0, 10)) == 2
    assert (await stage.store.write(redriving.purge, group, Letters(), 10)).count == 0
    await stage.fall_due()
    assert await stage.claim_some(other) is None


async def test_search(stage: Stage) -> None:
    group = await _dead(stage, 9)
    letters = {int(letter.message.body): letter for letter in await stage.store.read(dead_letters_of, group, 0, 10)}

    async def found(search: DeadSearch, limit: int = 100) -> list[int]:
        got: list[int] = []
        after: int | None = 0
        while after is not None:
            page = await stage.store.read(dead_letters.find, group, search, after, limit)
            got += [int(letter.message.body) for letter in page.letters]
            after = page.after
        return sorted(got)

    for limit in (2, 100):
        assert await found(DeadSearch(), limit) == list(range(9))
        assert await found(DeadSearch(key="k1"), limit) == [1, 4, 7]
        assert await found(DeadSearch(reason="ink in 3"), limit) == [3]
        assert await found(DeadSearch(reason="NO INK"), limit) == list(range(9))
        assert await found(DeadSearch(key="k0", since=letters[2].dead_at, until=letters[6].dead_at), limit) == [3]
    assert await found(DeadSearch(key="nobody")) == []


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_whatever_an_operator_does_every_letter_is_there_once(stage: Stage, seed: int) -> None:
    """I7: acked, or a dead letter, or on the ladder, or purged; and the letters are whole."""
    dice = random.Random(seed)
    topic = await stage.topic(queues=2)
    group = await stage.group(topic, ladder=Ladder((SECOND,)))
    receipts = await stage.publish(*(stage.draft(topic, b"%d" % i, queue=i % 2) for i in range(30)))
    acked: set[int] = set()
    purged: set[int] = set()
    for _ in range(60):
        letters = await stage.store.read(dead_letters_of, group, 0, 100)
        some = tuple(letter.message.id for letter in letters if dice.random() < 0.5)
        match dice.randrange(5):
            case 0:
                chosen = Letters(ids=some) if dice.random() < 0.5 else Letters(until=stage.now)
                redriven = await stage.store.redrive(group, chosen, 3, stage.now)
                assert redriven.count == len(some) or chosen.ids is None
            case 1 if dice.random() < 0.3:
                gone = Letters(ids=some[:2])
                assert (await stage.store.write(redriving.purge, group, gone, 100)).count == len(some[:2])
                purged |= set(some[:2])
            case _:
                found = await stage.claim_some(group, dice.randrange(1, 8))
                for claim in () if found is None else found.ranges:
                    good = tuple(place for place in claim.places.values() if dice.random() < 0.2)
                    acked |= {message.id for message in claim.messages if claim.places[message.id] in good}
                    if good:
                        await stage.ack(group, claim, good)
                    if len(good) < claim.size:
                        await stage.fail(group, claim, reason="no")
        await stage.fall_due(after=SECOND)
    letters = await stage.store.read(dead_letters_of, group, 0, 100)
    dead = [letter.message.id for letter in letters]
    waiting = stage.column("SELECT message_id FROM retry")
    coming = stage.column(
        "SELECT r.message_id FROM redelivery r JOIN `cursor` c ON c.queue_id = r.queue_id AND r.`offset` >= c.position"
    ) + stage.column(
        "SELECT m.id FROM message m JOIN `cursor` c ON c.queue_id = m.queue_id AND m.`offset` >= c.position"
    )
    places = [*acked, *purged, *dead, *waiting, *coming]
    assert sorted(places) == sorted(ids_of(receipts))
    assert all(letter.message.body == b"%d" % ids_of(receipts).index(letter.message.id) for letter in letters)
    assert all(len(since_redrive(letter.history)) == 2 for letter in letters)
    assert (await stage.group_state(group)).letters == len(dead)


@pytest.mark.slow
@pytest.mark.parametrize("search", [DeadSearch(), DeadSearch(reason="no")])
async def test_a_page_ends_at_its_bytes(stage: Stage, search: DeadSearch, topic: Topic) -> None:
    """At 8 MiB. The order of the letters is by chance."""
    group = await stage.group(topic, ladder=Ladder(()))
    sizes = [3 << 20, 3 << 20, 3 << 20, 3 << 20, 7 << 20, 1, 1]
    for size in sizes:
        await stage.publish(stage.draft(topic, bytes(size)))
        await stage.fail(group, await stage.claim(group), reason="no")
    pages: list[list[int]] = []
    after: int | None = 0
    while after is not None:
        page = await stage.store.read(dead_letters.find, group, search, after, 100)
        pages.append([len(letter.message.body) for letter in page.letters])
        after = page.after
    assert sorted(size for page in pages for size in page) == sorted(sizes)
    assert all(sum(page) <= 8 << 20 for page in pages)
    assert 2 < len(pages) < len(sizes)

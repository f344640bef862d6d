"""What falls due of an ordered topic goes to the stream in the order of its time, whoever brings which part of it."""

import random
from typing import Any

import pytest

from support.store_homes import on_servers
from support.stores import HOUR, MINUTE, SECOND, Stage, ids_of, uncommitted
from tarry.store.ids import SHARDS, IdMaker, due_of, shard_of
from tarry.store.records import Draft, Promoted, Topic
from tarry.store.store import Store
from tarry.store.timers import timers
from tarry.store.timers.keyed import Wish
from tarry.store.timers.order import Orders, looked_back

KEYS = pytest.mark.parametrize("key", ["account-7", None], ids=["keyed", "keyless"])


async def streamed(stage: Stage) -> list[int]:
    """The bodies, as numbers, in order."""
    return [int(body) for body in stage.column("SELECT body FROM message ORDER BY queue_id, `offset`")]


async def waits(stage: Stage, topic: Topic, *delays: int, **rest: Any) -> list[int]:
    """Messages with these delays, each published by itself; their bodies are 0, 1, 2, ..."""
    ids: list[int] = []
    for number, delay in enumerate(delays):
        ids += ids_of(await stage.publish(stage.draft(topic, b"%d" % number, delay, **rest)))
    return ids


async def free(stage: Stage, *entries: int) -> tuple[list[Promoted], dict[int, list[int]]]:
    return (await stage.store.promote_some(entries, stage.now, whole=True))[:2]


def row_of(id_: int) -> str:
    return f"SELECT 1 FROM delay WHERE shard = {shard_of(id_)} AND id = {id_} FOR UPDATE"


@KEYS
async def test_what_is_earlier_goes_along(stage: Stage, key: str | None) -> None:
    """Another server has it, and is late."""
    topic = await stage.topic(ordered=True)
    ids = await waits(stage, topic, 1000, 1500, 1500, 2000, 2001, ordering_key=key)
    stage.now += 3 * SECOND
    promoted, held = await free(stage, ids[3])
    assert sorted(one.entry for one in promoted) == sorted(ids[:4])
    assert held == {}
    assert await streamed(stage) == [0, 1, 2, 3]
    assert len(await stage.promote(*ids)) == 1
    assert await streamed(stage) == [0, 1, 2, 3, 4]


@KEYS
async def test_what_was_moved_goes_along(stage: Stage, key: str | None) -> None:
    topic = await stage.topic(ordered=True)
    ids = await waits(stage, topic, HOUR, 1000, 30 * MINUTE, ordering_key=key)
    await stage.store.write(timers.reschedule, [(ids[0], stage.now + 900), (ids[2], stage.now + 999)], stage.now)
    stage.now += SECOND
    promoted, _ = await free(stage, ids[1])
    assert sorted(one.entry for one in promoted) == sorted(ids)
    assert await streamed(stage) == [0, 2, 1]
    assert stage.count("moved") == 0


async def test_what_somebody_has_given_another_time_goes_along(stage: Stage) -> None:
    """By SQL, so that it lies where its id says and not where its time does."""
    topic = await stage.topic(ordered=True)
    ids = await waits(stage, topic, 1000, 1001, ordering_key="k")
    stage.tables.rows(f"UPDATE delay SET due = due - 1 WHERE id = {ids[0]}")
    stage.now += 2 * SECOND
    await free(stage, ids[1])
    assert await streamed(stage) == [0, 1]


async def test_what_is_set_aside_is_passed_over(stage: Stage) -> None:
    topic = await stage.topic(ordered=True)
    ids = await waits(stage, topic, 1000, 1001, ordering_key="k")
    stage.store.orders = Orders(aside={ids[0]})
    stage.now += 2 * SECOND
    assert {one.entry for one in (await free(stage, ids[1]))[0]} == {ids[1]}
    assert {one.entry for one in (await free(stage, ids[0]))[0]} == {ids[0]}, "it goes when it is tried again"


async def test_what_is_of_another_order_stays(stage: Stage) -> None:
    ordered, plain = await stage.topic("ordered", ordered=True), await stage.topic("plain")
    await waits(stage, ordered, 100, ordering_key="account-8")
    await waits(stage, ordered, 100)
    await waits(stage, plain, 100, ordering_key="account-7")
    await waits(stage, ordered, 100, ordering_key="account-7", key="a", guard="unpaid")
    (later,) = await waits(stage, plain, 200, ordering_key="account-7")
    (last,) = await waits(stage, ordered, 200, ordering_key="account-7")
    stage.now += SECOND
    assert {one.entry for one in await stage.promote(later)} == {later}
    assert {one.entry for one in await stage.promote(last)} == {last}


async def test_the_few_of_one_millisecond_come_as_they_were_accepted(stage: Stage) -> None:
    """Whatever their ids, and whichever of them are asked for."""
    topic = await stage.topic(ordered=True)
    at, ids = stage.now + MINUTE, list[int]()
    for number in range(12):
        stage.store.ids.anew()  # another server, or a new start
        ids += ids_of(await stage.publish(stage.draft(topic, b"%d" % number, at - stage.now, ordering_key="k")))
        stage.now += 1
    stage.now = at
    for id_ in sorted(ids):
        await free(stage, id_)
    assert await streamed(stage) == list(range(12))


class Last(random.Random):
    """Begins at the end."""

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return start - 1


async def test_those_of_a_request_come_in_its_order(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The count in their ids does not begin at zero in the midst of them."""
    topic = await stage.topic(ordered=True)
    monkeypatch.setattr(random, "Random", Last)
    stage.store.ids = Store(stage.store.backend).ids
    await stage.publish(*(stage.draft(topic, b"%d" % n, SECOND, ordering_key="k") for n in range(50)))
    await stage.fall_due(after=SECOND)
    assert await streamed(stage) == list(range(50))


async def test_very_many_that_are_earlier_go_first_and_a_piece_at_a_time(stage: Stage) -> None:
    topic = await stage.topic(ordered=True)
    drafts = [stage.draft(topic, b"%d" % number, 1000 + number, ordering_key="k") for number in range(1201)]
    ids = ids_of(await stage.publish(*drafts))
    stage.now += MINUTE
    promoted, held = await free(stage, ids[-1])
    assert (len(promoted), held) == (500, {topic.queues[0].id: [ids[-1]]})
    while held:
        promoted, held = await free(stage, ids[-1])
    assert await streamed(stage) == list(range(1201))


async def test_what_was_left_is_looked_for_again_however_early_it_is_due(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first look goes far, and the next need not, for then the wheel knows of them. But what waits for them is not
    in the wheel."""
    monkeypatch.setattr("tarry.store.timers.order._AT_ONCE", 2)
    topic = await stage.topic(ordered=True)
    ids = await waits(stage, topic, *range(SECOND, 6 * SECOND, SECOND), HOUR, ordering_key="k")
    stage.now += HOUR
    stage.store.orders.unseen_from = lambda _shard, _due: 0
    promoted, held = await free(stage, ids[-1])
    assert ([one.entry for one in promoted], list(held.values())) == (ids[:2], [ids[-1:]])
    stage.store.orders.unseen_from = looked_back
    promoted, held = await free(stage, ids[-1])
    assert ([one.entry for one in promoted], list(held.values())) == (ids[2:4], [ids[-1:]])
    assert sorted(one.entry for one in (await free(stage, ids[-1]))[0]) == ids[4:]
    assert await streamed(stage) == [0, 1, 2, 3, 4, 5]


@on_servers
async def test_what_is_behind_something_locked_is_held_back_and_overtakes_it_in_the_end(stage: Stage) -> None:
    topic = await stage.topic(queues=2, ordered=True)
    ids = await waits(stage, topic, 1000, 1001, 1002, ordering_key="k")
    (other,) = await waits(stage, topic, 1001, ordering_key="another")
    stage.now += SECOND * 2
    with uncommitted(stage.dsn, row_of(ids[0])):
        promoted, held = await free(stage, *ids, other)
        assert {one.entry for one in promoted} == {other}
        assert [sorted(those) for those in held.values()] == [ids]
        assert (await stage.store.promote_some(ids, stage.now, None, whole=True))[0] == []
        stage.now += 2_400
        assert (await free(stage, *ids))[0] == []
        stage.now += 100
        promoted, held = await free(stage, *ids)
        assert ([one.entry for one in promoted], held) == (ids[1:], {})
        assert stage.count("delay") == 1
        # What comes behind it later does not wait again.
        (after,) = await waits(stage, topic, 1, ordering_key="k")
        stage.now += SECOND
        assert [one.entry for one in (await free(stage, after))[0]] == [after]
    (late,) = await waits(stage, topic, 1, ordering_key="k")
    stage.now += SECOND
    assert sorted(one.entry for one in (await free(stage, ids[0], late))[0]) == [ids[0], late]


@on_servers
async def test_what_is_in_other_hands_is_waited_for_with_what_comes_behind_it(stage: Stage) -> None:
    """Another server has it and may give it back; the next that is asked for may be far behind it."""
    log, other, orders = (
        await stage.topic("log", ordered=True),
        await stage.topic("o", ordered=True),
        await stage.topic(),
    )
    ids = await waits(stage, log, SECOND, MINUTE, HOUR, ordering_key="k")
    (neighbour,) = await waits(stage, other, HOUR)
    (unordered,) = await waits(stage, orders, SECOND)
    stage.now += HOUR
    with uncommitted(stage.dsn, *(row_of(id_) for id_ in (*ids[:2], unordered))):
        for wait in (False, True):
            promoted, held, *_ = await stage.store.promote_some(
                [*ids[:2], unordered], stage.now, None if wait else (), whole=True
            )
            assert (promoted, list(held.values())) == ([], [ids[:2]])
        promoted, held = await free(stage, *ids, neighbour)
        assert ([one.entry for one in promoted], list(held.values())) == ([neighbour], [ids])
        stage.now += 2_499
        assert (await free(stage, *ids))[0] == []
    assert sorted(one.entry for one in (await free(stage, *ids))[0]) == ids
    assert await streamed(stage) == [0, 1, 2, 0]


@on_servers
async def test_who_was_given_back_is_waited_for_anew(stage: Stage) -> None:
    ids = await waits(stage, await stage.topic(ordered=True), SECOND, SECOND, ordering_key="k")
    stage.now += SECOND
    for _ in range(3):
        with uncommitted(stage.dsn, row_of(ids[0])):
            assert (await free(stage, *ids))[0] == []
        with uncommitted(stage.dsn, "SELECT 1 FROM queue FOR UPDATE"):
            assert (await free(stage, *ids))[0] == [], "the queue is held, and the message is not"
        stage.now += 2_000


@on_servers
async def test_where_the_queue_is_held_nothing_is_looked_for(stage: Stage) -> None:
    topic = await stage.topic(ordered=True)
    ids = await waits(stage, topic, 1000, 1001, ordering_key="k")
    stage.now += SECOND * 2
    with uncommitted(stage.dsn, f"SELECT 1 FROM queue WHERE id = {topic.queues[0].id} FOR UPDATE"):
        assert await free(stage, ids[1]) == ([], {topic.queues[0].id: [ids[1]]})
    assert len((await free(stage, ids[1]))[0]) == 2


async def test_while_a_shard_is_read_what_is_not_read_yet_is_waited_for(stage: Stage) -> None:
    topic, plain = await stage.topic(ordered=True), await stage.topic("plain")
    ids = await waits(stage, topic, 1000, 5000, ordering_key="k")
    (other,) = await waits(stage, plain, 5000)
    read_until = stage.now + 4000
    stage.store.orders = Orders(read_until=lambda _: read_until)
    stage.now += 10 * SECOND
    assert {one.entry for one in (await free(stage, ids[1], other))[0]} == {other}
    assert stage.count("delay") == 2
    read_until += SECOND
    stage.store.orders = Orders(lambda _, due: due - 10 * SECOND, lambda _: read_until)
    assert {one.entry for one in (await free(stage, ids[1]))[0]} == set(ids)


async def test_where_a_rate_holds_back_who_has_the_shard_releases(stage: Stage) -> None:
    topic, other = await stage.topic(ordered=True), await stage.topic("other", ordered=True)
    ids = await waits(stage, topic, 1000, 1001, ordering_key="k")
    (free,) = await waits(stage, other, 1000, ordering_key="k")
    held = {shard_of(ids[0])}
    stage.store.orders = Orders(rated=lambda topic_id: topic_id == topic.id, holds=lambda shard: shard not in held)
    stage.now += SECOND * 2
    assert [one.entry for one in await stage.promote(ids[1])] == []
    assert [one.entry for one in await stage.promote(free)] == [free]
    held.clear()
    assert {one.entry for one in await stage.promote(ids[1])} == set(ids)


async def test_what_an_outbox_wrote_goes_along_and_is_counted(stage: Stage) -> None:
    topic = await stage.topic(ordered=True)
    ids = await waits(stage, topic, 1000, 1001, ordering_key="k")
    stage.tables.rows(f"UPDATE delay SET uncounted = 1 WHERE id = {ids[0]}")
    before = await stage.state(topic)
    stage.now += SECOND * 2
    promoted, _ = await free(stage, ids[1])
    assert {one.entry: one.first_heard for one in promoted} == {ids[0]: True, ids[1]: False}
    await stage.counts(topic, accepted=before.accepted + 1, streamed=2)


async def test_one_order_is_one_shard_whoever_writes_it(stage: Stage) -> None:
    topic = await stage.topic(queues=3, ordered=True)
    plain = await stage.topic("plain")
    shards: dict[tuple[int, str | None], set[int]] = {}

    def note(draft: Draft, id_: int) -> None:
        shards.setdefault((draft.queue.id, draft.ordering_key), set()).add(shard_of(id_))

    for number in range(30):
        draft = stage.draft(topic, delay=SECOND, queue=number % 3, ordering_key="k" if number % 2 else None)
        (receipt,) = await stage.publish(draft)
        note(draft, receipt.id)
        named = stage.draft(topic, delay=SECOND, queue=number % 3, ordering_key=draft.ordering_key, key=f"{number}")
        (answer,) = await stage.store.set_timers([Wish(topic, f"{number}", named)], stage.now)
        note(named, answer.id)
    assert {len(some) for some in shards.values()} == {1}
    assert len({shard_of(id_) for id_ in await waits(stage, plain, *range(1000, 1050))}) > SHARDS / 4


class Second(IdMaker):
    """It begins where another has begun, and when it has to begin anew elsewhere."""

    def __init__(self, elsewhere: random.Random) -> None:
        super().__init__(Last(), climbing=True)
        self._elsewhere = elsewhere

    def anew(self) -> None:
        self._random = self._elsewhere
        super().anew()


async def test_an_id_that_is_taken_puts_nobody_behind_others(stage: Stage) -> None:
    """Another writer had the same count: a new id is of the same millisecond."""
    topic = await stage.topic(ordered=True)
    dice = random.Random(1)
    stage.store.ids = Second(dice)
    (first,) = await waits(stage, topic, SECOND, ordering_key="k")
    for _ in range(20):
        stage.store.ids = Second(dice)
        drafts = [stage.draft(topic, b"%d" % number, SECOND + number, ordering_key="k") for number in range(5)]
        receipts = await stage.publish(*drafts)
        assert first not in ids_of(receipts)
        assert [due_of(one.id) for one in receipts] == [draft.deliver_at for draft in drafts]

"""What is read of a stretch of time comes in the order of its time, whole, whatever shards and tables it lies in."""

import random

import pytest

from tarry.service.engine.dispatch.pages import Pages
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.ids import SHARDS, shard_of
from tarry.store.records import ClaimRequest, Draft, Publication, Settlement, Topic
from tarry.store.store import Store
from tarry.store.timers import timers

NOW = 1_795_000_000_000


async def fill(store: Store, topic: Topic, dice: random.Random, span: int) -> dict[int, int]:
    """Due times by entry: messages, some of which are moved, and retries."""
    drafts = tuple(
        Draft(topic=topic, queue=topic.queues[0], body=b"1", deliver_at=NOW + dice.randrange(1, span))
        for _ in range(150)
    )
    (receipts,) = await store.publish([Publication(drafts)], NOW)
    assert isinstance(receipts, list)
    dues = {one.id: one.due for one in receipts}
    moves = [(id_, NOW + dice.randrange(1, span)) for id_ in dice.sample(sorted(dues), 60)]
    for move, verdict in zip(moves, await store.write(timers.reschedule, moves, NOW), strict=True):
        assert verdict.due is not None
        dues[move[0]] = verdict.due
    group = await store.add_group(topic, "billing", NOW)
    await store.publish(
        [Publication(tuple(Draft(topic=topic, queue=topic.queues[0], body=b"1") for _ in range(50)))], NOW
    )
    turn = await store.turn(group, [], [ClaimRequest("c", 50, 10_000)], NOW)
    assert turn.claims[0] is not None
    for place in range(50):
        fails = Settlement(turn.claims[0].key, "fail", (place,), retry_after=dice.randrange(1, span))
        (settled,) = (await store.turn(group, [fails], [], NOW)).settled
        assert settled is not None
        dues |= {entry: due for due, entry in settled.timers}
    return dues


@pytest.mark.parametrize("span", [40, 3_000, 600_000])
@pytest.mark.parametrize("first", [1, 3, 500])
async def test_all_of_it_in_order(store: Store, first: int, span: int) -> None:
    dice = random.Random(span * first)
    topic = await store.write(catalogue.add_topic, TopicDraft("orders"), NOW)
    dues = await fill(store, topic, dice, span)
    since, until = NOW + span // 10, NOW + span - span // 10
    shards = frozenset(dice.sample(range(SHARDS), 11))
    pages = Pages(store, shards, since, until)
    given: list[tuple[int, int]] = []
    before = pages.upto
    while (some := await pages.more(7 if pages.begun else first)) is not None:
        page = [one for run in some for one in zip(*run, strict=True)]
        assert all(list(dues) == sorted(dues) for dues, _ in some)
        assert all(before <= due <= pages.upto for due, _ in page)
        given += page
        before = pages.upto
    assert pages.upto == until
    wanted = {entry: due for entry, due in dues.items() if since <= due < until and shard_of(entry) in shards}
    assert len(given) == len(wanted)
    assert {entry: due for due, entry in given} == wanted


async def test_nothing_to_read(store: Store) -> None:
    assert await Pages(store, [], 0, NOW).more(10) is None
    assert await Pages(store, [3], NOW, NOW).more(10) is None
    pages = Pages(store, [3], 0, NOW)
    assert [await pages.more(10) for _ in range(4)] == [[], [], [], None]

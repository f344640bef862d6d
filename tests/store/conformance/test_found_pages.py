"""What a page of found messages costs: a bounded number of statements whatever its size, and 8 MiB of bodies."""

from collections.abc import Sequence

import pytest

from support.counting import counted
from support.stores import HOUR, MINUTE, Stage, ids_of
from tarry.store.looking import finding, found_pages, standings, tracing
from tarry.store.looking.finding import PageStart, Wanted
from tarry.store.looking.found_pages import FoundPage
from tarry.store.ports import Transaction
from tarry.store.records import Found, Topic
from tarry.store.states import FINDABLE, Findable
from tarry.wheel.ladder import Ladder

MANY = 240
MOST = 32 + 20
"""Statements of a page: a read of each shard, or of every queue and group, and then so many for all their lives."""


async def in_state(stage: Stage, state: Findable) -> Topic:
    """A topic with `MANY` messages in that state, in two groups where it is a state of groups."""
    ordered = state == "parked"
    rungs = () if state == "dead" else (MINUTE,)
    topic = await stage.topic(ladder=Ladder(rungs), queues=2, ordered=ordered)
    groups = [await stage.group(topic, name) for name in ("audit", "billing")]
    later = None if state not in ("scheduled", "cancelled", "suppressed") else HOUR
    guard = {"guard": "unpaid"} if state == "suppressed" else {}
    content = {"key": "k"} | guard | ({"ordering_key": "a"} if ordered else {})
    many = MANY + 2 * ordered  # the first of each queue is on the ladder, those behind it are parked
    receipts = await stage.publish(*(stage.draft(topic, b"%d" % i, later, queue=i % 2, **content) for i in range(many)))
    if state == "cancelled":
        await stage.store.cancel(ids_of(receipts), stage.now)
    if state == "suppressed":
        stage.now += 2 * HOUR
        await stage.store.promote_guarded(dict.fromkeys(ids_of(receipts), False), stage.now, lambda: True)
    for group in groups:
        while state in ("claimed", "retrying", "parked", "dead"):
            # Every message has been in a claim of its own before, so that each has a life.
            claim = await stage.claim_some(group, many if ordered else 8)
            if claim is None:
                break
            if state != "claimed":
                await stage.fail(group, claim)
    return topic


async def all_pages(stage: Stage, topic: Topic, state: Findable, limit: int) -> list[FoundPage[PageStart]]:
    pages: list[FoundPage[PageStart]] = []
    place: PageStart | None = PageStart()
    while place is not None:
        pages.append(await stage.store.read(found_pages.find, topic, Wanted(state), place, limit))
        place = pages[-1].after
    return pages


async def one_by_one(tx: Transaction, ids: Sequence[int]) -> list[Found | None]:
    return [await tracing.find_message(tx, id_) for id_ in ids]


@pytest.mark.parametrize("state", FINDABLE)
@pytest.mark.cases(5)
async def test_statements_and_bytes_of_a_page(stage: Stage, state: Findable, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await in_state(stage, state)
    async with counted(stage.store) as count:
        page = await stage.store.read(found_pages.find, topic, Wanted(state), PageStart(), 1000)
    assert len(page.messages) == MANY
    assert all(one.is_(state) and one.life for one in page.messages)
    assert len(count.statements) <= MOST, count.statements
    # Found one by one, they are the same.
    assert list(page.messages) == await stage.store.read(one_by_one, [one.id for one in page.messages])
    monkeypatch.setattr(found_pages, "BYTES", 100)
    monkeypatch.setattr(found_pages, "_WEIGHED", (7, 30, 1000))
    pages = await all_pages(stage, topic, state, 1000)
    got = [one.id for page in pages for one in page.messages]
    assert len(set(got)) == MANY
    bodies = [sum(len(one.body or b"") for one in page.messages) for page in pages]
    assert max(bodies) <= 100
    if state == "dead":  # why attempts failed counts, too
        assert len(pages) > 60
    elif state not in ("cancelled", "suppressed"):  # of which no body is left
        assert len(pages) > 5


async def test_statements_of_a_key(stage: Stage) -> None:
    topic = await in_state(stage, "retrying")
    async with counted(stage.store) as count:
        page = await stage.store.read(found_pages.find_labelled, topic, "k", 0, 1000)
    assert (len(page.messages), page.after) == (MANY, None)
    assert len(count.statements) <= MOST, count.statements


async def test_letters_that_outlive_their_messages(stage: Stage) -> None:
    topic = await in_state(stage, "dead")
    stage.tables.rows("DELETE FROM message")
    async with counted(stage.store) as count:
        page = await stage.store.read(found_pages.find, topic, Wanted("dead"), PageStart(), 1000)
    assert len(page.messages) == MANY
    assert [event.group for event in page.messages[0].life] == [None, "audit", "billing"]
    assert len(count.statements) <= MOST, count.statements


async def test_eight_mebibytes(stage: Stage, topic: Topic) -> None:
    body = b"x" * (256 << 10)
    for _ in range(3):
        await stage.publish(*(stage.draft(topic, body, key="k", content_type="x/y") for _ in range(20)))
    assert [len(page.messages) for page in await all_pages(stage, topic, "published", 1000)] == [32, 28]
    first = await stage.store.read(found_pages.find_labelled, topic, "k", 0, 1000)
    assert first.after is not None
    second = await stage.store.read(found_pages.find_labelled, topic, "k", first.after.after, 1000)
    assert (len(first.messages), len(second.messages), second.after) == (32, 28, None)


async def test_a_body_beyond_the_limit_comes_alone(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found_pages, "BYTES", 10)
    topic = await stage.topic()
    await stage.publish(*(stage.draft(topic, b"x" * 11) for _ in range(3)))
    assert [len(page.messages) for page in await all_pages(stage, topic, "published", 1000)] == [1, 1, 1]


async def test_a_page_ends_where_lives_are_long(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each group may have had each message in hand."""
    monkeypatch.setattr(found_pages, "_LOOKS", 100)
    topic = await in_state(stage, "claimed")  # two groups
    pages = await all_pages(stage, topic, "claimed", 1000)
    assert max(len(page.messages) for page in pages) == 50
    assert len({one.id for page in pages for one in page.messages}) == MANY


async def test_many_queues_with_a_message_each(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages cross queues, and look into a bounded number of them."""
    monkeypatch.setattr(finding, "_QUEUES", 5)
    monkeypatch.setattr(finding, "_TIMED_QUEUES", 3)
    topic = await stage.topic(queues=12)
    ids = ids_of(await stage.publish(*(stage.draft(topic, queue=i) for i in range(0, 12, 2))))
    assert [len(page.messages) for page in await all_pages(stage, topic, "published", 4)] == [4, 2]
    assert [len(page.messages) for page in await all_pages(stage, topic, "published", 100)] == [5, 1]
    page = await stage.store.read(found_pages.find, topic, Wanted("published", stage.now), PageStart(), 100)
    assert [one.id for one in page.messages] == ids[:3]


@pytest.mark.slow
@pytest.mark.cases(1)
async def test_spans_of_many_claims(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search in the middle of claims goes on in the middle of them."""
    monkeypatch.setattr(standings, "_ROWS", 3)
    topic = await in_state(stage, "claimed")
    for limit in (1, 5, 7, 1000):
        pages = await all_pages(stage, topic, "claimed", limit)
        assert len({one.id for page in pages for one in page.messages}) == MANY

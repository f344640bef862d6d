"""A group that is made while messages are taken away for their age: it begins behind those that go, or they stay."""

from collections.abc import Awaitable, Callable

import pytest
import trio
from attrs import define

from support.interrupted import InterruptedStore
from support.stores import HOUR, START
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.cleaning import retention
from tarry.store.cleaning.retention import Limits
from tarry.store.ports import Backend
from tarry.store.records import ClaimRequest, Draft, Publication, Settlement, Topic
from tarry.store.store import Store

DAY = 24 * HOUR
MOST = 30
"""Statements at most, of either."""
LATER = START + 8 * DAY
LIMITS = Limits(retention=7 * DAY, hard=28 * DAY, history=7 * DAY, dead=7 * DAY)


@define
class Work:
    """What is done to a topic of which ten messages are old, and one is not."""

    topic: Topic

    async def clean(self, store: Store) -> None:
        (queue,) = self.topic.queues
        place = {"topic": self.topic, "queue": queue, "limits": LIMITS, "now": LATER, "start": 0, "limit": 100}
        await store.write(retention.clean_messages, **place)  # type: ignore[arg-type]

    async def add_group(self, store: Store) -> None:
        await store.add_group(self.topic, "billing", LATER)


@pytest.mark.parametrize(
    ("work", "meanwhile"), [(Work.clean, Work.add_group), (Work.add_group, Work.clean)], ids=["cleaning", "making"]
)
@pytest.mark.cases(2)
async def test_nothing_expires_for_a_group_that_never_had_it(
    backend: Backend,
    work: Callable[[Work, Store], Awaitable[None]],
    meanwhile: Callable[[Work, Store], Awaitable[None]],
) -> None:
    plain = Store(backend)
    for behind in range(1, MOST):
        for known in await plain.read(catalogue.topics):
            await plain.remove_topic(known, LATER, force=True)
        topic = await plain.write(catalogue.add_topic, TopicDraft("orders"), START)
        other = await plain.add_group(topic, "other", START)
        draft = Draft(topic=topic, queue=topic.queues[0], body=b"a")
        await plain.publish([Publication((draft,) * 10)], START)
        await plain.publish([Publication((draft,))], LATER)
        turn = await plain.turn(other, [], [ClaimRequest("ann", 11, 60_000)], LATER)
        assert turn.claims[0] is not None
        await plain.turn(other, [Settlement(turn.claims[0].key, "ack")], [], LATER)
        of = Work(topic)
        async with trio.open_nursery() as nursery:
            store = InterruptedStore(backend, nursery=nursery, behind=behind)
            store.meanwhile = lambda of=of: meanwhile(of, plain)
            await work(of, store)
        if store.statements < behind:
            break
        (billing,) = [group for group in await plain.groups([topic]) if group.name == "billing"]
        turn = await plain.turn(billing, [], [ClaimRequest("bob", 20, 60_000)], LATER)
        state = await plain.read(catalogue.group_state, billing)
        assert (state.expired, state.claimed in (1, 11)) == (0, True), behind
    else:
        raise AssertionError("there are more statements than were tried")

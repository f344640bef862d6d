"""Two who set one topic at the same moment, at two servers, each another field: both have what they asked for."""

from functools import partial

import pytest
import trio
from attrs import define

from support.engine import signals_over
from support.interrupted import InterruptedStore
from tarry.service.clock import Clock
from tarry.service.engine.state.directory import Directory
from tarry.service.engine.topics.catalogue import Catalogue
from tarry.service.errors import TopicConflict
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.ports import Backend
from tarry.store.records import Topic
from tarry.store.store import Store
from tarry.wheel.ladder import Ladder

MOST = 30
"""Statements of a change at most."""


@define
class Server:
    """What a server keeps of topics, and how it sets them."""

    store: Store
    directory: Directory
    catalogue: Catalogue

    @classmethod
    async def over(cls, store: Store) -> "Server":
        clock = Clock(store.backend.now)
        await clock.take()
        directory = Directory(store, clock, auto_create=True)
        await directory.refresh()
        return cls(store, directory, Catalogue(store, directory, signals_over(directory, clock)))

    async def put(self, draft: TopicDraft, *named: str) -> None:
        await self.catalogue.put_topic(draft, set(named))

    async def topic(self) -> Topic:
        return (await self.store.read(catalogue.find_topics, ["orders"]))[0]


@pytest.mark.parametrize("there", [True, False])
async def test_each_keeps_its_fields(backend: Backend, *, there: bool) -> None:
    draft = TopicDraft("orders", retention=5, queues=3)
    for behind in range(1, MOST):
        plain = Store(backend)
        for topic in await plain.read(catalogue.topics):
            await plain.remove_topic(topic, 1, force=True)
        if there:
            await plain.write(catalogue.add_topic, TopicDraft("orders"), 1)
        async with trio.open_nursery() as nursery:
            store = InterruptedStore(backend, nursery=nursery)
            here, elsewhere = await Server.over(store), await Server.over(plain)
            store.behind = store.statements + behind
            store.meanwhile = partial(elsewhere.put, TopicDraft("orders", max_rate=7), "max_rate")
            await here.put(draft, "retention", "queues")
        if store.statements < store.behind:
            break
        found = await elsewhere.topic()
        assert (found.retention, len(found.queues), found.max_rate) == (5, 3, 7), behind
    else:
        raise AssertionError("a change has more statements than were tried")


async def test_who_wants_another_kind_hears_it_although_this_server_knew_of_no_topic(backend: Backend) -> None:
    here, elsewhere = await Server.over(Store(backend)), await Server.over(Store(backend))
    await elsewhere.put(TopicDraft("orders", ordered=True, queues=2), "kind")
    with pytest.raises(TopicConflict, match="ordered and has 2 queues for good"):
        await here.catalogue.put_topic(TopicDraft("orders", queues=3), {"queues"})
    assert len((await here.topic()).queues) == 2


async def test_jitter_and_rungs_are_two_fields(backend: Backend) -> None:
    here, elsewhere = await Server.over(Store(backend)), await Server.over(Store(backend))
    await here.put(TopicDraft("orders"), "kind")
    await here.put(TopicDraft("orders", ladder=Ladder((5, 6))), "ladder")
    await elsewhere.put(TopicDraft("orders", ladder=Ladder((1,), 0.5)), "jitter")
    assert (await here.topic()).ladder == Ladder((5, 6), 0.5)
    await here.put(TopicDraft("orders", ladder=Ladder((7,))), "ladder")
    assert (await here.topic()).ladder == Ladder((7,), 0.5)

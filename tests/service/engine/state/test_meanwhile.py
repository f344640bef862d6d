"""What the directory has read while another server changed it: behind any of the statements, each look must leave it
with topics and groups that messages can be claimed from, and no older than what was known before."""

from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
from attrs import define, field

from support.interrupted import InterruptedStore
from tarry.service.clock import Clock
from tarry.service.engine.state.directory import Directory
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.cleaning import removal
from tarry.store.errors import GroupGone, TopicGone
from tarry.store.ports import Backend
from tarry.store.records import ClaimRequest, Draft, Group, Publication, Topic
from tarry.store.store import Store

NOW = 1_700_000_000_000
MOST = 40
"""Statements of a look at most."""


@define
class Other:
    """Another server on the same database."""

    store: Store

    async def make(self, queues: int = 1) -> Topic:
        return await self.store.write(catalogue.add_topic, TopicDraft("orders", queues=queues), NOW)

    async def topic(self) -> Topic:
        return (await self.store.read(catalogue.find_topics, ["orders"]))[0]

    async def grow(self) -> None:
        await self.make(3)

    async def remove(self) -> None:
        await self.store.remove_topic(await self.topic(), NOW, force=True)

    async def make_again(self) -> None:
        await self.remove()
        await self.make(2)

    async def add_group(self) -> None:
        await self.store.add_group(await self.topic(), "billing", NOW)

    async def grow_and_add_group(self) -> None:
        await self.grow()
        await self.add_group()

    async def add_group_and_grow(self) -> None:
        await self.add_group()
        await self.grow()

    async def remove_group(self) -> None:
        for group in await self.store.groups([await self.topic()]):
            await self.store.write(removal.remove_group, group, NOW)

    async def make_group_again(self) -> None:
        await self.remove_group()
        await self.add_group()

    async def empty(self) -> None:
        for topic in await self.store.read(catalogue.topics):
            await self.store.remove_topic(topic, NOW, force=True)


CHANGES: list[Callable[[Other], Awaitable[None]]] = [
    Other.grow,
    Other.remove,
    Other.make_again,
    Other.add_group,
    Other.grow_and_add_group,
    Other.add_group_and_grow,
    Other.remove_group,
    Other.make_group_again,
]


async def refresh(directory: Directory) -> None:
    await directory.refresh()


async def read_topic(directory: Directory) -> None:
    await directory.read_topic("orders")


async def find_group(directory: Directory) -> None:
    try:
        await directory.group(await directory.topic("orders"), "billing")
    except TopicGone:
        """It has been removed: there is nothing to find."""


LOOKS = [refresh, read_topic, find_group]


@define
class Consumer:
    """Publishes to all that a directory knows, and claims it: every group has all that was published since its topic
    was made, and none of it has expired."""

    store: Store
    published: Counter[int] = field(factory=Counter[int], init=False)
    """By topic id."""

    async def claim_all(self, directory: Directory) -> None:
        for topic in directory.some(10):
            assert topic.queues, "a topic without queues takes no message"
            try:
                await self.store.publish(
                    [Publication(tuple(Draft(topic=topic, queue=one, body=b"a") for one in topic.queues))], NOW
                )
            except TopicGone:
                continue
            self.published[topic.id] += len(topic.queues)
            for group in directory.groups_of(topic):
                await self._claim_all_of(group)

    async def _claim_all_of(self, group: Group) -> None:
        try:
            await self.store.turn(group, [], [ClaimRequest("ann", 100, 60_000)], NOW)
            await self.store.turn(group, [], [ClaimRequest("ann", 100, 60_000)], NOW)
            state = await self.store.read(catalogue.group_state, group)
        except GroupGone:
            return
        assert (state.claimed, state.expired) == (self.published[group.topic.id], 0)


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.cases(1)
async def test_a_look_behind_any_statement(backend: Backend, look: Callable[[Directory], Awaitable[None]]) -> None:
    clock = Clock(backend.now)
    await clock.take()
    other = Other(Store(backend))
    for change in CHANGES:
        for known in (False, True):
            for behind in range(1, MOST):
                await other.empty()
                await other.make()
                if known or change in (Other.remove_group, Other.make_group_again):
                    await other.add_group()
                store = InterruptedStore(backend, meanwhile=partial(change, other))
                directory = Directory(store, clock, auto_create=True)
                if known:
                    await directory.refresh()
                store.behind = store.statements + behind
                consumer = Consumer(other.store)
                await look(directory)
                await consumer.claim_all(directory)
                missing = store.statements < store.behind  # nothing could be done between any more
                await directory.refresh()
                await consumer.claim_all(directory)
                if missing:
                    break
            else:
                raise AssertionError("a look has more statements than were tried")


@define(eq=False)
class LateStore(Store):
    """Its answers come late: something is done before who asked has the answer of this number, counted from 1."""

    late: int = 0
    meanwhile: Callable[[], Awaitable[object]] | None = None
    answers: int = 0

    async def read(self, function, *args, **kwargs):  # type: ignore[no-untyped-def]
        found = await self.backend.read(lambda tx: function(tx, *args, **kwargs))
        self.answers += 1
        if self.answers == self.late and self.meanwhile is not None:
            await self.meanwhile()
        return found


@pytest.fixture
def late_store(store: Store) -> LateStore:
    return LateStore(store.backend)


@pytest.mark.parametrize("late", [1, 2])  # what is removed, and a page of topics with their groups
async def test_an_older_answer_that_comes_later_changes_nothing(late_store: LateStore, clock: Clock, late: int) -> None:
    """A refresh read a topic before it gained queues and its group was paused, and has the answer after."""
    directory = Directory(late_store, clock, auto_create=True)
    group = await directory.group(await directory.topic("orders"), "billing")
    await directory.refresh()

    async def meanwhile() -> None:
        draft = TopicDraft("orders", queues=3, release_rate=7)
        await directory.put_topic(draft, {"queues", "release_rate"}, lambda *_: None)
        await late_store.write(catalogue.pause_group, group, paused=True)
        await directory.read_group(group)

    late_store.late, late_store.meanwhile = late_store.answers + late, meanwhile
    await directory.refresh()
    topic = await directory.topic("orders")
    assert (len(topic.queues), topic.release_rate) == (3, 7)
    assert directory.paused == {group.id}
    (now_known,) = directory.groups_of(topic)
    assert now_known.retry_queue_of.keys() == {queue.id for queue in topic.queues}


async def test_an_older_look_tells_of_the_groups_of_which_a_later_one_did_not(
    late_store: LateStore, clock: Clock
) -> None:
    directory = Directory(late_store, clock, auto_create=True)
    topic = await directory.topic("orders")
    group = await directory.group(topic, "billing")
    await late_store.add_group(topic, "mails", clock.now())

    async def meanwhile() -> None:
        await late_store.write(catalogue.pause_group, group, paused=True)
        await directory.read_group(group)

    late_store.late, late_store.meanwhile = late_store.answers + 2, meanwhile
    await directory.refresh()
    assert [(one.name, one.paused) for one in directory.groups_of(topic)] == [("billing", True), ("mails", False)]


async def test_a_claim_of_queues_that_were_not_heard_of_is_looked_up(
    store: Store, directory: Directory, clock: Clock
) -> None:
    """Another server has given the topic more queues, and has handed out of them."""
    group = await directory.group(await directory.topic("orders"), "billing")
    wide = await store.write(catalogue.add_topic, TopicDraft("orders", queues=3), clock.now())
    found = await directory.look_up_group(group.id, [wide.queues[2].id])
    assert found is not None
    assert wide.queues[2].id in found.queue_ids

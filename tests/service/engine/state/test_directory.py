"""Topics and groups come into being at first use, unless the settings say that they are made by name only."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from support.embedded import embedded
from tarry.service.clock import Clock
from tarry.service.engine.state.directory import Directory
from tarry.service.engine.state.forgetting import Forgetting
from tarry.service.errors import UnknownGroup, UnknownTopic
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.records import Group, Topic
from tarry.store.store import Store


class Gone:
    """Takes note of what is forgotten."""

    def __init__(self, gone: list[str]) -> None:
        self.gone = gone

    def topic_gone(self, topic: Topic) -> None:
        """Not looked at."""

    def group_gone(self, group: Group) -> None:
        self.gone.append(f"{group.topic.name} {group.name}")


@pytest.fixture
async def second(tmp_path: Path) -> AsyncIterator[Store]:
    """What is there, where another server has taken over."""
    backend = embedded(tmp_path / "second.db")
    yield Store(backend)
    await backend.aclose()


async def test_at_first_use(directory: Directory) -> None:
    topic = await directory.topic("orders", create=True)
    assert (await directory.group(topic, "billing", create=True)).name == "billing"


async def test_by_name(store: Store, clock: Clock) -> None:
    directory = Directory(store, clock, auto_create=False)
    with pytest.raises(UnknownTopic):
        await directory.topic("orders", create=True)
    topic = await directory.make_topic(TopicDraft("orders"))
    with pytest.raises(UnknownGroup):
        await directory.group(topic, "billing", create=True)
    made = await directory.group(topic, "billing", create=True, asked_for=True)
    assert await directory.group(topic, "billing", create=False) == made


async def test_who_asks_for_a_group_has_no_other_read(store: Store, directory: Directory, clock: Clock) -> None:
    """A topic may have thousands, and anybody may ask for names that are none."""
    topic = await directory.topic("orders")
    made = [await store.add_group(topic, name, clock.now()) for name in ("billing", "mails")]
    with pytest.raises(UnknownGroup):
        await directory.group(topic, "none", create=False)
    assert directory.groups_of(topic) == []
    assert await directory.group(topic, "mails", create=False) == made[1]
    await directory.read_group(made[1])
    assert directory.groups_of(topic) == made[1:]
    await directory.refresh()
    assert directory.groups_of(topic) == made


async def test_a_topic_that_was_removed_and_made_again_elsewhere(
    store: Store, directory: Directory, clock: Clock
) -> None:
    """The new one has the old one's name, and is not forgotten with it."""
    old = await directory.topic("orders", create=True)
    await store.remove_topic(old, clock.now(), force=True)
    new = await store.write(catalogue.add_topic, TopicDraft("orders"), clock.now())
    assert await directory.read_topic("orders") == new
    await directory.refresh()
    assert directory.some(1000) == [new]
    assert directory.topic_by_id(old.id) is None
    assert (await directory.group(new, "billing", create=True)).topic == new


async def test_what_was_lost_with_a_server_is_forgotten_and_its_numbers_are_taken_anew(
    store: Store, directory: Directory, second: Store
) -> None:
    for one in (store, second):
        await one.write(catalogue.add_topic, TopicDraft("kept"), 1)
    await directory.refresh()
    lost = await directory.make_topic(TopicDraft("lost", queues=3))
    await directory.topic("also")
    group = await directory.group(lost, "billing")
    other = await second.write(catalogue.add_topic, TopicDraft("other"), 1)
    assert other.id == lost.id
    store.backend = second.backend
    await directory.read_anew()
    assert [topic.name for topic in directory.some(10)] == ["kept", "other"]
    assert directory.topic_by_id(lost.id) == other
    assert [directory.topic_of_queue(queue.id) for queue in lost.queues] == [other, None, None]
    assert directory.group_by_id(group.id) is None
    assert (await directory.topic("lost")).id != lost.id
    again = await directory.topic("also")
    assert directory.topic_by_id(again.id) == again


async def test_the_number_of_a_group_that_was_lost_with_a_server_is_taken_anew(
    store: Store, clock: Clock, second: Store
) -> None:
    """By another group of the topic, and by one of another topic: neither has the other's messages."""
    gone = list[str]()
    for one in (store, second):
        await one.write(catalogue.add_topic, TopicDraft("kept"), 1)
    directory = Directory(store, clock, auto_create=True, forgetting=cast(Forgetting, Gone(gone)))
    kept, lost = await directory.topic("kept"), await directory.topic("lost")
    billing, mails = await directory.group(kept, "billing"), await directory.group(kept, "mails")
    elsewhere = await directory.group(lost, "billing")
    store.backend = second.backend
    other = await second.write(catalogue.add_topic, TopicDraft("other"), 1)
    again = await second.add_group(kept, "mails", 1)
    assert (again.id, other.id) == (billing.id, lost.id)
    assert (await second.add_group(kept, "shipping", 1)).id == mails.id
    assert (await second.add_group(other, "billing", 1)).id == elsewhere.id
    await directory.read_anew()
    assert await directory.group(kept, "mails") == again
    assert directory.group_of_queue(again.retry_queues[0].id) == again
    made = await directory.group(kept, "billing")
    assert made.id not in (billing.id, mails.id, elsewhere.id)
    assert directory.group_of_queue(made.retry_queues[0].id) == made
    assert [group.name for group in directory.groups_of(kept)] == ["billing", "mails", "shipping"]
    assert sorted(gone) == ["kept billing", "kept mails", "lost billing"]

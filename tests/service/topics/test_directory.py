"""Topics and groups come into being at first use, unless the settings say that they are made by name only."""

from pathlib import Path

import pytest

from tarry.service.clock import Clock
from tarry.service.errors import UnknownGroup, UnknownTopic
from tarry.service.topics.directory import Directory
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.sqlite.backend import SQLiteBackend
from tarry.store.store import Store


@pytest.mark.parametrize("auto_create", [True, False])
async def test_first_use_and_by_name(tmp_path: Path, auto_create: bool) -> None:
    backend = SQLiteBackend(tmp_path / "tarry.db")
    try:
        await backend.migrate()
        clock = Clock(backend.now)
        await clock.take()
        directory = Directory(Store(backend), clock, auto_create=auto_create)
        if auto_create:
            topic = await directory.topic("orders", create=True)
            assert (await directory.group(topic, "billing", create=True)).name == "billing"
            return
        with pytest.raises(UnknownTopic):
            await directory.topic("orders", create=True)
        topic = await directory.make_topic(TopicDraft("orders"))
        with pytest.raises(UnknownGroup):
            await directory.group(topic, "billing", create=True)
        made = await directory.group(topic, "billing", create=True, asked_for=True)
        assert await directory.group(topic, "billing", create=False) == made
    finally:
        await backend.aclose()


async def test_a_topic_that_was_removed_and_made_again_elsewhere(tmp_path: Path) -> None:
    """The new one has the old one's name, and is not forgotten with it."""
    backend = SQLiteBackend(tmp_path / "tarry.db")
    try:
        await backend.migrate()
        clock = Clock(backend.now)
        await clock.take()
        store = Store(backend)
        directory = Directory(store, clock, auto_create=True)
        old = await directory.topic("orders", create=True)
        await store.remove_topic(old, clock.now(), force=True)
        new = await store.write(catalogue.add_topic, TopicDraft("orders"), clock.now())
        assert await directory.read_topic("orders") == new
        await directory.refresh()
        assert directory.some(1000) == [new]
        assert directory.topic_by_id(old.id) is None
        assert (await directory.group(new, "billing", create=True)).topic == new
    finally:
        await backend.aclose()

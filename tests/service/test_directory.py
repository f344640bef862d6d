"""Topics and groups come into being at first use, unless the settings say that they are made by name only."""

from pathlib import Path

import pytest

from tarry.service.clock import Clock
from tarry.service.directory import Directory
from tarry.service.errors import UnknownGroup, UnknownTopic
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

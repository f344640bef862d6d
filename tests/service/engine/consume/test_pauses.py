"""What is paused at another server is known here with the next look, however the directory comes to know of it."""

from typing import cast

import pytest
import trio

from tarry.service.engine.consume.pauses import Pauses
from tarry.service.engine.signals import Signals
from tarry.service.engine.state.directory import Directory
from tarry.store import catalogue
from tarry.store.cleaning import removal
from tarry.store.records import Group
from tarry.store.sqlite.backend import SQLiteBackend
from tarry.store.store import Store


class Looker:
    """A directory with one group, and what looks for pauses beside it."""

    def __init__(self, store: Store, directory: Directory) -> None:
        self.store, self.directory = store, directory
        self.told: list[int] = []
        self.awaited: list[int] = []
        self.doorbells = self
        self.pauses = Pauses(store, directory, cast(Signals, self))

    def group_freed(self, group_id: int) -> None:
        self.told.append(group_id)

    async def group(self) -> Group:
        return await self.directory.group(await self.directory.topic("orders"), "billing")

    async def elsewhere(self, group: Group, *, paused: bool) -> None:
        """Another server does it."""
        await self.store.write(catalogue.pause_group, group, paused=paused)


@pytest.fixture
def looker(store: Store, directory: Directory) -> Looker:
    return Looker(store, directory)


@pytest.mark.parametrize("refreshed", [False, True])
async def test_a_pause_elsewhere(looker: Looker, refreshed: bool) -> None:
    """The directory may have read it before, in its turn: who waits is told all the same."""
    group = await looker.group()
    for paused in (True, False):
        await looker.elsewhere(group, paused=paused)
        if refreshed:
            await looker.directory.refresh()
        await looker.pauses.look()
        assert (await looker.group()).paused is paused
        assert looker.directory.paused == ({group.id} if paused else set())
        assert looker.told == [group.id]
        await looker.pauses.look()
        assert looker.told == [group.id], "nothing has changed since"
        looker.told.clear()


async def test_a_group_that_is_not_known_here_or_no_more(looker: Looker) -> None:
    group = await looker.group()
    await looker.elsewhere(group, paused=True)
    looker.directory.forget_group(group)
    await looker.pauses.look()
    assert looker.directory.paused == set()


async def test_a_group_that_is_removed_is_paused_no_more(looker: Looker) -> None:
    group = await looker.group()
    await looker.elsewhere(group, paused=True)
    await looker.pauses.look()
    await looker.store.write(removal.remove_group, group, 1)
    await looker.pauses.look()
    await looker.directory.refresh()
    assert looker.directory.paused == set()


async def test_told_of_a_change_it_looks_at_once(looker: Looker, autojump_clock: trio.testing.MockClock) -> None:
    group = await looker.group()
    await looker.elsewhere(group, paused=True)
    looker.awaited.append(group.id)
    began = trio.current_time()
    looker.pauses.note_change(group.topic.id)
    await looker.pauses.look_in_time()
    assert trio.current_time() - began < 0.5
    await looker.elsewhere(group, paused=False)
    await looker.pauses.look_in_time()
    assert looker.directory.paused == set()


async def test_a_node_that_nobody_asks_does_not_look(
    looker: Looker, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks after a while is given nothing of what was paused meanwhile; and while somebody does, it looks."""
    monkeypatch.setattr(SQLiteBackend, "shared", True)
    group = await looker.group()
    await looker.elsewhere(group, paused=True)
    for _ in range(5):
        await looker.pauses.look_in_time()
    assert looker.directory.paused == set()
    await looker.pauses.asked()
    assert looker.directory.paused == {group.id}
    await looker.elsewhere(group, paused=False)
    await looker.pauses.asked()
    assert looker.directory.paused == {group.id}, "it has just looked"
    await looker.pauses.look_in_time()
    assert looker.directory.paused == set()

"""Two servers over one store: each hears of the members that ask at the other."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from support.hand_time import HandTime
from tarry.service.engine.consume.members import Members
from tarry.store.store import Store

PRESENT_FOR = 15_000


class Here:
    """The coordinators of a server: who asks there, and among whom they share."""

    def __init__(self) -> None:
        self.asked: dict[int, dict[str, int]] = {}
        self.shared: dict[int, set[str]] = {}

    def members(self) -> dict[int, dict[str, int]]:
        return self.asked

    def share_among(self, group_id: int, clients: set[str]) -> None:
        self.shared[group_id] = clients


class World(HandTime):
    def __init__(self, store: Store) -> None:
        super().__init__()
        self.here = Here(), Here()
        self.members = [Members(store, self.clock, here, PRESENT_FOR) for here in self.here]  # type: ignore[arg-type]

    async def round(self) -> list[dict[int, set[str]]]:
        """A round of each; among whom their coordinators share then."""
        for one in self.members:
            await one.look()
        return [here.shared for here in self.here]


@pytest.fixture
async def world(store: Store) -> World:
    return await World(store).begun()


async def test_each_hears_of_the_others(world: World) -> None:
    a, b = world.here
    a.asked = {1: {"ann": world.ms}, 2: {"ann": world.ms}}
    b.asked = {1: {"bob": world.ms}, 3: {"cat": world.ms}}
    await world.round()
    assert await world.round() == [{1: {"ann", "bob"}, 2: {"ann"}}, {1: {"ann", "bob"}, 3: {"cat"}}]


async def test_who_asks_on_stays_and_who_does_not_goes(world: World) -> None:
    a, b = world.here
    b.asked = {1: {"bob": world.ms}}
    came = world.ms
    await world.round()
    for _ in range(40):
        world.ms += 1_000
        a.asked = {1: {"ann": world.ms}}
        shared, _ = await world.round()
        assert "ann" in b.shared[1]
        assert ("bob" in shared[1]) == (world.ms - came < PRESENT_FOR), world.ms - came


async def test_who_goes_on_asking_is_written_now_and_then(world: World, tmp_path: Path) -> None:
    a, _ = world.here
    written = []
    for _ in range(15):
        world.ms += 1_000
        a.asked = {1: {"ann": world.ms}}
        before = seen_at(tmp_path)
        await world.round()
        written.append(seen_at(tmp_path) != before)
    assert written.count(True) == 5


def seen_at(folder: Path) -> list[tuple[int, str, int]]:
    with closing(sqlite3.connect(folder / "tarry.db")) as tables:
        return tables.execute("SELECT * FROM member").fetchall()


async def test_a_server_that_nobody_asks_asks_nobody(world: World) -> None:
    world.here[0].asked = {1: {"ann": world.ms}}
    await world.round()
    world.here[1].shared.clear()
    assert (await world.round())[1] == {}


async def test_the_long_past_is_forgotten(world: World, tmp_path: Path) -> None:
    world.here[0].asked = {1: {"ann": world.ms}}
    await world.round()
    world.ms += 3 * PRESENT_FOR
    await world.members[1].forget()
    assert seen_at(tmp_path) == []

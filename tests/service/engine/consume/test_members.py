"""Two servers over one store: each hears of the members that ask at the other."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import attrs
import pytest
import trio

from support.embedded import embedded
from tarry.service.clock import Clock
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


@attrs.define(eq=False)
class World:
    path: Path
    store: Store
    clock: Clock
    now: int = 1_795_000_000_000
    here: tuple[Here, Here] = attrs.field(factory=lambda: (Here(), Here()))
    members: list[Members] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.members = [Members(self.store, self.clock, here, PRESENT_FOR) for here in self.here]  # type: ignore[arg-type]

    async def round(self) -> list[dict[int, set[str]]]:
        """A round of each; among whom their coordinators share then."""
        for one in self.members:
            await one.look()
        return [here.shared for here in self.here]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    backend = embedded(tmp_path / "tarry.db")
    world: World

    async def sample() -> int:
        return world.now

    world = World(backend.path, Store(backend), Clock(sample, monotonic=lambda: world.now * 1_000_000))
    await world.clock.take()
    yield world
    with trio.CancelScope(shield=True):
        await backend.aclose()


async def test_each_hears_of_the_others(world: World) -> None:
    a, b = world.here
    a.asked = {1: {"ann": world.now}, 2: {"ann": world.now}}
    b.asked = {1: {"bob": world.now}, 3: {"cat": world.now}}
    await world.round()
    assert await world.round() == [{1: {"ann", "bob"}, 2: {"ann"}}, {1: {"ann", "bob"}, 3: {"cat"}}]


async def test_who_asks_on_stays_and_who_does_not_goes(world: World) -> None:
    a, b = world.here
    b.asked = {1: {"bob": world.now}}
    came = world.now
    await world.round()
    for _ in range(40):
        world.now += 1_000
        a.asked = {1: {"ann": world.now}}
        shared, _ = await world.round()
        assert "ann" in b.shared[1]
        assert ("bob" in shared[1]) == (world.now - came < PRESENT_FOR), world.now - came


async def test_who_goes_on_asking_is_written_now_and_then(world: World) -> None:
    a, _ = world.here
    written = []
    for _ in range(15):
        world.now += 1_000
        a.asked = {1: {"ann": world.now}}
        before = await seen_at(world)
        await world.round()
        written.append(await seen_at(world) != before)
    assert written.count(True) == 5


async def seen_at(world: World) -> list[tuple[int, str, int]]:
    with closing(sqlite3.connect(world.path)) as tables:
        return tables.execute("SELECT * FROM member").fetchall()


async def test_a_server_that_nobody_asks_asks_nobody(world: World) -> None:
    world.here[0].asked = {1: {"ann": world.now}}
    await world.round()
    world.here[1].shared.clear()
    assert (await world.round())[1] == {}


async def test_the_long_past_is_forgotten(world: World) -> None:
    world.here[0].asked = {1: {"ann": world.now}}
    await world.round()
    world.now += 3 * PRESENT_FOR
    await world.members[1].forget()
    assert await seen_at(world) == []

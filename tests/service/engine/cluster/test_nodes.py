"""Servers on one database, over simulated time: who is there, and who does what one does for all."""

import itertools
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import attrs
import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from support.engine import Told
from tarry.service.clock import AGREEING, JUMP, Clock
from tarry.service.engine.cluster.nodes import HELD, LEASE, Nodes
from tarry.store import leases
from tarry.store import nodes as nodes_in_store
from tarry.store.errors import Refused, Unavailable
from tarry.store.nodes import NodeRow, SeenNode, enter
from tarry.store.ports import Transaction, Work
from tarry.store.sqlite.backend import SQLiteBackend
from tarry.store.store import Store

T = TypeVar("T")


class Line(SQLiteBackend):
    """As if several servers could work on it; each of them may be cut off."""

    cut = False
    wrong = False
    """It is there, and says no."""
    lost = False
    """It does what it is told, and the answer is lost."""
    gate: trio.Event | None = None
    """Readers wait for it."""

    @property
    def shared(self) -> bool:
        return True

    async def read(self, work: Work[T]) -> T:
        if self.cut:
            raise Unavailable("cut off")
        if self.gate is not None:
            await self.gate.wait()
        return await super().read(work)

    async def note(self, work: Work[T]) -> T:
        if self.cut:
            raise Unavailable("cut off")
        if self.wrong:
            raise Refused("no such column")
        done = await super().note(work)
        if self.lost:
            raise Unavailable("cut off")
        return done


@attrs.define(eq=False)
class World:
    backend: Line
    ms: int = 1_795_000_000_000
    """The time that passes for all hosts."""
    ahead: int = 0
    """By how many milliseconds the database's clock has been set forward."""
    servers: dict[str, Nodes] = attrs.field(factory=dict[str, Nodes])
    clocks: list[Clock] = attrs.field(factory=list[Clock])

    async def start(self, name: str, level: int = 6) -> Nodes:
        async def sample() -> int:
            return self.ms + self.ahead

        clock = Clock(sample, monotonic=lambda: self.ms * 1_000_000)
        await clock.take()
        self.clocks.append(clock)
        self.servers[name] = nodes = Nodes(Store(self.backend), clock, name, level, Told({"url": name}))
        await nodes.enter()
        return nodes

    def load(self) -> None:
        """Wheels that are filled at once."""
        for nodes in self.servers.values():
            nodes.ownership.loaded(nodes.ownership.take())
            nodes.ownership.drop()

    def held(self) -> dict[str, int]:
        """How many shards each has in its wheel."""
        return {name: len(nodes.ownership.held) for name, nodes in self.servers.items()}

    async def set_clock(self, by_ms: int) -> None:
        """The database's clock is set, and all follow it at once."""
        self.ahead += by_ms
        for clock in self.clocks:
            for _ in range(AGREEING):
                await clock.take()

    async def seconds(self, many: int, *stopped: str) -> None:
        for _ in range(many):
            self.ms += 1_000
            for name, nodes in self.servers.items():
                if name not in stopped:
                    await nodes.round()

    def with_duties(self) -> list[str]:
        return [name for name, nodes in self.servers.items() if nodes.has_duties]

    async def there(self) -> dict[str, tuple[int, bool, bool]]:
        states = await next(iter(self.servers.values())).states()
        return {one.row.name: (one.row.slot, one.alive, one.duties) for one in states}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    backend = Line(tmp_path / "tarry.db")
    await backend.migrate()
    yield World(backend)
    with trio.CancelScope(shield=True):
        await backend.aclose()


async def test_one_has_the_duties_and_all_know_each_other(world: World) -> None:
    for name in "abc":
        await world.start(name)
    for _ in range(20):
        await world.seconds(1)
        assert world.with_duties() == ["a"]
    assert await world.there() == {"a": (0, True, True), "b": (1, True, False), "c": (2, True, False)}
    assert [one._store.tally_shard for one in world.servers.values()] == [0, 8, 16]


async def test_each_has_a_place_among_those_that_stay(world: World) -> None:
    """Whatever slots they have: by their places they choose queues of their own."""
    a, b, c = [await world.start(name) for name in "abc"]
    assert [one.place for one in (a, b, c)] == [(0, 1), (1, 2), (2, 3)], "as it was there when each came"
    await world.seconds(2)
    assert [one.place for one in (a, b, c)] == [(0, 3), (1, 3), (2, 3)]
    b.stop()
    await world.seconds(2)
    assert [a.place, c.place] == [(0, 2), (1, 2)]
    await a.leave()
    await b.leave()
    await world.seconds(2, "a", "b")
    assert c.place == (0, 1)


async def test_who_has_no_duties_seldom_asks_whose_they_are(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()
    find = leases.find

    async def counted(tx: Transaction, name: str) -> leases.Lease | None:
        asked.append(name)
        return await find(tx, name)

    await world.start("a")
    await world.start("b")
    await world.seconds(4)
    monkeypatch.setattr(leases, "find", counted)
    await world.seconds(60)
    assert world.with_duties() == ["a"]
    assert 0 < len(asked) <= 15


async def test_the_lease_of_the_duties_is_taken_anew_at_every_other_look(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And early enough that one of these may fail."""
    held = list[int]()
    hold = leases.hold

    async def counted(tx: Transaction, name: str, holder: str, now: int, until: int) -> bool:
        held.append(now)
        return await hold(tx, name, holder, now, until)

    monkeypatch.setattr(leases, "hold", counted)
    a = await world.start("a")
    await world.seconds(40)
    assert {later - earlier for earlier, later in itertools.pairwise(held)} == {4_000}
    world.backend.wrong = True
    for _ in range(4):
        world.ms += 1_000
        with suppress(Refused):
            await a.round()
    assert a.has_duties
    world.backend.wrong = False
    await world.seconds(2)
    assert a.has_duties


@pytest.mark.parametrize(("ahead", "taken"), [(7, True), (3_600_000, False)])
async def test_who_looks_offers_the_time_that_came_with_it(
    world: World, monkeypatch: pytest.MonkeyPatch, ahead: int, taken: bool
) -> None:
    look = nodes_in_store.look

    async def timed(tx: Transaction) -> list[SeenNode]:
        return [attrs.evolve(row, asked_at=(world.ms + ahead) * 1000) for row in await look(tx)]

    a = await world.start("a")
    await world.seconds(2)
    assert not a._clock.is_fresh, "the host has the clock"
    monkeypatch.setattr(nodes_in_store, "look", timed)
    await world.seconds(2)
    assert a._clock.is_fresh is taken
    assert a._clock.now() == world.ms + (ahead if taken else 0)


async def test_who_stops_hands_over(world: World) -> None:
    a, _ = await world.start("a"), await world.start("b")
    await world.seconds(2)
    await a.leave()
    assert world.with_duties() == []
    await world.seconds(2)  # also `a` goes on for a moment, and enters no more
    assert world.with_duties() == ["b"]
    assert await world.there() == {"b": (1, True, True)}


async def test_who_stops_in_the_middle_of_a_round_takes_nothing_back(world: World) -> None:
    a, _ = await world.start("a"), await world.start("b")
    await world.seconds(1)
    world.backend.gate = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(a.round)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(a.leave)
        await trio.testing.wait_all_tasks_blocked(0.05)
        world.backend.gate.set()
    await world.seconds(2)
    assert world.with_duties() == ["b"]
    assert await world.there() == {"b": (1, True, True)}


async def test_who_dies_is_buried_and_its_duties_go_to_another(world: World) -> None:
    await world.start("a")
    await world.start("b")
    await world.seconds(HELD // 1000 - 1, "a")
    assert world.with_duties() == []  # it trusts itself less than the others do
    await world.seconds(4, "a")
    assert world.with_duties() == ["b"]
    assert await world.there() == {"b": (1, True, True)}


async def test_who_was_only_stopped_enters_again(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    await world.start("a")
    await world.start("b")
    await world.seconds(11, "a")
    assert "node_dead" in capsys.readouterr().out
    await world.start("c")
    await world.seconds(1)
    assert "node_was_taken_for_dead" in capsys.readouterr().out
    await world.seconds(3)
    assert world.with_duties() == ["b"]
    assert await world.there() == {"c": (0, True, False), "b": (1, True, True), "a": (2, True, False)}


async def test_who_enters_again_and_hears_no_answer_learns_its_slot(world: World) -> None:
    a = await world.start("a")
    await world.start("b")
    await world.seconds(11, "a")
    await world.start("c")
    world.backend.lost = True
    with pytest.raises(Unavailable):
        await a.enter()
    world.backend.lost = False
    await world.seconds(2)
    assert await world.there() == {"c": (0, True, False), "b": (1, True, True), "a": (2, True, False)}
    assert [one._store.tally_shard for one in world.servers.values()] == [16, 8, 0]


@pytest.mark.parametrize("why", ["it was long ago", "the clock was set back"])
async def test_who_is_cut_off_is_not_sure_of_its_duties_before_it_is_back(world: World, why: str) -> None:
    a = await world.start("a")
    if why == "it was long ago":
        world.ms += HELD - 1_000
    else:
        await world.set_clock(-100)
        assert a.has_duties
        await world.set_clock(-3_600_000)
    world.backend.cut = True
    with pytest.raises(Unavailable):
        await a.round()
    assert not a.has_duties
    world.backend.cut = False
    await world.seconds(2)
    assert a.has_duties


async def test_who_cannot_renew_says_so_now_and_then_and_when_it_can_again(
    world: World, mock_clock: trio.testing.MockClock
) -> None:
    """Round by round: a clock that jumps by itself does not wait for the store's thread."""
    a = await world.start("a")

    async def seconds(many: int) -> None:
        for _ in range(many):
            mock_clock.jump(1)
            await a._safely(a.round, renews=a._looks)

    world.backend.wrong = True
    with capture_logs() as logs:
        await seconds(60)
        failed = [line["failures"] for line in logs if line["event"] == "node_not_renewed"]
        assert 2 <= len(failed) <= 7
        assert "node_renewed" not in [line["event"] for line in logs], "a look that goes well is no renewal"
        world.backend.wrong = False
        await seconds(3)
    assert [line["event"] for line in logs].count("node_renewed") == 1


@pytest.mark.parametrize("back_ms", [2_000, 8_000, 3_600_000])
async def test_who_dies_as_the_clock_is_set_back_is_not_waited_for(world: World, back_ms: int) -> None:
    """Its row and its lease bear times that are still to come."""
    await world.start("a")
    await world.start("b")
    await world.seconds(4)
    assert world.with_duties() == ["a"]
    await world.set_clock(-back_ms)
    await world.seconds(LEASE // 1000 - 2, "a")
    assert set(await world.there()) == {"a", "b"}
    await world.seconds((HELD + JUMP) // 1000, "a")
    assert world.with_duties() == ["b"]
    assert await world.there() == {"b": (1, True, True)}
    await world.start("c")
    await world.seconds(4, "a")
    assert await world.there() == {"c": (0, True, False), "b": (1, True, True)}


async def test_who_comes_after_the_clock_was_set_back_waits_for_no_dead(world: World) -> None:
    await world.start("a")
    await world.seconds(2)
    del world.servers["a"]  # killed
    await world.set_clock(-3_600_000)
    await world.start("b")
    await world.seconds(10)
    assert world.with_duties() == ["b"]
    assert await world.there() == {"b": (1, True, True)}


@pytest.mark.parametrize("step_ms", [-3_600_000, -8_000, -5_000, -4_000, -2_000, 2_000, 4_000, 5_000, 8_000, 3_600_000])
async def test_a_step_of_the_clock_buries_nobody_who_lives(
    world: World, capsys: pytest.CaptureFixture[str], step_ms: int
) -> None:
    """Each follows it in its own time. A sample is taken every other second, and three agree before it is believed."""
    for name in "abc":
        await world.start(name)
        await world.seconds(1)  # so that they renew and look in turns
    await world.seconds(4)
    world.ahead += step_ms
    for second in range(15):
        for number, clock in enumerate(world.clocks):
            if (second + number) % 2:
                await clock.take()
        await world.seconds(1)
        for nodes in world.servers.values():
            assert [(one.row.name, one.alive) for one in await nodes.states()] == [(name, True) for name in "abc"]
    assert len({clock.now() for clock in world.clocks}) == 1
    assert len(world.with_duties()) == 1
    told = capsys.readouterr().out
    assert "node_dead" not in told
    assert "node_was_taken_for_dead" not in told


async def test_who_comes_as_the_clock_is_set_forward_buries_nobody_who_lives(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has the new time before the others."""
    await world.start("a")
    await world.seconds(4)
    world.ahead += 3_600_000
    b = await world.start("b")
    await world.seconds(8)
    assert [(one.row.name, one.alive) for one in await b.states()] == [("a", True), ("b", True)]
    assert "node_dead" not in capsys.readouterr().out


async def test_who_is_back_at_the_database_first_buries_nobody_who_was_away_with_it(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    await world.start("a")
    await world.seconds(1)  # so that they renew and look in turns
    b = await world.start("b")
    await world.seconds(2)  # the last that one did was to renew, and the other has seen it
    world.backend.cut = True
    for _ in range(30):
        world.ms += 1_000
        for nodes in world.servers.values():
            with pytest.raises(Unavailable):
                await nodes.round()
    world.backend.cut = False
    for _ in range(2):
        await b.round()
    await world.seconds(8)
    assert "node_dead" not in capsys.readouterr().out


async def test_the_level_is_that_of_the_oldest_program(world: World) -> None:
    new = await world.start("a", level=7)
    assert new.level == 7
    old = await world.start("b", level=6)
    await world.seconds(2)
    assert (new.level, old.level) == (6, 6)
    await old.leave()
    await world.seconds(2)
    assert new.level == 7


async def test_two_of_one_name_both_work_and_it_is_told(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    first = await world.start("a")
    assert "node_name_taken" not in capsys.readouterr().out
    await world.start("a")
    for _ in range(2):
        await world.seconds(2)
        await first.round()
    told = capsys.readouterr().out.count("node_name_taken")
    assert told == 1
    for _ in range(2):
        await world.seconds(2)
        await first.round()
    assert "node_name_taken" not in capsys.readouterr().out
    assert {one.row.slot for one in await first.states()} == {0, 1}


async def test_the_server_of_an_embedded_store_is_alone(store: Store, clock: Clock) -> None:
    nodes = Nodes(store, clock, "a", 6, Told({"url": "here"}))
    await nodes.enter()
    (state,) = await nodes.states()
    assert nodes.has_duties
    assert (state.alive, state.duties) == (True, True)
    assert (state.row.name, state.row.slot, state.facts["url"]) == ("a", 0, "here")
    await nodes.leave()


async def test_shards_are_shared_out_and_told(world: World) -> None:
    a = await world.start("a")
    world.load()
    await world.seconds(2)
    assert world.held() == {"a": 16}
    b = await world.start("b")
    await world.seconds(2)
    assert world.held() == {"a": 16, "b": 0}
    world.load()
    await world.seconds(2)
    assert world.held() == {"a": 16, "b": 8}
    for _ in range(3):
        world.load()
        await world.seconds(2)
    assert world.held() == {"a": 8, "b": 8}
    assert a.ownership.held | b.ownership.held == set(range(16))
    told = {one.row.name: set(one.facts["shards"]) for one in await a.states()}
    assert told == {"a": a.ownership.held, "b": b.ownership.held}


async def test_shards_of_the_dead_are_taken_and_who_only_slept_gets_his_own_again(world: World) -> None:
    a, b = await world.start("a"), await world.start("b")
    for _ in range(4):
        world.load()
        await world.seconds(2)
    its_own = a.ownership.held
    assert len(its_own) == 8
    await world.seconds(8, "a")
    world.load()
    assert world.held() == {"a": 8, "b": 16}
    for _ in range(4):
        await world.seconds(2)
        world.load()
    assert world.held() == {"a": 8, "b": 8}
    assert a.ownership.held == its_own
    assert not a.ownership.held & b.ownership.held


async def test_who_stops_waits_until_others_hold_what_it_held(world: World, nursery: trio.Nursery) -> None:
    a, b = await world.start("a"), await world.start("b")
    for _ in range(4):
        world.load()
        await world.seconds(2)
    a.stop()
    await a.hasten()
    assert not a.ownership.relieved
    await b.round()
    await b.round()
    world.load()
    assert len(b.ownership.held) == 16
    await a.hasten()
    assert not a.ownership.relieved, "b holds them, and has not said so"
    b.tell_soon()
    await b.hasten()
    await a.hasten()
    assert await a.relieved()
    assert len(a.ownership.held) == 8
    b.stop()
    await b.hasten()
    assert not await b.relieved(), "a stops too: there is nobody to wait for"


async def test_a_program_that_shares_no_wheel_is_not_reckoned_with(world: World) -> None:
    a = await world.start("a")
    old = NodeRow("old", "old", 1, 6, world.ms, world.ms, b'{"url": "old"}')
    await world.backend.note(lambda tx: enter(tx, old))
    await world.seconds(2)
    world.load()
    assert world.held() == {"a": 16}
    a.stop()
    await a.hasten()
    assert not await a.relieved()


async def test_who_was_killed_and_comes_again_at_once_has_its_name(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    await world.start("a")
    await world.start("a")
    await world.seconds(10)
    told = capsys.readouterr().out
    assert "node_dead" in told
    assert "node_name_taken" not in told


async def test_where_the_store_cannot_be_asked_the_nodes_are_told_as_they_were_known(world: World) -> None:
    """As where it is read-only."""
    a, b = await world.start("a"), await world.start("b")
    await world.seconds(3)
    known = [(one.row.name, one.alive, one.duties) for one in await b.states()]
    assert known == [("a", True, True), ("b", True, False)]
    world.backend.cut = True
    assert [(one.row.name, one.alive, one.duties) for one in await b.states()] == known
    assert [(one.row.name, one.alive, one.duties) for one in await a.states()] == known


async def test_what_one_tells_under_a_name_the_others_hear(world: World) -> None:
    a, b = await world.start("a"), await world.start("b")
    a._facts = Told({"rivals": ["db2:3306"]})
    await world.seconds(3)
    assert (a.heard("rivals"), b.heard("rivals")) == ([], ["db2:3306"])
    await world.seconds(10, "a")
    assert b.heard("rivals") == []  # a is dead

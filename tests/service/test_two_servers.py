"""Which clients live, at two servers on one store: who lives is never buried, whatever server it turns to and
whatever becomes of the servers; who is dead is buried once, in bounded time.

The servers' liveness is real, and so is the store; their clock is moved by hand. Servers are started again, stopped
as by SIGSTOP, and cut off from the store; clients renew, poll, move from one to the other, fall silent and come back.
"""

import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path

import attrs
import pytest
import trio

from support.embedded import embedded
from tarry.service.clock import Clock
from tarry.service.engine.consume.liveness import Liveness
from tarry.store.errors import StoreError, Unavailable
from tarry.store.groups import clients
from tarry.store.ports import Work
from tarry.store.records import ClaimKey
from tarry.store.sqlite.backend import SQLiteBackend
from tarry.store.store import Store

TIMEOUT = 15_000
STEP = 500


class Line:
    """A server's line to the store, which may be cut."""

    def __init__(self, backend: SQLiteBackend) -> None:
        self._backend = backend
        self.cut = False

    async def read(self, work: Work[object]) -> object:
        if self.cut:
            raise Unavailable("cut off")
        return await self._backend.read(work)

    async def write(self, work: Work[object], *, heavy: bool = False) -> object:
        if self.cut:
            raise Unavailable("cut off")
        return await self._backend.write(work, heavy=heavy)


@attrs.define(eq=False)
class Server:
    world: "World"
    number: int
    nursery: trio.Nursery
    liveness: Liveness = attrs.field(init=False)
    line: Line = attrs.field(init=False)
    stopped_until: int = 0
    away_until: int = 0
    _running: trio.CancelScope | None = None

    async def start(self) -> None:
        """Also again: what it had in memory is gone."""
        if self._running is not None:
            self._running.cancel()
        clock = Clock(self.world.time, monotonic=lambda: self.world.ms * 1_000_000)
        await clock.take()
        self.line = Line(self.world.backend)
        self.liveness = Liveness(Store(self.line), clock, self, TIMEOUT)  # type: ignore[arg-type]
        await self.liveness.look()
        self.nursery.start_soon(self._run)

    async def _run(self) -> None:
        with trio.CancelScope() as self._running:
            await self.liveness.run()

    @property
    def stopped(self) -> bool:
        return self.stopped_until > self.world.ms

    async def round(self) -> None:
        """As `look_after`; but while it looks, others give signs of life elsewhere."""
        self.line.cut = self.away_until > self.world.ms
        with suppress(StoreError):
            if not self.stopped:
                await self.liveness.look()
            await self.world.hear_clients()
            if not self.stopped:
                await self.liveness._write()
                await self.liveness._end_dead_clients()

    async def dismiss(self, client: str, _: Sequence[ClaimKey]) -> None:
        self.world.dismissed(client)


@attrs.define(eq=False)
class Client:
    name: str
    at: int
    """The server that it turns to."""
    answered: int = -(1 << 60)
    """When it last gave a sign of life that was answered."""
    next_sign: int = 0
    silent_until: int = 0
    lives: bool = True
    polls: bool = False


class World:
    def __init__(self, backend: SQLiteBackend) -> None:
        self.backend = backend
        self.ms = 1_795_000_000_000
        self.servers: list[Server] = []
        self.clients: dict[str, Client] = {}
        self.buried: Counter[str] = Counter()

    async def time(self) -> int:
        return self.ms

    def dismissed(self, name: str) -> None:
        client = self.clients[name]
        silent = self.ms - client.answered
        assert silent >= TIMEOUT, f"{name} was buried {silent} ms after a sign of life"
        self.buried[name] += 1

    async def sign(self, client: Client) -> None:
        server = self.servers[client.at]
        if server.stopped:
            return
        try:
            if client.polls:
                async with server.liveness.polling(client.name):
                    pass
            else:
                await server.liveness.renew(client.name)
        except StoreError:
            return
        client.answered = self.ms

    async def pass_time(self, ms: int) -> None:
        for _ in range(ms // STEP):
            self.ms += STEP
            if self.ms % 1_000 == 0:
                for server in self.servers:
                    await server.round()
            await self.hear_clients()

    async def hear_clients(self) -> None:
        for client in self.clients.values():
            if client.lives and max(client.next_sign, client.silent_until) <= self.ms:
                client.next_sign = self.ms + 5_000
                await self.sign(client)


@pytest.fixture
async def world(tmp_path: Path, nursery: trio.Nursery) -> AsyncIterator[World]:
    backend = embedded(tmp_path / "tarry.db")
    world = World(backend)
    for number in range(2):
        world.servers.append(Server(world, number, nursery))
        await world.servers[-1].start()
    yield world
    nursery.cancel_scope.cancel()
    with trio.CancelScope(shield=True):
        await backend.aclose()


@pytest.mark.parametrize("polls", [False, True], ids=["renews", "polls"])
async def test_a_second_server_buries_nobody(world: World, polls: bool) -> None:
    world.clients["ann"] = ann = Client("ann", 0)
    await world.pass_time(2_000)
    ann.polls = polls
    await world.servers[1].start()
    await world.pass_time(10 * TIMEOUT)
    ann.at = 1
    await world.pass_time(10 * TIMEOUT)
    ann.lives = False
    await world.pass_time(TIMEOUT - 6_000)
    assert not world.buried
    await world.pass_time(7_000)
    assert world.buried == {"ann": 1}


async def test_who_turns_to_another_server_while_it_is_judged_lives(world: World) -> None:
    world.clients["ann"] = ann = Client("ann", 0)
    await world.pass_time(20_000)
    ann.at = 1
    ann.silent_until = ann.answered + TIMEOUT
    ann.silent_until += -ann.silent_until % 1_000
    await world.pass_time(20_000)
    assert ann.answered >= ann.silent_until
    assert not world.buried


async def test_whom_its_server_leaves_behind_another_buries(world: World) -> None:
    world.clients["ann"] = Client("ann", 0)
    await world.pass_time(60_000)
    world.clients["ann"].lives = False
    world.servers[0].stopped_until = 1 << 60
    await world.pass_time(TIMEOUT)
    assert not world.buried
    await world.pass_time(TIMEOUT // 2 + 2_000)
    assert world.buried == {"ann": 1}


async def test_who_could_not_look_judges_nobody_for_a_while(world: World) -> None:
    """The store was away for everybody: nobody could write what it heard."""
    world.clients = {name: Client(name, number % 2) for number, name in enumerate("abcd")}
    await world.pass_time(20_000)
    for server in world.servers:
        server.away_until = world.ms + 60_000
    await world.pass_time(120_000)
    assert not world.buried


@pytest.mark.parametrize("seed", range(12))
async def test_who_lives_is_not_buried_and_who_is_dead_is(world: World, seed: int) -> None:
    dice = random.Random(seed)
    world.clients = {f"c{number}": Client(f"c{number}", dice.randrange(2)) for number in range(8)}
    dead: set[str] = set()
    await world.pass_time(6_000)
    for _ in range(40):
        client = world.clients[dice.choice([*world.clients])]
        server = dice.choice(world.servers)
        fate = dice.randrange(9)
        if fate < 3:
            client.at = 1 - client.at
        elif fate == 3:
            client.polls = not client.polls
        elif fate == 4:
            client.silent_until = world.ms + dice.randrange(TIMEOUT)
        elif fate == 5 and len(dead) < 4:
            client.lives = False
            dead.add(client.name)
        elif fate == 6:
            await server.start()
        elif fate == 7:
            server.stopped_until = world.ms + dice.randrange(2 * TIMEOUT)
        elif fate == 8:
            server.away_until = world.ms + dice.randrange(2 * TIMEOUT)
        await world.pass_time(dice.randrange(1, 10) * STEP)
    for server in world.servers:
        server.stopped_until = server.away_until = 0
    # A time-out in which nobody is judged, then one and a half after the last sign, which may be that old at most.
    await world.pass_time(2 * TIMEOUT + TIMEOUT // 2)
    assert dead.isdisjoint(await Store(world.backend).read(clients.all_watched))
    assert all(world.buried[name] >= 1 for name in dead)
    assert {name for name, client in world.clients.items() if client.lives and not client.polls} <= set(
        await Store(world.backend).read(clients.all_watched)
    )

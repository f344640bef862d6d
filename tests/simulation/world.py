"""A simulation by its seed: two nodes, the load of the fault campaign, faults, the drain, and the checker's verdict.

All randomness comes from the seed, and time is Trio's mock clock, so a seed gives the same history each time.
"""

import os
import random as python_random
import secrets
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from random import Random
from unittest.mock import patch

import trio
from attrs import define, field
from trio.testing import MockClock

from simulation.database import Database, Fates, now_ns
from simulation.nodes import Node, Way
from simulation.plants import Plant
from support.embedded import schema
from tarry.bench.campaign.clockwork import make_schedules, pause_schedules
from tarry.bench.campaign.consumers import Consumer
from tarry.bench.campaign.crew import Crew
from tarry.bench.campaign.drain import Drain
from tarry.bench.campaign.journal import Journal
from tarry.bench.campaign.load import Hands, loaded, make_topics
from tarry.bench.campaign.plan import GROUPS, ORDERS, setup
from tarry.bench.checker.event import read
from tarry.bench.checker.report import Report, check
from tarry.store import ids

_SECONDS = 6.0
"""Seconds of simulated time in which there are faults."""
_HANDS = Hands(publishers=2, ordered=1, consumers=1, meddlers=3, keepers=1)
_RATE = 25.0
"""Messages a second that publishers aim at."""
_DRAIN = 120.0
_MAKING = 60.0


@define(eq=False)
class World:
    crew: Crew
    nodes: list[Node]
    database: Database
    nursery: trio.Nursery
    random: Random = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.random = self.crew.random("faults")

    async def faults(self, seconds: float) -> None:
        """Injects faults one after another, some at the same time."""
        until = trio.current_time() + seconds
        async with trio.open_nursery() as nursery:
            while trio.current_time() < until:
                await trio.sleep(self.random.uniform(0.05, 1.5))
                fault = self.random.choice((self._kill, self._stop, self._cut, self._stall, self._go_away))
                nursery.start_soon(fault)

    async def _kill(self) -> None:
        node = self.random.choice(self.nodes)
        if node.life is None:
            return
        with self._told("kill", node):
            node.kill()
            await self._begin_anew(node)

    async def _stop(self) -> None:
        node = self.random.choice(self.nodes)
        with self._told("stop", node):
            await node.stop()
            await self._begin_anew(node)

    async def _begin_anew(self, node: Node) -> None:
        await trio.sleep(self.random.choice((0.01, 0.3, 3)))
        if node.life is None:
            self.nursery.start_soon(node.run)
        await self._up(node)

    async def _cut(self) -> None:
        await self._hold_up("cut", self.random.choice((0.1, 1, 4)))

    async def _stall(self) -> None:
        await self._hold_up("stall", self.random.choice((0.1, 1, 4)))

    async def _hold_up(self, what: str, seconds: float) -> None:
        node = self.random.choice(self.nodes)
        if node.life is None:
            return
        with self._told(what, node):
            until, link = trio.current_time() + seconds, node.life.link
            if what == "cut":
                link.cut_until = max(link.cut_until, until)
            else:
                link.stalled_until = max(link.stalled_until, until)
            await trio.sleep(seconds)

    async def _go_away(self) -> None:
        with self._told("database away"):
            seconds = self.random.choice((0.05, 0.5, 2))
            self.database.away_until = trio.current_time() + seconds
            await trio.sleep(seconds)

    async def _up(self, node: Node) -> None:
        while node.life is None:
            await trio.sleep(0.01)

    @contextmanager
    def _told(self, what: str, node: Node | None = None) -> Generator[None, None, None]:
        name = f"n{node.number}" if node else ""
        self.crew.journal.write("fault", "invoke", reason=what, node=name)
        yield
        self.crew.journal.write("fault", "ok", reason=what, node=name)

    async def register(self) -> None:
        """Registers the load's consumers, so that the nodes watch them; a live one must not be taken for dead."""
        caller = self.crew.caller("register")
        for group in (group for groups in GROUPS.values() for group in groups):
            while (await caller.ask("POST", f"/v1/clients/c0-{group}/renew")).phase != "ok":
                await trio.sleep(0.1)

    async def mortals(self, group: str) -> None:
        """Runs consumers that die while they hold or request a claim, and are replaced by others."""
        random, number = self.crew.random(f"mortals-{group}"), 0
        while self.crew.publishing:
            number += 1
            who = f"mortal-{group}-{number}"
            with trio.move_on_after(random.uniform(0.05, 3)):
                await Consumer(who, self.crew, self.crew.caller(who), ORDERS, group, ordered=False).run()


async def _simulate(seed: int, folder: Path) -> None:
    fates = Fates()
    database, dice = Database(folder / "tarry.db"), Random(f"{seed}/world")
    with Journal(folder / "history.jsonl", wall=now_ns, steady=now_ns) as journal:
        journal.write("setup", "ok", facts=setup())
        nodes = [Node(n, database, Random(f"{seed}/node-{n}"), fates, dice.uniform(-2e-4, 2e-4)) for n in range(2)]
        crew = Crew(journal, [0, 1], seed, _RATE)
        crew.connect = lambda number: Way(nodes[number], Random(f"{seed}/way-{dice.random()}"), fates)
        async with _running(nodes) as nursery:
            with trio.fail_after(_MAKING):
                await make_topics(crew, "store")
                await make_schedules(crew, crew.caller("schedules"))
            world = World(crew, nodes, database, nursery)
            async with loaded(crew, _HANDS), trio.open_nursery() as mortal:
                mortal.start_soon(world.register)
                for group in ("billing", "mails"):
                    mortal.start_soon(world.mortals, group)
                await world.faults(_SECONDS)
                crew.publishing = False
                crew.gate.set()
                with trio.move_on_after(_DRAIN):
                    await pause_schedules(crew, crew.caller("schedules"))
                await Drain(crew, crew.caller("drain")).run(_DRAIN)
    database.close()


@asynccontextmanager
async def _running(nodes: list[Node]) -> AsyncGenerator[trio.Nursery, None]:
    async with trio.open_nursery() as nursery:
        for node in nodes:
            nursery.start_soon(node.run)
        yield nursery
        nursery.cancel_scope.cancel()


def simulate(seed: int, folder: Path, plant: Plant | None = None) -> Report:
    """Runs a simulation, perhaps with a planted bug, and checks it. The history is written to the folder."""
    schema()  # is made once in a process, by a run of Trio's, which is not to take from the seed
    with _by(seed), plant.planted() if plant else nullcontext():
        trio.run(_simulate, seed, folder, clock=MockClock(autojump_threshold=0))
    return check(read(folder / "history.jsonl"))


@contextmanager
def _by(seed: int) -> Generator[None, None, None]:
    """Takes all randomness of the nodes, and the order in which Trio wakes tasks, from the seed."""
    dice = Random(seed)
    with (
        patch.object(os, "urandom", dice.randbytes),
        patch.object(ids, "_drawn", []),  # of the simulation before
        patch.object(secrets, "randbits", dice.getrandbits),
        patch.object(secrets, "randbelow", dice.randrange),
        patch.object(secrets, "token_hex", lambda many: dice.randbytes(many).hex()),
        patch.object(secrets, "token_bytes", dice.randbytes),
        patch.object(python_random, "Random", lambda *by: Random(*by or [dice.random()])),
        patch.object(time, "monotonic", trio.current_time),
        patch.object(trio._core._run, "_r", dice),
        patch.object(trio._core._run, "_ALLOW_DETERMINISTIC_SCHEDULING", True),
    ):
        state = python_random.getstate()
        python_random.seed(seed)
        try:
            yield
        finally:
            python_random.setstate(state)

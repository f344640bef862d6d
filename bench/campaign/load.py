"""The load: starts all actors that publish, set timers, cancel, claim, read and operate, and holds publishers back
while groups are behind."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio
from attrs import frozen

from .caller import Caller
from .consumers import Consumer
from .crew import Crew
from .keepers import Keeper
from .meddlers import Meddler
from .operators import Operator
from .plan import ACCOUNTS, GROUPS, QUEUES, ladder_of
from .publishers import OrderedPublisher, Publisher
from .readers import Reader

_BACKLOG = 400
"""Messages that a group may be behind before publishers wait."""


@frozen
class Hands:
    """How many actors there are of each kind; consumers are counted per group."""

    publishers: int = 3
    ordered: int = 2
    consumers: int = 2
    meddlers: int = 8
    keepers: int = 2


async def make_topics(crew: Crew, sequencer: str) -> None:
    """Creates the topics of the plan, and their groups through all nodes at once."""
    caller = crew.caller("topics")
    for topic, groups in GROUPS.items():
        ordered = topic == ACCOUNTS
        settings: dict[str, object] = {"queues": QUEUES, "ordered": ordered, "ladder": ladder_of(topic)}
        if not ordered:
            settings["sequencer"] = sequencer
        await _made(caller, f"/v1/topics/{topic}", settings)
        for group in groups:
            path = f"/v1/topics/{topic}/groups/{group}"
            async with trio.open_nursery() as nursery:
                for port in crew.ports:
                    nursery.start_soon(_made, crew.caller(f"topics-{port}", [port]), path, dict[str, object]())


async def _made(caller: Caller, path: str, settings: dict[str, object]) -> None:
    with trio.fail_after(30):
        while (await caller.ask("PUT", path, settings)).phase != "ok":
            await trio.sleep(0.1)


@asynccontextmanager
async def loaded(crew: Crew, hands: Hands = Hands()) -> AsyncGenerator[None, None]:
    """Runs all actors inside the block; they end when consuming ends."""
    async with trio.open_nursery() as nursery:
        send, receive = trio.open_memory_channel[tuple[str, str, int]](50)
        crew.offered = send
        crew.gate.set()
        kinds = (
            ("p", Publisher, hands.publishers),
            ("o", OrderedPublisher, hands.ordered),
            ("k", Keeper, hands.keepers),
        )
        for letter, kind, many in kinds:
            for n in range(many):
                who = f"{letter}{n}"
                nursery.start_soon(kind(who, crew, crew.caller(who)).run)
        for n in range(hands.meddlers):
            who = f"m{n}"
            nursery.start_soon(Meddler(who, crew, crew.caller(who), receive.clone()).run)
        for topic, groups in GROUPS.items():
            for group in groups:
                for n in range(hands.consumers):
                    who = f"c{n}-{group}"
                    ordered = topic == ACCOUNTS
                    nursery.start_soon(Consumer(who, crew, crew.caller(who), topic, group, ordered).run)
            for queue in range(QUEUES):
                who = f"r-{topic}-{queue}"
                nursery.start_soon(Reader(who, crew, crew.caller(who), topic, queue).run)
        nursery.start_soon(Operator(crew, crew.caller("operator")).run)
        nursery.start_soon(_keep_gate, crew, crew.caller("gate"))
        yield
        send.close()


async def _keep_gate(crew: Crew, caller: Caller) -> None:
    """Makes publishers wait while a group is far behind; lets them go when publishing ends."""
    while crew.publishing:
        behind = 0
        for topic, groups in GROUPS.items():
            for group in groups:
                answer = await caller.ask("GET", f"/v1/topics/{topic}/groups/{group}")
                if answer.phase == "ok":
                    behind = max(behind, answer.data["backlog"] + sum(answer.data["retries"]))
        if behind < _BACKLOG:
            crew.gate.set()
        elif crew.gate.is_set():
            crew.gate = trio.Event()
        await trio.sleep(0.3)
    crew.gate.set()

"""The state that all actors of the campaign share: journal, ports, random numbers, and when to stop."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from random import Random
from typing import Any

import trio
from attrs import define, field

from ..lean_http import LeanHTTP
from .caller import Caller, Line
from .journal import Journal

Told = Mapping[str, Any]


@define
class Crew:
    journal: Journal
    ports: list[int]
    seed: int
    rate: float
    """Messages a second that publishers aim at."""
    publishing: bool = True
    consuming: bool = True
    operating: bool = True
    """An operator may still make finished messages come again."""
    gate: trio.Event = field(factory=trio.Event)
    """Set while consumers keep up."""
    offered: "trio.MemorySendChannel[tuple[str, str, int]] | None" = None
    """Offers name, id and due time of waiting messages to the actors that cancel and reschedule."""

    fires_told: dict[str, set[int]] = field(factory=dict[str, set[int]])
    """By schedule: the fire times that the history has already."""

    connect: Callable[[int], Line] = LeanHTTP
    """Connects to a node by its port."""
    ahead_ms: int = 0
    """How far the store's clock was set ahead."""

    @property
    def store_ms(self) -> float:
        """The store's approximate time in Unix milliseconds: a node may not have followed a step of the clock yet."""
        return self.journal.now_ms + self.ahead_ms

    def random(self, who: str) -> Random:
        """A random generator for each actor; the same seed gives the same numbers."""
        return Random(f"{self.seed}/{who}")

    def caller(self, who: str, ports: Sequence[int] = ()) -> Caller:
        """A caller that asks any node, or any of these ports."""
        return Caller(self.journal, ports or self.ports, self.random(f"{who}/nodes"), self.connect)


def ms_of(time: str) -> int:
    """Converts an RFC 3339 time to Unix milliseconds."""
    return round(datetime.fromisoformat(time).timestamp() * 1000)


async def until(true: Callable[[], bool], seconds: float) -> bool:
    """Waits until `true()` holds or the time is over; returns whether it holds."""
    with trio.move_on_after(seconds):
        while not true():
            await trio.sleep(0.02)
    return true()

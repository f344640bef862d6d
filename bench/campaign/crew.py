"""What all who work in the campaign share: the journal, the ports, the dice, and when to stop."""

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
    """Somebody may give back what has come to its end."""
    gate: trio.Event = field(factory=trio.Event)
    """Set while consumers keep up."""
    offered: "trio.MemorySendChannel[tuple[str, str, int]] | None" = None
    """Name, id and due time of what waits, for who cancels and reschedules."""

    connect: Callable[[int], Line] = LeanHTTP
    """To a node, by its port."""
    ahead_ms: int = 0
    """By how much the store's clock was set ahead."""

    @property
    def store_ms(self) -> float:
        """The time of the store, about, as Unix milliseconds: a node may not have followed it so far."""
        return self.journal.now_ms + self.ahead_ms

    def random(self, who: str) -> Random:
        """Dice of its own for each, the same for the same seed."""
        return Random(f"{self.seed}/{who}")

    def caller(self, who: str, ports: Sequence[int] = ()) -> Caller:
        """It asks any node, or any of these."""
        return Caller(self.journal, ports or self.ports, self.random(f"{who}/nodes"), self.connect)


def ms_of(time: str) -> int:
    """RFC 3339 as Unix milliseconds."""
    return round(datetime.fromisoformat(time).timestamp() * 1000)


async def until(true: Callable[[], bool], seconds: float) -> bool:
    """Looks until it is so; whether it was within that time."""
    with trio.move_on_after(seconds):
        while not true():
            await trio.sleep(0.02)
    return true()

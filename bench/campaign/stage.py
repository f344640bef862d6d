"""What a row of the campaign runs on, and its outcome."""

import time
from collections.abc import Mapping
from typing import Any

from attrs import define, field, frozen

from ..checker.report import Report
from ..proxy import Proxy
from .crew import Crew
from .database import Server
from .journal import Journal
from .node import Node
from .shims import Lever

_BACK_SECONDS = 30.0
"""In which the service comes back after an outage."""


@frozen
class Order:
    """The options of one run."""

    nodes: int
    count: int
    seed: int
    seconds: float
    rate: float
    drain_seconds: float
    plant: str = ""


@define
class Stage:
    """Everything that a fault can act on."""

    order: Order
    database: Server
    redis: Server | None
    nodes: list[Node]
    proxies: list[Proxy]
    crew: Crew
    journal: Journal
    deadline: float
    levers: Mapping[str, Lever]
    """By the name of a node: sets what the node believes of its machine."""
    done: int = 0
    """Faults so far."""
    ups: list[float] = field(factory=list[float])
    """Milliseconds of each outage until the service was back."""

    @property
    def wanted(self) -> bool:
        """Whether more faults are to come."""
        return self.done < self.order.count and time.monotonic() < self.deadline

    def begin(self, what: str, node: str = "", **facts: Any) -> bool:
        """Records a fault and returns True, or returns False when there are enough."""
        if not self.wanted:
            return False
        self.done += 1
        self.journal.write("fault", "invoke", reason=what, node=node, facts=facts)
        return True

    def end(self, what: str, node: str = "", **facts: Any) -> None:
        self.journal.write("fault", "ok", reason=what, node=node, facts=facts)

    async def back(self, since: float) -> None:
        """Waits until a publish is answered again, and notes how long that was from `since` on."""
        if not await self.journal.reached("publish:ok", 1, _BACK_SECONDS):
            self.stuck("the service did not come back in time")
        self.ups.append((time.monotonic() - since) * 1000)

    def stuck(self, what: str, node: str = "") -> None:
        """Records that something did not recover after a fault."""
        self.journal.write("fault", "fail", reason=what, node=node)


@frozen
class Outcome:
    faults: int
    seconds: float
    up_ms: float
    """The longest outage of a node or the service."""
    report: Report

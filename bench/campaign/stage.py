"""What a row is run on, and what came of it."""

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


@frozen
class Order:
    """What is to be run."""

    nodes: int
    count: int
    seed: int
    seconds: float
    rate: float
    drain_seconds: float
    plant: str = ""


@define
class Stage:
    """What a fault has to do with."""

    order: Order
    database: Server
    redis: Server | None
    nodes: list[Node]
    proxies: list[Proxy]
    crew: Crew
    journal: Journal
    deadline: float
    levers: Mapping[str, Lever]
    """Of nodes, by their names: what they believe of their machines."""
    done: int = 0
    """Faults."""
    ups: list[float] = field(factory=list[float])
    """Milliseconds until what was down served again."""

    @property
    def wanted(self) -> bool:
        """Whether there are faults to come."""
        return self.done < self.order.count and time.monotonic() < self.deadline

    def begin(self, what: str, node: str = "", **facts: Any) -> bool:
        """Notes a fault, unless there are enough."""
        if not self.wanted:
            return False
        self.done += 1
        self.journal.write("fault", "invoke", reason=what, node=node, facts=facts)
        return True

    def end(self, what: str, node: str = "", **facts: Any) -> None:
        self.journal.write("fault", "ok", reason=what, node=node, facts=facts)

    def stuck(self, what: str, node: str = "") -> None:
        """Something did not come back after a fault."""
        self.journal.write("fault", "fail", reason=what, node=node)


@frozen
class Outcome:
    faults: int
    seconds: float
    up_ms: float
    """The longest until a node, or the service, was there again."""
    report: Report

"""Builds parts of the engine for tests of single parts, with stubs in place of other servers."""

from collections.abc import Container, Mapping, Sequence
from typing import Any, cast

from attrs import define

from tarry.service.clock import Clock
from tarry.service.engine.cluster.nodes import Nodes
from tarry.service.engine.cluster.ownership import Ownership, whole
from tarry.service.engine.dispatch.burst import Burst
from tarry.service.engine.dispatch.dispatcher import Dispatcher
from tarry.service.engine.dispatch.held import Held
from tarry.service.engine.dispatch.lookahead import Lookahead
from tarry.service.engine.dispatch.promotion import Promotion
from tarry.service.engine.dispatch.spoilt import Spoilt
from tarry.service.engine.signals import Signals
from tarry.service.engine.state.directory import Directory
from tarry.service.engine.state.doorbells import Doorbells
from tarry.service.engine.state.listeners import Listeners
from tarry.service.engine.state.pace import Pace
from tarry.service.engine.state.pending import Pending
from tarry.service.engine.state.releases import Releases
from tarry.service.engine.state.unsealed import Unsealed
from tarry.service.metrics import Metrics
from tarry.store.records import Promoted
from tarry.store.schedules.course import Fired
from tarry.wheel.horizon import Horizon
from tarry.wheel.timing_wheel import TimingWheel


def pending_from(
    began: int, clock: Clock, *, rates: Mapping[int, int] | None = None, ownership: Ownership | None = None
) -> Pending:
    """Pending entries in a wheel whose time begins at `began`; no page of its horizon is loaded."""
    releases = Releases({} if rates is None else rates, whole() if ownership is None else ownership, clock)
    return Pending(TimingWheel(began), Horizon(began), clock, releases)


def signals_over(directory: Directory, clock: Clock, pending: Pending | None = None) -> Signals:
    """Signals without any listeners yet."""
    pending = pending_from(0, clock) if pending is None else pending
    return Signals(pending, directory, Listeners(), Doorbells(), Unsealed(), None)


@define(eq=False)
class Cluster:
    """A stub of the servers on one database: this one only."""

    place: tuple[int, int] = (0, 1)

    @property
    def nodes(self) -> Nodes:
        return cast(Nodes, self)

    def tell_soon(self) -> None:
        """Does nothing: there are no other servers."""


@define(eq=False)
class Told:
    """A stub that returns facts that a node reports about itself."""

    facts: dict[str, Any]

    def told(self) -> dict[str, Any]:
        return dict(self.facts)


class Unheard:
    """A stub that ignores all notifications."""

    def streamed(self, promoted: Sequence[Promoted]) -> None:
        """Does nothing: there are no readers."""

    def fired(self, fired: Fired) -> None:
        """Does nothing: there are no schedules."""

    def topic_of_queue(self, queue_id: int) -> None:
        """Knows no topic."""

    def group_of_queue(self, queue_id: int) -> None:
        """Knows no group."""


def promotion_over(store: Any, clock: Clock, signals: Any = None) -> Promotion:
    """A promotion over a stub of a store, which has `promote_some`."""
    nobody: Any = Unheard()
    spoilt = Spoilt(store, clock)
    signals = nobody if signals is None else signals
    return Promotion(store, nobody, clock, Metrics(), signals, nobody, nobody, Held(), spoilt, Pace())


def dispatcher_over(
    pending: Pending, promotion: Promotion, clock: Clock, topics: Any, aside: Container[int] = frozenset()
) -> tuple[Dispatcher, Lookahead]:
    """A dispatcher over pending entries; `topics` gives the topics of entries."""
    lookahead = Lookahead(pending, topics, clock)
    return Dispatcher(pending, promotion, Burst(pending, promotion, lookahead, clock, aside), clock), lookahead

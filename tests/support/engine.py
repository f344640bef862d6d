"""Parts of the engine for tests of one of them: what is pending, the signals, and other servers that are none."""

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
    """A wheel whose time begins then; no page of its horizon is loaded."""
    releases = Releases({} if rates is None else rates, whole() if ownership is None else ownership, clock)
    return Pending(TimingWheel(began), Horizon(began), clock, releases)


def signals_over(directory: Directory, clock: Clock, pending: Pending | None = None) -> Signals:
    """Nobody hears anything yet."""
    pending = pending_from(0, clock) if pending is None else pending
    return Signals(pending, directory, Listeners(), Doorbells(), Unsealed(), None)


@define(eq=False)
class Cluster:
    """What parts ask of the servers on one database."""

    place: tuple[int, int] = (0, 1)

    @property
    def nodes(self) -> Nodes:
        return cast(Nodes, self)

    def tell_soon(self) -> None:
        """Nobody is there."""


@define(eq=False)
class Told:
    """What a node tells of itself."""

    facts: dict[str, Any]

    def told(self) -> dict[str, Any]:
        return dict(self.facts)


class Unheard:
    """Who is told of nothing that matters here."""

    def streamed(self, promoted: Sequence[Promoted]) -> None:
        """Nobody reads."""

    def fired(self, fired: Fired) -> None:
        """There are no schedules."""

    def topic_of_queue(self, queue_id: int) -> None:
        """It is not known."""

    def group_of_queue(self, queue_id: int) -> None:
        """It is not known."""


def promotion_over(store: Any, clock: Clock, signals: Any = None) -> Promotion:
    """A promotion of a store that is none: it has `promote_some`."""
    nobody: Any = Unheard()
    spoilt = Spoilt(store, clock)
    signals = nobody if signals is None else signals
    return Promotion(store, nobody, clock, Metrics(), signals, nobody, nobody, Held(), spoilt, Pace())


def dispatcher_over(
    pending: Pending, promotion: Promotion, clock: Clock, topics: Any, aside: Container[int] = frozenset()
) -> tuple[Dispatcher, Lookahead]:
    """Over what is pending; `topics` tells of which topics they are."""
    lookahead = Lookahead(pending, topics, clock)
    return Dispatcher(pending, promotion, Burst(pending, promotion, lookahead, clock, aside), clock), lookahead

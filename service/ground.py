"""The ground that the parts of a node stand on: what the node knows, who waits for what, the store and the signals.

All of it is made before any of the parts.
"""

import time

from attrs import frozen

from ..store.migrations import newest
from ..store.ports import Backend
from ..store.store import Store
from ..store.timers.order import Orders
from ..wheel.horizon import Horizon
from ..wheel.ladder import Ladder
from ..wheel.timing_wheel import TimingWheel
from .alarm import Alarm
from .clock import Clock
from .engine.cluster.nodes import Nodes
from .engine.cluster.ownership import Ownership
from .engine.signals import Signals
from .engine.state.cleaning_notes import CleaningNotes
from .engine.state.coverage import Coverage
from .engine.state.directory import Directory
from .engine.state.doorbells import Doorbells
from .engine.state.forgetting import Forgetting
from .engine.state.listeners import Listeners
from .engine.state.pending import Pending
from .engine.state.rates import Rates
from .engine.state.releases import Releases
from .engine.state.spoilt_rows import SpoiltRows
from .engine.state.unsealed import Unsealed
from .facts import Address, Facts
from .metrics import Metrics
from .notices import Notices
from .outages import Outage
from .schedules.courses import course_of
from .settings import Settings
from .upkeep.writer_watch import WriterWatch


@frozen(eq=False)
class Surroundings:
    """What a node is given from outside, before it has a store of its own."""

    backend: Backend
    settings: Settings
    metrics: Metrics
    notices: Notices | None
    place: Address
    outage: Outage


@frozen(eq=False, kw_only=True)
class Ground:
    """The ground of one node."""

    store: Store
    clock: Clock
    alarm: Alarm
    rates: Rates
    ownership: Ownership
    coverage: Coverage
    spoilt_rows: SpoiltRows
    cleaning: CleaningNotes
    directory: Directory
    pending: Pending
    nodes: Nodes
    writer_watch: WriterWatch
    signals: Signals


def lay_ground(given: Surroundings, clock: Clock) -> Ground:
    """Makes the ground. Rates, ownership and spoilt rows, which `Orders`, `Releases` and the directory read, are
    objects shared with the parts that write them."""
    settings, backend = given.settings, given.backend
    ownership, spoilt_rows, release_rates = Ownership(), SpoiltRows(), dict[int, int]()
    coverage = Coverage(clock, ownership, shared=backend.shared)
    orders = Orders(
        coverage.unseen_from,
        coverage.read_until,
        rated=release_rates.__contains__,
        holds=ownership.holds,
        aside=spoilt_rows,
    )
    ladder, window = Ladder(settings.ladder), settings.idempotency_window
    store = Store(backend, watch=given.outage.watch, window=window, ladder=ladder, courses=course_of, orders=orders)
    listeners, doorbells, cleaning = Listeners(), Doorbells(), CleaningNotes()
    forgetting = Forgetting(store, given.metrics, listeners, doorbells, cleaning)
    auto_create = settings.auto_create
    directory = Directory(store, clock, auto_create=auto_create, forgetting=forgetting, release_rates=release_rates)
    now = clock.now()
    horizon = Horizon(now, settings.horizon, settings.horizon_step)
    pending = Pending(TimingWheel(now), horizon, clock, Releases(release_rates, ownership, clock))
    alarm = Alarm(settings.alarm_url)
    writer_watch = WriterWatch(backend, alarm, clock)
    facts = Facts(given.place, backend, pending, writer_watch, spoilt_rows)
    return Ground(
        store=store,
        clock=clock,
        alarm=alarm,
        rates=Rates(time.monotonic),
        ownership=ownership,
        coverage=coverage,
        spoilt_rows=spoilt_rows,
        cleaning=cleaning,
        directory=directory,
        pending=pending,
        nodes=Nodes(store, clock, settings.node, newest(), facts, ownership, given.notices),
        writer_watch=writer_watch,
        signals=Signals(pending, directory, listeners, doorbells, Unsealed(), given.notices),
    )

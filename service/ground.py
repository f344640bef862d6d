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


class Ground:
    """The ground of one node. Rates, ownership and spoilt rows, which `Orders`, `Releases` and the directory read, are
    objects shared with the parts that write them."""

    def __init__(self, given: Surroundings, clock: Clock) -> None:
        settings, backend = given.settings, given.backend
        self.clock = clock
        self.rates = Rates(time.monotonic)
        self.ownership = ownership = Ownership()
        self.spoilt_rows = spoilt_rows = SpoiltRows()
        release_rates = dict[int, int]()
        self.coverage = coverage = Coverage(clock, ownership, shared=backend.shared)
        orders = Orders(
            coverage.unseen_from,
            coverage.read_until,
            rated=release_rates.__contains__,
            holds=ownership.holds,
            aside=spoilt_rows,
        )
        ladder, window = Ladder(settings.ladder), settings.idempotency_window
        watch = given.outage.watch
        self.store = store = Store(backend, watch=watch, window=window, ladder=ladder, courses=course_of, orders=orders)
        listeners, doorbells, self.cleaning = Listeners(), Doorbells(), CleaningNotes()
        self.directory = Directory(
            store,
            clock,
            auto_create=settings.auto_create,
            forgetting=Forgetting(store, given.metrics, listeners, doorbells, self.cleaning),
            release_rates=release_rates,
        )
        now = clock.now()
        horizon = Horizon(now, settings.horizon, settings.horizon_step)
        self.pending = Pending(TimingWheel(now), horizon, clock, Releases(release_rates, ownership, clock))
        self.alarm = Alarm(settings.alarm_url)
        self.writer_watch = WriterWatch(backend, self.alarm, clock)
        facts = Facts(given.place, backend, self.pending, self.writer_watch, spoilt_rows)
        self.nodes = Nodes(store, clock, settings.node, newest(), facts, ownership, given.notices)
        self.signals = Signals(self.pending, self.directory, listeners, doorbells, Unsealed(), given.notices)

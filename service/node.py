"""A node: the parts of one server over one store. `tasks` runs their tasks, and HTTP handlers call them.

Publishes, cancels, claims and settlements are written by tasks of the node's own (a combiner, a coordinator), so a
client that disconnects interrupts no transaction. Rare work, such as making a topic, is written by the request's task.
"""

import ssl
import time
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, cast

import trio

from .access.clients import ClientOwners
from .access.keyring import Keyring
from .access.sessions import Sessions
from .clock import Clock
from .engine.consume.clients import Clients
from .engine.consume.deliveries import Deliveries
from .engine.consume.groups import Groups
from .engine.consume.liveness import Liveness
from .engine.consume.members import Members
from .engine.consume.operations import Operations
from .engine.consume.pauses import Pauses
from .engine.consume.readers import Readers
from .engine.consume.sealer import Sealer
from .engine.consume.turns import Turns
from .engine.dispatch.aside import Aside
from .engine.dispatch.burst import Burst
from .engine.dispatch.dispatcher import Dispatcher
from .engine.dispatch.due_topics import DueTopics
from .engine.dispatch.guarded_promotion import GuardedPromotion
from .engine.dispatch.guards import Guards
from .engine.dispatch.held import Held
from .engine.dispatch.loader import Loader
from .engine.dispatch.lookahead import Lookahead
from .engine.dispatch.promotion import Promotion
from .engine.dispatch.spoilt import Spoilt
from .engine.dispatch.sweeps import Sweeps
from .engine.dispatch.unblocking import Unblocking
from .engine.publish.accepted import Accepted
from .engine.publish.forecast import Forecast
from .engine.publish.intake import Intake
from .engine.publish.keyed import KeyedTimers
from .engine.publish.limits import Limits
from .engine.publish.schedules import Schedules
from .engine.publish.shaping import Shaping
from .engine.state.pace import Pace
from .engine.topics.catalogue import Catalogue
from .engine.topics.group_ranking import GroupRanking
from .engine.topics.ranking import Ranking
from .engine.topics.remover import Remover
from .ground import Ground, Surroundings
from .push.addresses import read_networks
from .push.pusher import PushContext
from .push.pushers import Pushers
from .settings import Settings
from .upkeep.cleaner import Cleaner
from .upkeep.clock_watch import ClockWatch
from .upkeep.host_watch import HostWatch
from .upkeep.measures import Measures
from .upkeep.write_probe import WriteProbe

if TYPE_CHECKING:
    from .push.posting import Poster

_LEFT_FOR_THE_END = 5.0
"""Seconds of the shutdown's grace reserved for the last writes, and as many again for the hand-over to other nodes; a
fifth of the grace each where that is less."""


class Node(Ground):
    """A caller asks the part that does the work: `await node.intake.cancel(id_)`.

    Each part is made from the ground and the parts before it; what other parts have to know goes through the signals.
    """

    def __init__(self, given: Surroundings, clock: Clock) -> None:
        super().__init__(given, clock)
        self.notices = given.notices
        self.counting = trio.Lock()
        """Held while rows of all topics are counted: one count at a time, for the readers serve other requests, too."""
        accepted = Accepted(self.directory, given.metrics, self.rates, self.signals)
        self._consume(given)
        self._publish(given, accepted)
        self._dispatch(given, accepted)
        self._keep_up(given)

    def _consume(self, given: Surroundings) -> None:
        store, clock, directory, signals, nodes = self.store, self.clock, self.directory, self.signals, self.nodes
        metrics, settings, present_for = given.metrics, given.settings, given.settings.client_timeout
        deliveries = Deliveries(metrics, self.rates)
        turns = Turns(store, clock, metrics, self.alarm, nodes, signals, deliveries)
        self.groups = Groups(store, directory, clock, metrics, signals, self.cleaning, turns, present_for)
        self.operations = Operations(store, clock, signals, self.groups)
        self.pauses = Pauses(store, directory, signals)
        self.liveness = Liveness(store, clock, self.groups, present_for)
        self.members = Members(store, clock, self.groups, present_for)
        self.clients = Clients(store, directory, self.liveness, self.groups)
        self.readers = Readers(store, directory, clock, signals.listeners, deliveries)
        self.sealer = Sealer(store, clock, directory, signals, widest=settings.widest_hole)
        self.catalogue = Catalogue(store, directory, signals)
        self.ranking = Ranking(store, directory, self.rates)
        self.group_ranking = GroupRanking(store, directory)
        self.remover = Remover(store, directory, clock, signals)

    def _publish(self, given: Surroundings, accepted: Accepted) -> None:
        store, clock, directory, signals, nodes = self.store, self.clock, self.directory, self.signals, self.nodes
        metrics, waiting = given.metrics, given.settings.max_waiting
        self.pace = Pace()
        limits = Limits(store, clock, nodes)
        self.schedules = Schedules(store, clock, accepted)
        self.intake = Intake(
            store, directory, clock, metrics, accepted, signals, limits, self.schedules, nodes, waiting
        )
        self.timers = KeyedTimers(store, directory, clock, metrics, accepted, signals, limits, waiting)
        self.forecast = Forecast(store, clock, metrics)
        self.shaping = Shaping(store, clock, self.pending.wheel, self.pace)

    def _dispatch(self, given: Surroundings, accepted: Accepted) -> None:
        store, clock, directory, signals, nodes = self.store, self.clock, self.directory, self.signals, self.nodes
        metrics, pending, ownership, coverage = given.metrics, self.pending, self.ownership, self.coverage
        declared = {guard.name: guard for guard in given.settings.guards}
        self.spoilt = Spoilt(store, clock, self.spoilt_rows)
        guarded = GuardedPromotion(store, directory, clock, metrics, signals, self.spoilt)
        self.guards = Guards(declared, store, clock, metrics, self.alarm, nodes, guarded)
        self.held = Held()
        aside = Aside(self.held, self.guards, self.spoilt_rows)
        self.promotion = Promotion(
            store, directory, clock, metrics, signals, accepted, self.guards, self.held, self.spoilt, self.pace
        )
        self.unblocking = Unblocking(self.held, self.promotion, signals, clock)
        self.lookahead = Lookahead(pending, DueTopics(store, directory), clock)
        burst = Burst(pending, self.promotion, self.lookahead, clock, aside)
        self.dispatcher = Dispatcher(pending, self.promotion, burst, clock)
        self.loader = Loader(store, pending, clock, ownership, coverage, nodes)
        self.sweeps = Sweeps(
            store, pending, clock, ownership, coverage, signals, aside, self.spoilt, self.groups, self.loader
        )

    def _keep_up(self, given: Surroundings) -> None:
        store, clock, directory = self.store, self.clock, self.directory
        metrics, settings = given.metrics, given.settings
        self.cleaner = Cleaner(store, directory, clock, metrics, settings, self.pending, self.cleaning)
        self.measures = Measures(store, directory, metrics)
        self.clock_watch = ClockWatch(clock, self.alarm, store.backend.skew)
        before = (self.clock_watch.follow_another, directory.read_anew, self.sweeps.read_anew)
        self.host_watch = HostWatch(store.backend, before, (self.loader.reload,))
        self.write_probe = WriteProbe(store, given.outage, clock, self.alarm, time.monotonic)
        self.keyring = Keyring(store, always=settings.always_asks)
        self.sessions = Sessions(self.keyring, clock, store)
        self.client_owners = ClientOwners(store, clock, self.keyring, directory.look_up_group)
        context = PushContext(
            store,
            self.groups,
            clock,
            metrics,
            self.alarm,
            poster=cache(partial(_make_poster, settings)),
            lease=min(settings.client_timeout, settings.max_lease),
            leave=self.liveness.deregister,
            asked=self.pauses.asked,
        )
        networks, grace = read_networks(settings.push_allow), left_for_the_end(settings) / 2
        self.pushers = Pushers(context, directory, self.nodes, settings.node, networks, grace)

    def stop(self) -> None:
        """Stops claims and ends long polls; everything else goes on until it is answered."""
        self.nodes.stop()
        self.pushers.stop()
        self.groups.stop()
        self.intake.hurry()
        self.timers.hurry()
        self.liveness.hurry()
        self.cleaner.stop()
        self.readers.stop()

    @property
    def idle(self) -> bool:
        return all(part.idle for part in (self.pushers, self.groups, self.intake, self.timers, self.readers))


def _make_poster(settings: Settings) -> "Poster":
    """Makes the poster at the first push: a server that pushes nothing does not load the modules for it."""
    posting, lookups = (import_module(f".push.{name}", __package__) for name in ("posting", "lookups"))
    trusted = ssl.create_default_context()
    trusted.set_alpn_protocols(["http/1.1"])
    return cast("Poster", posting.Poster(read_networks(settings.push_allow), lookups.Lookups(), trusted))


def left_for_the_end(settings: Settings) -> float:
    """Seconds of the grace that are kept for the last writes."""
    return min(_LEFT_FOR_THE_END, settings.shutdown_grace / 5000)

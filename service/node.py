"""A node: the parts of one server over one store. `serve` makes it, `tasks` keeps it going, HTTP's handlers ask it.

Every write goes through a task of the node's own (a combiner or a coordinator), never through a request's, so that a
client that goes away cuts no transaction in two.
"""

import trio
from attrs import field, frozen

from ..store.store import Store
from .access.clients import ClientOwners
from .access.keyring import Keyring
from .access.sessions import Sessions
from .alarm import Alarm
from .clock import Clock
from .groups.groups import Groups
from .groups.members import Members
from .groups.membership import Membership
from .groups.operations import Operations
from .groups.pauses import Pauses
from .groups.roster import Roster
from .hand.guards import Guards
from .hand.hand import Hand
from .hand.loader import Loader
from .hand.promotion import Promotion
from .hand.sweeps import Sweeps
from .nodes import Nodes
from .push.pushers import Pushers
from .stream.forecast import Forecast
from .stream.growth import Growth
from .stream.intake import Intake
from .stream.readers import Readers
from .stream.schedules import Schedules
from .stream.shaping import Shaping
from .stream.timers import Timers
from .topics.catalogue import Catalogue
from .topics.directory import Directory
from .topics.group_ranking import GroupRanking
from .topics.ranking import Ranking
from .topics.remover import Remover
from .upkeep.cleaner import Cleaner
from .upkeep.clock_watch import ClockWatch
from .upkeep.host_watch import HostWatch
from .upkeep.measures import Measures
from .upkeep.write_probe import WriteProbe
from .upkeep.writer_watch import WriterWatch


@frozen(eq=False)
class Node:
    """Who wants something asks the part that does it: `await node.intake.cancel(id_)`."""

    store: Store
    clock: Clock
    directory: Directory
    catalogue: Catalogue
    ranking: Ranking
    group_ranking: GroupRanking
    remover: Remover
    intake: Intake
    timers: Timers
    schedules: Schedules
    forecast: Forecast
    shaping: Shaping
    readers: Readers
    growth: Growth
    groups: Groups
    operations: Operations
    pauses: Pauses
    membership: Membership
    members: Members
    roster: Roster
    hand: Hand
    loader: Loader
    promotion: Promotion
    guards: Guards
    sweeps: Sweeps
    cleaner: Cleaner
    measures: Measures
    alarm: Alarm
    clock_watch: ClockWatch
    host_watch: HostWatch
    writer_watch: WriterWatch
    write_probe: WriteProbe
    keyring: Keyring
    sessions: Sessions
    nodes: Nodes
    client_owners: ClientOwners
    pushers: Pushers
    counting: trio.Lock = field(factory=trio.Lock, init=False)
    """Held by who counts rows of everybody's: one after another, for the readers are for others, too."""

    def stop(self) -> None:
        """No more claims, and long polls go home; everything else goes on until it is answered."""
        self.nodes.stop()
        self.pushers.stop()
        self.groups.stop()
        self.intake.hurry()
        self.timers.hurry()
        self.membership.hurry()
        self.cleaner.stop()
        self.readers.stop()

    @property
    def idle(self) -> bool:
        """Whether nothing is left to be written."""
        return all(part.idle for part in (self.pushers, self.groups, self.intake, self.timers, self.readers))

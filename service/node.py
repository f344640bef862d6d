"""A node: the parts of one server over one store. `serve` makes it, `tasks` keeps it going, HTTP's handlers ask it.

Every write goes through a task of the node's own (a combiner or a coordinator), never through a request's, so that a
client that goes away cuts no transaction in two.
"""

import trio
from attrs import field, frozen

from ..store.store import Store
from .access.clients import ClientOwners
from .access.keyring import Keyring
from .alarm import Alarm
from .clock import Clock
from .groups.groups import Groups
from .groups.members import Members
from .groups.membership import Membership
from .groups.operations import Operations
from .groups.roster import Roster
from .hand.hand import Hand
from .hand.loader import Loader
from .hand.promotion import Promotion
from .hand.sweeps import Sweeps
from .nodes import Nodes
from .stream.growth import Growth
from .stream.intake import Intake
from .stream.readers import Readers
from .topics.catalogue import Catalogue
from .topics.directory import Directory
from .topics.ranking import Ranking
from .topics.remover import Remover
from .upkeep.cleaner import Cleaner
from .upkeep.clock_watch import ClockWatch
from .upkeep.host_watch import HostWatch
from .upkeep.measures import Measures


@frozen(eq=False)
class Node:
    """Who wants something asks the part that does it: `await node.intake.cancel(id_)`."""

    store: Store
    clock: Clock
    directory: Directory
    catalogue: Catalogue
    ranking: Ranking
    remover: Remover
    intake: Intake
    readers: Readers
    growth: Growth
    groups: Groups
    operations: Operations
    membership: Membership
    members: Members
    roster: Roster
    hand: Hand
    loader: Loader
    promotion: Promotion
    sweeps: Sweeps
    cleaner: Cleaner
    measures: Measures
    alarm: Alarm
    clock_watch: ClockWatch
    host_watch: HostWatch
    keyring: Keyring
    nodes: Nodes
    client_owners: ClientOwners
    counting: trio.Lock = field(factory=trio.Lock, init=False)
    """Held by who counts rows of everybody's: one after another, for the readers are for others, too."""

    def stop(self) -> None:
        """No more claims, and long polls go home; everything else goes on until it is answered."""
        self.nodes.stop()
        self.groups.stop()
        self.intake.hurry()
        self.membership.hurry()
        self.cleaner.stop()
        self.readers.stop()

    @property
    def idle(self) -> bool:
        """Whether nothing is left to be written."""
        return self.groups.idle and self.intake.idle and self.readers.idle

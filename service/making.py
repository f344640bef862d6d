"""The making of a server: a store is asked until it answers, and then a node is made over it."""

from collections.abc import Callable
from functools import partial

from ..store.ports import Backend
from ..store.steady_clock import boottime
from ..store.store import Store
from .clock import Clock
from .facts import Address
from .ground import Surroundings, lay_ground
from .lifecycle import Lifecycle
from .metrics import Metrics
from .node import Node
from .notices import Notices
from .outages import Outage
from .settings import Settings


def begin(
    backend: Backend,
    settings: Settings,
    metrics: Metrics,
    notices: Notices | None = None,
    clock: Clock | None = None,
    *,
    place: Address | None = None,
    elapsed: Callable[[], int] = boottime,
    ahead: Callable[[], float] = float,
) -> Lifecycle:
    """A server over this backend, which is to be `run`. `elapsed` stands for CLOCK_BOOTTIME, in nanoseconds; `ahead`:
    how many milliseconds of that the database's clock knows nothing of."""
    outage = Outage(metrics.db_error)
    first = Store(backend, watch=outage.watch)  # until there is a node it is asked for its schema and the time
    server = partial(getattr, backend, "server")
    clock = clock or Clock(first.exact_now, monotonic=elapsed, server=server, ahead=ahead)
    given = Surroundings(backend, settings, metrics, notices, place or Address(settings.url), outage)
    return Lifecycle(first, metrics, clock, partial(make_node, given))


def make_node(given: Surroundings, clock: Clock) -> Node:
    """A node over a clock that knows the time."""
    return Node(given, lay_ground(given, clock))

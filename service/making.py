"""The making of a server: its lifecycle asks the store until it answers, and then makes a node over it."""

from collections.abc import Callable
from functools import partial

from ..store.ports import Backend
from ..store.steady_clock import boottime
from ..store.store import Store
from .clock import Clock
from .facts import Address
from .ground import Surroundings
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
    """A server over this backend; the caller has to `run` it. `elapsed` stands in for CLOCK_BOOTTIME, in nanoseconds;
    `ahead`: milliseconds by which that was moved on without the database's clock."""
    outage = Outage(metrics.db_error)
    first = Store(backend, watch=outage.watch)  # for schema, clock and readiness; the node has its own
    server = partial(getattr, backend, "server")
    clock = clock or Clock(first.exact_now, monotonic=elapsed, server=server, ahead=ahead)
    given = Surroundings(backend, settings, metrics, notices, place or Address(settings.url), outage)
    return Lifecycle(first, metrics, clock, partial(Node, given))

"""The life of a server: it waits for its store, makes a node and runs it, then stops and finishes what has begun."""

import time
from collections.abc import Callable
from contextlib import suppress

import structlog
import trio
from attrs import define, field

from ..store.errors import Contention, StoreError, Unavailable
from ..store.store import Store
from .clock import Clock
from .engine.dispatch.spoilt import FACT as SPOILT
from .errors import Stopping
from .metrics import Metrics
from .node import Node
from .outages import why_away
from .rounds import until_done
from .tasks import run_tasks
from .upkeep.writer_watch import FACT as RIVALS

_TAKEN, _ENDED = 3.0, 0.5
"""Seconds to wait at most until other nodes hold what this node held, and until the last promotion is over."""
_SEEN = 1.2
"""Seconds after which the sweeps of other nodes, one each second, have found timers that only this node knew."""

log = structlog.get_logger()


@define(eq=False)
class Lifecycle:
    """A server from its first look at the store on. `make` makes a node over a clock that has its first sample."""

    _store: Store
    _metrics: Metrics
    _clock: Clock
    _make: Callable[[Clock], Node]
    ready: trio.Event = field(factory=trio.Event, init=False)
    """Set when the store has answered and there is a node."""
    _node: Node | None = field(default=None, init=False)
    _waits_for: StoreError | None = field(default=None, init=False)
    """Why the store did not answer at the last attempt to start."""
    _stopping: bool = field(default=False, init=False)
    _durability: list[str] = field(factory=list[str], init=False)

    @property
    def node(self) -> Node:
        """The node. Raises `Stopping` before there is one."""
        if self._node is None:
            raise Stopping("the server is starting: its store has not answered yet")
        return self._node

    async def run(self) -> None:
        """Opens the schema, recovers and serves, until cancelled. Raises `SchemaError` when the schema is not ours."""
        await until_done(self._open, (Unavailable, Contention))
        node = self.node
        pending, directory = node.pending, node.directory
        self._metrics.watch(
            entries=pending.__len__,
            behind=lambda: pending.behind,
            ahead=lambda: self._clock.now() / 1000 - time.time(),
            standing=node.sealer.standing.__len__,
            spoilt=node.spoilt.rows.__len__,
            held_back=lambda: {directory.name_of(id_): pending.held_back_of(id_) for id_ in directory.release_rates},
        )
        self.ready.set()
        await run_tasks(node)

    async def _open(self) -> None:
        try:
            await self._try_to_open()
        except StoreError as error:
            self._waits_for = error
            raise

    async def _try_to_open(self) -> None:
        """Brings the schema to this program's version, and reads what the node needs before it can answer anything."""
        with self._store.watch("read"):  # nothing to migrate is a read
            applied = await self._store.backend.migrate()
        if applied:
            log.info("schema_migrated", migrations=applied)
        await self._store.backend.agree()
        await self._clock.take()
        node = self._make(self._clock)
        await node.nodes.enter()
        await node.keyring.refresh()
        await node.directory.refresh()
        await node.liveness.look()
        with self._store.watch("read"):
            self._durability = node.nodes.durability = await self._store.backend.durability()
        for warning in self._durability:
            log.warning("durability", problem=warning)
        self._node = node
        if self._stopping:
            node.stop()

    def stop(self) -> None:
        """Stops claims and ends long polls; everything else goes on until it is answered."""
        self._stopping = True
        if self._node is not None:
            self._node.stop()

    async def drain(self) -> None:
        """Waits until nothing is left to be written."""
        while self._node is not None and not self._node.idle:
            await trio.sleep(0.01)

    async def hand_over(self) -> None:
        """Waits until other nodes, if any, hold what this one held, and finishes promotions that are under way."""
        if self._node is None:
            return
        with trio.move_on_after(_TAKEN):
            if not await self._node.nodes.relieved():
                return
        await trio.sleep(_SEEN)
        with trio.move_on_after(_ENDED):
            # Messages of a promotion that is cut off here come late: other nodes leave rows alone that this one has
            # locked.
            await self._node.dispatcher.stop()
            await self._node.held.emptied()

    async def leave(self) -> None:
        """Gives back the duties and removes this node's row, so that nobody waits for it; not if the store is away."""
        if self._node is not None:
            with suppress(StoreError):
                await self._node.nodes.leave()

    async def readiness(self) -> list[tuple[str, str | None]]:
        """The checks of /readyz as (name, what is wrong or None): store, writes, host, clock, host_clock, writers,
        hand, rows, sealing, stopping, durability."""
        node = self._node
        if node is None:
            why = "" if self._waits_for is None else f": {why_away(self._waits_for)}; the log tells more"
            return [("store", f"the store has not answered yet{why}")]  # the keys that allow more are in the store
        checks: list[tuple[str, str | None]] = []
        try:
            await self._store.now()
            checks.append(("store", None))
        except StoreError as error:
            checks.append(("store", str(error)))
        checks.append(("writes", node.write_probe.wrong))
        checks.append(("host", node.host_watch.wrong))
        checks.append(("clock", _doubt(node.clock)))
        checks.append(("host_clock", node.clock_watch.wrong))
        checks.append(("writers", node.writer_watch.wrong(node.nodes.heard(RIVALS))))
        behind = node.pending.behind
        checks.append(("hand", f"the hand is {behind} ms behind" if behind > 60_000 else None))
        checks.append(("rows", node.spoilt.rows.wrong(node.nodes.heard(SPOILT))))
        checks += [("sealing", str(one)) for one in node.sealer.standing.values()]
        checks.append(("stopping", "the server is shutting down" if self._stopping else None))
        checks += [("durability", problem) for problem in self._durability]
        return checks


def _doubt(clock: Clock) -> str | None:
    if clock.is_anothers:
        return "another server has the database, and its clock is to be read first; promotion waits"
    return "the database's clock has jumped; promotion waits" if clock.in_doubt else None

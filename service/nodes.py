"""This server among those that work on the same database: its row, and who has the duties.

A node renews its row every other second, by the database's clock, on a connection of its own. One that has not renewed
for five seconds is dead to the others, and any of them takes its row away; when it wakes, it enters again.

Duties are what one node does for all: clearing up, what is removed, what users' transactions have cancelled, counts for
the metrics. Who has them holds a lease, and trusts itself a second less than the others do. Nothing breaks when two
have them for a moment: rows arbitrate. Whoever stops gives them back, and the next node has them within two seconds.
"""

import secrets
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import structlog
import trio
from attrs import define, evolve, field, frozen

from ..store import leases, nodes
from ..store.errors import DuplicateKey, StoreError
from ..store.nodes import NodeRow
from ..store.store import Store
from .clock import Clock
from .outages import tell_failure

_EVERY = 1.0
"""Seconds between two rounds: in one it renews, in the next it looks at the others and at the duties."""
LEASE = 5_000
"""Milliseconds after which a node that does not renew is dead, and its duties are free."""
_TRUST = 4_000
"""Milliseconds for which a node is sure of its duties."""
_DUTIES = "duties"
_MAKERS = 4
"""Rows of a tally that a node counts in, one for each kind of work."""
_TRIES = 20

_read = msgspec.json.Decoder(dict[str, Any]).decode

log = structlog.get_logger()


@frozen
class NodeState:
    """A node as it is known here."""

    row: NodeRow
    facts: dict[str, Any]
    alive: bool
    duties: bool
    """It does for all what one does."""


@define(eq=False)
class Nodes:
    """`enter` once the schema is there, `run` for ever, `leave` at the end. `tell` is what it tells of itself."""

    _store: Store
    _clock: Clock
    _name: str
    _level: int
    _tell: Callable[[], dict[str, Any]]
    _own: NodeRow = field(init=False)
    _others: Sequence[NodeRow] = field(default=(), init=False)
    _sure_until: int = field(default=0, init=False)
    """Unix milliseconds up to which the duties are ours."""
    _looks: bool = field(default=True, init=False)
    _left: bool = field(default=False, init=False)
    _turn: trio.Lock = field(factory=trio.Lock, init=False)
    """A round, or the end: what is given back is not taken again by a round that was under way."""
    durability: Sequence[str] = field(default=(), init=False)
    """Under which settings of the database an accepted message can be lost."""

    def __attrs_post_init__(self) -> None:
        self._own = NodeRow(secrets.token_hex(8), self._name, 0, self._level, 0, 0, b"")

    @property
    def boot(self) -> str:
        """This node's name that no other ever has."""
        return self._own.boot

    @property
    def has_duties(self) -> bool:
        """Whether this node does what one does for all."""
        return not self._store.backend.shared or self._clock.now() < self._sure_until

    async def until_duties(self) -> None:
        """Waits until they are this node's."""
        while not self.has_duties:
            await trio.sleep(_EVERY)

    @property
    def level(self) -> int:
        """The newest migration that all nodes know: nothing that is newer may be used."""
        return min([self._level, *[one.level for one in self._others]])

    async def enter(self) -> None:
        """Takes a slot. Raises `StoreError`."""
        now = self._clock.now()
        self._own = evolve(self._own, started_at=self._own.started_at or now, renewed_at=now, facts=self._facts())
        if not self._store.backend.shared:
            return
        await self._look()
        for _ in range(_TRIES):
            try:
                self._own = await self._store.note(nodes.enter, self._own)
            except DuplicateKey:  # another has just taken the slot
                continue
            break
        else:
            raise DuplicateKey("so many servers start at once that none finds a slot")
        self._store.maker = self._own.slot * _MAKERS
        for one in self._others:
            if one.name == self._name:
                log.warning(
                    "node_name_taken", node=self._name, slot=one.slot, because="give each server its own: --node"
                )
        await self._take_duties()

    async def run(self) -> None:
        """Renews for ever."""
        if not self._store.backend.shared:
            await trio.sleep_forever()
        while True:
            await trio.sleep(_EVERY)
            try:
                await self.round()
            except StoreError as error:
                tell_failure("node_not_renewed", error)

    async def round(self) -> None:
        """Renews, or looks. Raises `StoreError`."""
        async with self._turn:
            if not self._left:
                await self._round()

    async def _round(self) -> None:
        self._looks = not self._looks
        if self._looks:
            await self._look()
            await self._take_duties()
            return
        now, facts = self._clock.now(), self._facts()
        if await self._store.note(nodes.renew, self.boot, now, facts):
            self._own = evolve(self._own, renewed_at=now, facts=facts)
            return
        log.warning("node_was_taken_for_dead", node=self._name, slot=self._own.slot)
        await self.enter()

    async def leave(self) -> None:
        """Gives back what is ours, so that nobody waits for it."""
        async with self._turn:
            self._left, self._sure_until = True, 0
            if self._store.backend.shared:
                await self._store.note(leases.give_back, _DUTIES, self.boot)
                await self._store.note(nodes.leave, self.boot)

    async def states(self) -> list[NodeState]:
        """All nodes as they are now, by slot."""
        if not self._store.backend.shared:
            own = evolve(self._own, renewed_at=self._clock.now(), facts=self._facts())
            return [NodeState(own, self._told(), alive=True, duties=True)]
        rows, lease = await self._store.read(nodes.all_nodes), await self._store.read(leases.find, _DUTIES)
        now = self._clock.now()
        holder = lease.holder if lease is not None and lease.until > now else ""
        return [NodeState(row, _read(row.facts), self._lives(row), row.boot == holder) for row in rows]

    async def _look(self) -> None:
        """Who is there; the rows of the dead go."""
        rows = [row for row in await self._store.read(nodes.all_nodes) if row.boot != self.boot]
        self._others = [row for row in rows if self._lives(row)]
        dead = [row for row in rows if not self._lives(row)]
        if dead:
            before = self._clock.now() - LEASE
            gone = await self._store.note(nodes.bury, [row.boot for row in dead], before)
            for row in dead:
                if row.boot in gone:
                    log.warning("node_dead", node=row.name, slot=row.slot, silent_ms=self._clock.now() - row.renewed_at)

    def _lives(self, row: NodeRow) -> bool:
        return self._clock.now() - row.renewed_at <= LEASE

    async def _take_duties(self) -> None:
        now = self._clock.now()
        had = now < self._sure_until
        lease = None if had else await self._store.read(leases.find, _DUTIES)
        free = lease is None or lease.until <= now or lease.holder == self.boot
        has = free and await self._store.note(leases.hold, _DUTIES, self.boot, now, now + LEASE)
        self._sure_until = now + _TRUST if has else 0
        if has != had:
            log.info("duties_taken" if has else "duties_lost", node=self._name, slot=self._own.slot)

    def _facts(self) -> bytes:
        return msgspec.json.encode(self._told())

    def _told(self) -> dict[str, Any]:
        return self._tell() | {"durability": list(self.durability)}

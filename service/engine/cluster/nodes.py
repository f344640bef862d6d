"""This server among the nodes on the same database: its row, the rows of the others, and who has the duties.

A node renews its row every other second, by the database's clock, on a connection of its own. A node that another has
seen silent for more than five seconds is dead to it, and it removes that node's row (`silence.py`); when the dead node
wakes, it enters again.

Duties are the work that one node does for all: cleaning, clearing away what was removed, counting what users'
transactions have cancelled, counts for the metrics. The node that has them holds a lease, and trusts it a second less
than the others do. Nothing breaks when two nodes have them for a moment: rows arbitrate. A node that stops gives them
back, and the next node has them within two seconds; after a node has died, within two seconds of the lease's end.

A node's row also says which shards of the wheel it holds (`ownership.py`). A node that stops says so at once, and goes
on until other nodes say that they hold those shards.
"""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec
import structlog
import trio
from attrs import define, evolve, field, frozen

from ....store import leases, nodes
from ....store.errors import DuplicateKey, Unavailable
from ....store.nodes import NodeRow
from ....store.store import Store
from ...clock import JUMP, Clock
from ...notices import Notices
from ...outages import Trouble
from .ownership import Ownership, Peer
from .silence import Silence

_EVERY = 1.0
"""Seconds between two rounds: one renews, the next looks at the others and at the duties."""
_LEAVING = 0.2
"""The same while this node leaves, until other nodes hold what it held."""
LEASE = 5_000
"""Milliseconds of silence after which a node is dead."""
HELD = 8_000
"""Milliseconds for which duties are taken."""
_TRUST = 7_000
"""Milliseconds for which a node is sure of its duties."""
_SOON = 4_000
"""Milliseconds before the end of that trust at which it takes them anew: at every other look, so one may fail."""
_DUTIES = "duties"
_TALLY_SHARDS = 8
"""Rows of a tally that a node counts in, one for each kind of work."""
_TRIES = 20

_read_facts = msgspec.json.Decoder(dict[str, Any]).decode

log = structlog.get_logger()


@frozen
class NodeState:
    row: NodeRow
    facts: dict[str, Any]
    alive: bool
    duties: bool
    """Whether it has the duties."""


class Telling(Protocol):
    """The source of the facts that a node tells of itself."""

    def told(self) -> dict[str, Any]:
        """The facts, to be written as JSON."""
        ...


@define(eq=False)
class Nodes:
    """The nodes as this one sees them. `enter` once the schema is there, `run` for ever, `stop` and `leave` at the end.
    With `notices` the others hear of a change at once."""

    _store: Store
    _clock: Clock
    _name: str
    _level: int
    _facts: Telling
    ownership: Ownership = field(factory=Ownership)
    _notices: Notices | None = None
    _own: NodeRow = field(init=False)
    _others: Sequence[NodeRow] = field(default=(), init=False)
    _silence: Silence = field(factory=Silence, init=False)
    _namesakes: dict[str, int] = field(factory=dict[str, int], init=False)
    """By boot: when a server of our name had last renewed as we entered."""
    _staying: Sequence[int] = field(default=(), init=False)
    """The slots of the other nodes that stay."""
    _place: tuple[int, int] = field(default=(0, 1), init=False)
    _sure_until: int = field(default=0, init=False)
    """Unix milliseconds until which the duties are ours."""
    _holder: str = field(default="", init=False)
    """The boot of the node that had the duties at the last look, and until when."""
    _theirs_until: int = field(default=0, init=False)
    _looks: bool = field(default=True, init=False)
    _left: bool = field(default=False, init=False)
    _renews_at_once: bool = field(default=False, init=False)
    _hurry: trio.Event = field(factory=trio.Event, init=False)
    _turn: trio.Lock = field(factory=trio.Lock, init=False)
    """Held by a round, and by `leave`: a round under way does not take again what was given back."""
    _renewing: Trouble = field(init=False)
    _looking: Trouble = field(init=False)
    durability: Sequence[str] = field(default=(), init=False)
    """Settings of the database under which an accepted message can be lost."""

    def __attrs_post_init__(self) -> None:
        self._own = NodeRow(secrets.token_hex(8), self._name, 0, self._level, 0, 0, b"")
        self._renewing = Trouble(trio.current_time, failed="node_not_renewed", well="node_renewed")
        self._looking = Trouble(trio.current_time, failed="nodes_not_seen", well="nodes_seen")

    @property
    def boot(self) -> str:
        """A name of this process that no other ever has."""
        return self._own.boot

    @property
    def place(self) -> tuple[int, int]:
        """The position of this node by slot, counted from 0, among the nodes that stay; and how many they are."""
        return self._place

    @property
    def has_duties(self) -> bool:
        """Whether this node does the work that one node does for all."""
        return not self._store.backend.shared or self._is_sure

    @property
    def _is_sure(self) -> bool:
        """Whether the duties are still ours; False when the clock was set back since by more than the second between
        `HELD` and `_TRUST`."""
        return 0 < self._sure_until - self._clock.now() <= HELD

    async def until_duties(self) -> None:
        while not self.has_duties:
            await trio.sleep(_EVERY)

    @property
    def level(self) -> int:
        """The newest migration that all nodes know: nothing that is newer may be used."""
        return min([self._level, *[one.level for one in self._others]])

    def heard(self, fact: str) -> list[str]:
        """All that other nodes tell under this name, their lists in one."""
        return [one for row in self._others for one in told_by(row, fact)]

    async def enter(self) -> None:
        """Takes a slot. Raises `StoreError`."""
        now = self._clock.now()
        self._own = evolve(self._own, started_at=self._own.started_at or now, renewed_at=now)
        if not self._store.backend.shared:
            self.ownership.see(self.boot, [])
            return
        await self._look()
        for _ in range(_TRIES):
            try:
                await self._write(self._enter)
            except DuplicateKey:  # another has just taken the slot
                continue
            break
        else:
            raise DuplicateKey("so many servers start at once that none finds a slot")
        self._see_place()
        self._namesakes = {one.boot: one.renewed_at for one in self._others if one.name == self._name}
        await self._take_duties()

    async def run(self) -> None:
        """Renews and looks in turn, for ever."""
        if not self._store.backend.shared:
            await trio.sleep_forever()
        while True:
            next_at = trio.current_time() + (_LEAVING if self.ownership.leaving else _EVERY)
            while await self._hurried(next_at):
                await self._safely(self.hasten, renews=self._renews_at_once)
            await self._safely(self.round, renews=self._looks)

    async def round(self) -> None:
        """Renews, or looks. Raises `StoreError`."""
        async with self._turn:
            if not self._left:
                self._looks = not self._looks
                await (self._look_around() if self._looks else self._renew())

    async def hasten(self) -> None:
        """Renews or looks out of turn, since something has changed. Raises `StoreError`."""
        renews, self._renews_at_once = self._renews_at_once, False
        async with self._turn:
            if not self._left:
                if renews:
                    await self._renew()
                if not renews or self.ownership.leaving:
                    await self._look_around()
        if renews and self._notices is not None:
            self._notices.tell("node", self._own.slot)

    async def _hurried(self, until: float) -> bool:
        with trio.move_on_at(until):
            await self._hurry.wait()
            self._hurry = trio.Event()
            return True
        return False

    async def _safely(self, step: Callable[[], Awaitable[None]], *, renews: bool) -> None:
        with (self._renewing if renews else self._looking).survived():
            await step()

    async def _look_around(self) -> None:
        await self._look()
        await self._take_duties()

    async def _renew(self) -> None:
        if not await self._write(self._store_renewal):
            log.warning("node_was_taken_for_dead", node=self._name, slot=self._own.slot)
            await self.enter()

    async def _write(self, write: Callable[[], Awaitable[bool]]) -> bool:
        """Writes this node's row as it is now; returns whether there is such a row."""
        told = self._told()
        self._own = evolve(self._own, renewed_at=self._clock.now(), facts=msgspec.json.encode(told))
        self.ownership.telling(told["shards"])
        if written := await write():
            self.ownership.told(told["shards"], leaving=told["leaving"])
        return written

    async def _enter(self) -> bool:
        self._take_slot((await self._store.note(nodes.enter, self._own)).slot)
        return True

    def _take_slot(self, slot: int) -> None:
        self._own = evolve(self._own, slot=slot)
        self._store.tally_shard = slot * _TALLY_SHARDS

    async def _store_renewal(self) -> bool:
        return await self._store.note(nodes.renew, self.boot, self._own.renewed_at, self._own.facts)

    def tell_soon(self) -> None:
        """Has this node's row written soon, since what it tells of itself has changed."""
        self._renews_at_once = True
        self._hurry.set()

    def look_soon(self, _slot: int) -> None:
        """Has the other nodes' rows read soon, since one of them has changed."""
        self._hurry.set()

    def stop(self) -> None:
        """Begins to leave: other nodes are to take over what this one holds."""
        self.ownership.leaving = True
        self.tell_soon()

    async def relieved(self) -> bool:
        """Waits until others hold what this node held; False when there are none."""
        while self._store.backend.shared and not self.ownership.relieved:
            await trio.sleep(_LEAVING / 10)
        return self.ownership.others

    async def leave(self) -> None:
        """Gives back the duties and removes this node's row, so that nobody waits for it."""
        async with self._turn:
            self._left, self._sure_until = True, 0
            if self._store.backend.shared:
                await self._store.note(leases.give_back, _DUTIES, self.boot)
                await self._store.note(nodes.leave, self.boot)

    async def states(self) -> list[NodeState]:
        """All nodes as they are now, by slot; if the store cannot be asked, as they were known to this one."""
        if not self._store.backend.shared:
            own = evolve(self._own, renewed_at=self._clock.now())
            return [NodeState(own, self._told(), alive=True, duties=True)]
        try:
            rows, lease = await self._store.read(nodes.all_nodes), await self._store.read(leases.find, _DUTIES)
        except Unavailable:
            here = NodeState(self._own, self._told(), alive=True, duties=self.has_duties)
            return sorted([here, *map(self._as_known, self._others)], key=lambda one: one.row.slot)
        now = self._clock.now()
        holder = lease.holder if lease is not None and lease.until > now else ""
        return [NodeState(row, _read(row.facts), self._lives(row), row.boot == holder) for row in rows]

    def _as_known(self, row: NodeRow) -> NodeState:
        return NodeState(row, _read(row.facts), self._lives(row), row.boot == self._holder and not self.has_duties)

    async def _look(self) -> None:
        """Reads which nodes are there, and removes the rows of dead ones."""
        server, asked = self._clock.server, self._clock.monotonic()
        seen = await self._store.read(nodes.look)
        if seen:
            self._clock.offer(seen[0].asked_at / 1000, server, asked)  # 0 is off, and so not taken
        for own in (row for row in seen if row.boot == self.boot):
            self._take_slot(own.slot)  # it is news when the answer to `_enter` was lost
        rows = [row for row in seen if row.boot != self.boot]
        self._silence.see(rows, self._clock.monotonic())
        self._others = [row for row in rows if self._lives(row)]
        peers = {row.slot: peer for row in self._others if (peer := _peer(row)) is not None}
        self.ownership.see(self.boot, list(peers.values()))
        self._staying = [slot for slot, peer in peers.items() if not peer.leaving]
        self._see_place()
        self._tell_namesakes()
        dead = [row for row in rows if not self._lives(row)]
        if dead:
            gone = await self._store.note(nodes.bury, dead)
            for row in dead:
                if row.boot in gone:
                    silent_ms = self._silence.of(row)
                    log.warning("node_dead", node=row.name, slot=row.slot, silent_ms=silent_ms)

    def _see_place(self) -> None:
        self._place = sum(slot < self._own.slot for slot in self._staying), len(self._staying) + 1

    def _tell_namesakes(self) -> None:
        """Warns of a server that had our name when we entered and has renewed since: so its row is not our own from
        before a kill."""
        for one in self._others:
            if one.renewed_at != self._namesakes.get(one.boot, one.renewed_at):
                del self._namesakes[one.boot]
                log.warning(
                    "node_name_taken", node=self._name, slot=one.slot, because="give each server its own: --node"
                )

    def _lives(self, row: NodeRow) -> bool:
        return self._silence.of(row) <= LEASE

    async def _take_duties(self) -> None:
        now = self._clock.now()
        had = self._is_sure
        if had and self._sure_until - now > _SOON:
            return
        if not had and 0 < self._theirs_until - now <= HELD + JUMP and self._is_there(self._holder):
            return  # a node that gives them back removes its row, too
        lease = None if had else await self._store.read(leases.find, _DUTIES)
        if lease is not None and lease.until - now > HELD + JUMP and not self._is_there(lease.holder):
            # The clock was set back since, and the holder is dead: nobody waits until the clock shows that time again.
            await self._store.note(leases.give_back, _DUTIES, lease.holder)
            lease = evolve(lease, until=0)
        self._holder, self._theirs_until = ("", 0) if lease is None else (lease.holder, lease.until)
        free = lease is None or lease.until <= now or lease.holder == self.boot
        has = free and await self._store.note(leases.hold, _DUTIES, self.boot, now, now + HELD)
        self._sure_until = now + _TRUST if has else 0
        if has != had:
            log.info("duties_taken" if has else "duties_lost", node=self._name, slot=self._own.slot)

    def _is_there(self, boot: str) -> bool:
        return any(one.boot == boot for one in self._others)

    def _told(self) -> dict[str, Any]:
        own = {"shards": self.ownership.to_tell, "leaving": self.ownership.leaving}
        return self._facts.told() | {"durability": list(self.durability)} | own


def _peer(row: NodeRow) -> Peer | None:
    """None where somebody has overwritten what the node tells."""
    facts = _read(row.facts)
    return Peer(row.boot, frozenset(facts["shards"]), bool(facts.get("leaving"))) if "shards" in facts else None


def told_by(row: NodeRow, fact: str) -> list[str]:
    """What a node tells under this name, a list."""
    return list(_read(row.facts).get(fact, ()))


def _read(facts: bytes) -> dict[str, Any]:
    """What a node tells of itself; nothing where that is not JSON."""
    try:
        return _read_facts(facts)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}

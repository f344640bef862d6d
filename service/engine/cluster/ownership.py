"""Shard ownership: which shards of the wheel this node holds, among the nodes on one database.

The nodes that are there determine who should hold a shard (`assignment`). A node that should hold one takes it: from
then on it adds what it finds for the shard to its wheel; it reads the rows that wait, and then its own row says that it
has the shard. Only then the node before lets go, in two steps: its row stops saying that it has the shard; and when it
looks again after that and the other still has the shard, it forgets it. So two nodes that see different nodes never
both rely on each other, and a shard is always in the wheel of a node that says so, unless that node dies. A shard in
two wheels does no harm: rows arbitrate.
"""

from collections.abc import Sequence, Set

import trio
from attrs import define, field, frozen

from ....wheel.shards import SHARDS
from .assignment import assign


@frozen
class Peer:
    """Another node, as its row describes it."""

    boot: str
    shards: Set[int]
    """Shards that it has in its wheel and does not mean to let go of."""
    leaving: bool


@define(eq=False)
class Ownership:
    """`see` is called after each look at the nodes, `take` and `drop` by the part that fills the wheel."""

    held: Set[int] = frozenset[int]()
    """Shards whose pages this node loads, and for which it looks ahead."""
    leaving: bool = field(default=False, init=False)
    """This node stops: it keeps what it holds until other nodes hold it."""
    relieved: bool = field(default=False, init=False)
    """Other nodes hold what this node holds, or there are none."""
    others: bool = field(default=False, init=False)
    """There are other nodes, and they stay."""
    _loaded: Set[int] = field(default=frozenset[int](), init=False)
    _wanted: Set[int] = field(default=frozenset[int](), init=False)
    _released: Set[int] = field(default=frozenset[int](), init=False)
    """Shards that their new owners have: our row is to say no longer that we have them."""
    _told: Set[int] = field(default=frozenset[int](), init=False)
    """Shards that our row says, or may say, that we have."""
    _told_leaving: bool = field(default=False, init=False)
    _spare: Set[int] = field(default=frozenset[int](), init=False)
    _changed: trio.Event = field(factory=trio.Event, init=False)

    def see(self, own: str, others: Sequence[Peer]) -> None:
        """Takes note of the other nodes, as they were after the last `told`; `own` is this node's boot."""
        staying = {one.boot: one.shards for one in others if not one.leaving}
        self.others = bool(staying)
        if self.leaving:
            owners = assign(frozenset(staying)) if staying else ()
            # A node relies on us until it has seen that we leave.
            have = all(shard in staying[owner] for shard, owner in enumerate(owners) if shard in self.held)
            self.relieved = have and (self._told_leaving or not staying)
            return
        owners = assign(frozenset({own, *staying}))
        self._wanted = {shard for shard in range(SHARDS) if owners[shard] == own}
        self._released = {shard for shard in self._loaded - self._wanted if shard in staying[owners[shard]]}
        self._spare = self._released - self._told
        if self._spare or self._wanted - self.held:
            self._changed.set()

    @property
    def to_tell(self) -> list[int]:
        """The shards that our row is to say that we have."""
        return sorted(self._loaded - self._released)

    def telling(self, shards: Sequence[int]) -> None:
        """Our row is about to name these shards; the write, or its answer, may be lost."""
        self._told = self._told | set(shards)

    def told(self, shards: Sequence[int], *, leaving: bool = False) -> None:
        """Our row names these shards and no others, and says whether we leave."""
        self._told, self._told_leaving = set(shards), leaving

    @property
    def part(self) -> float:
        """The part of the wheel that is held here; never 0, since this node also takes timers of others' shards."""
        return max(1, len(self.held)) / SHARDS

    def holds(self, shard: int) -> bool:
        return shard in self.held

    async def changed(self) -> None:
        """Waits until there is something to take or to drop."""
        await self._changed.wait()

    def take(self) -> Set[int]:
        """Takes the shards that should be held here and are not: from now on they are, and what waits is to be read."""
        self._changed = trio.Event()
        taken = frozenset[int]() if self.leaving else self._wanted - self.held
        self.held = self.held | taken
        return taken

    def loaded(self, shards: Set[int]) -> None:
        """The rows of these shards that wait are in the wheel."""
        self._loaded = self._loaded | shards

    def drop(self) -> Set[int]:
        """The shards to be forgotten; from now on they are not held here."""
        dropped, self._spare = self._spare, frozenset[int]()
        self._loaded, self.held = self._loaded - dropped, self.held - dropped
        self._released = self._released - dropped
        return dropped


def whole() -> Ownership:
    """The ownership of a wheel that no other node shares."""
    return Ownership(frozenset(range(SHARDS)))

"""Shard ownership: which shards of the wheel this node holds, of all that the nodes on one database hold together.

Who is to hold a shard follows from who is there (`assignment`). A node that is to hold one takes it: from then on it
adds to its wheel what it finds for it; it reads what waits, and then its row says that it has the shard.
Only then the one before lets go, in two steps: its row says that it has the shard no more; and when it looks again
after that, and the other has it still, it forgets it. So two that see different nodes never both rely on each other,
and a shard is always in the wheel of a node that says so, unless that dies. In two wheels it does no harm: rows
arbitrate.
"""

from collections.abc import Sequence, Set

import trio
from attrs import define, field, frozen

from ....wheel.shards import SHARDS
from .assignment import assign


@frozen
class Peer:
    """Another node, as its row tells."""

    boot: str
    shards: Set[int]
    """It has them in its wheel, and does not mean to let go of them."""
    leaving: bool


@define(eq=False)
class Ownership:
    """`see` after each look at the nodes, `take` and `drop` by who fills the wheel."""

    held: Set[int] = frozenset[int]()
    """Their pages are loaded, and it is looked ahead for them."""
    leaving: bool = field(default=False, init=False)
    """This node stops: it keeps what it holds until others have it."""
    relieved: bool = field(default=False, init=False)
    """Others have what this node holds; or there are none."""
    others: bool = field(default=False, init=False)
    """There are nodes that stay."""
    _loaded: Set[int] = field(default=frozenset[int](), init=False)
    _wanted: Set[int] = field(default=frozenset[int](), init=False)
    _released: Set[int] = field(default=frozenset[int](), init=False)
    """Their new owners have them; our row is to say no more that we do."""
    _told: Set[int] = field(default=frozenset[int](), init=False)
    """What our row says, or may say, that we have."""
    _told_leaving: bool = field(default=False, init=False)
    _spare: Set[int] = field(default=frozenset[int](), init=False)
    _changed: trio.Event = field(factory=trio.Event, init=False)

    def see(self, own: str, others: Sequence[Peer]) -> None:
        """Takes note of the other nodes, as they were after the last `told`; `own` is this node's boot."""
        staying = {one.boot: one.shards for one in others if not one.leaving}
        self.others = bool(staying)
        if self.leaving:
            owners = assign(frozenset(staying)) if staying else ()
            # Only who has seen that we leave relies on us no more.
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
        """What our row is to say that we have."""
        return sorted(self._loaded - self._released)

    def telling(self, shards: Sequence[int]) -> None:
        """Our row is about to say so; it may be lost, or its answer."""
        self._told = self._told | set(shards)

    def told(self, shards: Sequence[int], *, leaving: bool = False) -> None:
        """Our row says so, and nothing else; and whether we leave."""
        self._told, self._told_leaving = set(shards), leaving

    @property
    def part(self) -> float:
        """Which part of the wheel is held here; never none, for what is heard of is taken whoever has its shard."""
        return max(1, len(self.held)) / SHARDS

    def holds(self, shard: int) -> bool:
        """Whether this node holds it."""
        return shard in self.held

    async def changed(self) -> None:
        """Waits until there is something to take or to drop."""
        await self._changed.wait()

    def take(self) -> Set[int]:
        """Those that are to be held here and are not: from now on they are, and what waits is to be read."""
        self._changed = trio.Event()
        taken = frozenset[int]() if self.leaving else self._wanted - self.held
        self.held = self.held | taken
        return taken

    def loaded(self, shards: Set[int]) -> None:
        """What waits for them is in the wheel."""
        self._loaded = self._loaded | shards

    def drop(self) -> Set[int]:
        """Those that are to be forgotten: from now on they are not held here."""
        dropped, self._spare = self._spare, frozenset[int]()
        self._loaded, self.held = self._loaded - dropped, self.held - dropped
        self._released = self._released - dropped
        return dropped


def whole() -> Ownership:
    """Of a wheel that is shared with nobody."""
    return Ownership(frozenset(range(SHARDS)))

"""Coverage: of each shard, what is known here of what waits in it. The loader and the sweeps write it, and order by
time goes by it: what may be earlier and is not known is looked for, or waited for.
"""

from collections.abc import Set

from attrs import define, field

from ....store.ids import SHARDS
from ....store.timers.order import REACH
from ...clock import Clock
from ..cluster.ownership import Ownership

BEHIND = 120_000
"""Milliseconds that the sweeps look back."""
AHEAD = 1_500
"""Milliseconds that they look ahead."""
AWAY = 10_000
"""Milliseconds without a sweep after which others may have much that nobody here knows of: the store was away."""
_EVER = 1 << 62
_NOT_YET = 1 << 60


@define(eq=False)
class Coverage:
    """Over the shards of the wheel. Where the store is not `shared` nobody else writes."""

    _clock: Clock
    _ownership: Ownership
    _shared: bool = field(kw_only=True, alias="shared")
    swept: int = field(default=_NOT_YET, init=False)
    """When the last near sweep was made that saw all."""
    looked: int = field(default=_NOT_YET, init=False)
    """When the last near sweep was made."""
    whole: Set[int] = field(default=frozenset[int](), init=False)
    """Shards of which one was made since what waits is in the wheel: what others have not brought in time is known,
    too."""
    caught_up: bool = field(default=True, init=False)
    """All was seen since the store was away: what others wrote for shards of this node is known."""
    loading_from: int = field(default=0, init=False)
    """The loader has read, or is reading, what was due before then, in the order of its time."""
    unread: Set[int] = field(default=frozenset(range(SHARDS)), init=False)
    """Shards of which not all that waits was read yet."""
    read_upto: int = field(default=0, init=False)
    """Up to when all of those is in the wheel."""
    backlogged: set[int] = field(factory=lambda: set(range(SHARDS)), init=False)
    """Shards in which, while others have them, more may wait in order than the sweeps see."""

    def loading(self) -> None:
        """From now on the wheel is filled."""
        self.loading_from = self.swept = self.looked = self._clock.now()

    def loaded(self) -> None:
        """What waits is in the wheel."""
        self.loading_from = 0

    def has_backlog(self, shard: int) -> bool:
        """Whether not all that waits in a shard of another node is known here."""
        return shard in self.backlogged and shard not in self._ownership.held

    def was_away(self, milliseconds: int) -> bool:
        """Whether others may have written for so long what no sweep has seen."""
        return self._shared and self._clock.now() - self.looked > milliseconds

    def leaves(self, shard: int) -> bool:
        """Whether what is ordered of a shard is left to the node that has it."""
        return self.has_backlog(shard) or (self.was_away(BEHIND) and shard not in self._ownership.held)

    def read_until(self, shard: int) -> int:
        """Up to when all is known of a shard; what is due later is left alone."""
        return 0 if self.leaves(shard) else self.loaded_until(shard)

    def loaded_until(self, shard: int) -> int:
        """Up to when all is in the wheel that was due before in a shard which this node takes."""
        return self.read_upto if shard in self.unread else _EVER

    def unseen_from(self, shard: int, due: int) -> int:
        """From when on something may wait in a shard that is due before that time, and that nobody here knows of."""
        known = shard in self.whole or (self.caught_up and shard in self._ownership.held)
        if known and not self.was_away(AWAY):
            return max(self.swept - AHEAD, due - REACH)
        return due - BEHIND

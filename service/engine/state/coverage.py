"""Coverage: for each shard, how much of what waits in it is known here.

The loader and the sweeps write it, and the order of time relies on it: earlier messages that may wait unknown are
looked for, or waited for.
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
"""Milliseconds without a sweep after which other nodes may have much that is not known here: the store was away."""
_EVER = 1 << 62
_NOT_YET = 1 << 60


@define(eq=False)
class Coverage:
    """The coverage of the wheel's shards. Where the store is not `shared`, no other node writes."""

    _clock: Clock
    _ownership: Ownership
    _shared: bool = field(kw_only=True, alias="shared")
    swept: int = field(default=_NOT_YET, init=False)
    """When the last near sweep that saw everything was made."""
    looked: int = field(default=_NOT_YET, init=False)
    """When the last near sweep was made."""
    whole: Set[int] = field(default=frozenset[int](), init=False)
    """Shards that were swept at least once since their entries were loaded into the wheel, so entries that other nodes
    have not brought in time are known as well."""
    caught_up: bool = field(default=True, init=False)
    """Everything was seen since the store was away: what others wrote for shards of this node is known."""
    is_loading: bool = field(default=False, init=False)
    """The wheel is being filled for the first time."""
    overdue_until: int = field(default=0, init=False)
    """The loader still reads what was due before this time, in order of time; 0 when all of it is in the wheel."""
    unread: Set[int] = field(default=frozenset(range(SHARDS)), init=False)
    """Shards of which not all waiting rows have been read yet."""
    read_upto: int = field(default=0, init=False)
    """The time up to which all rows of those shards are in the wheel."""
    backlogged: set[int] = field(factory=lambda: set(range(SHARDS)), init=False)
    """Shards in which more ordered messages may wait than the sweeps see, while other nodes have them."""

    def loading(self) -> None:
        """From now on the wheel is being filled."""
        self.is_loading = True
        self.overdue_until = self.swept = self.looked = self._clock.now()

    def overdue_loaded(self) -> None:
        """What was overdue is in the wheel; what falls due later is still being read."""
        self.overdue_until = 0

    def loaded(self) -> None:
        """The rows that waited are in the wheel."""
        self.is_loading, self.overdue_until = False, 0

    def has_backlog(self, shard: int) -> bool:
        """Whether not all that waits in a shard is known here, and another node has it."""
        return shard in self.backlogged and shard not in self._ownership.held

    def was_away(self, milliseconds: int) -> bool:
        """Whether others may have written unseen for so long, since no near sweep was made."""
        return self._shared and self._clock.now() - self.looked > milliseconds

    def leaves(self, shard: int) -> bool:
        """Whether ordered messages of a shard are left to the node that has it."""
        return self.has_backlog(shard) or (self.was_away(BEHIND) and shard not in self._ownership.held)

    def read_until(self, shard: int) -> int:
        """The time up to which all of a shard is known; what is due later is left alone."""
        return 0 if self.leaves(shard) else self.loaded_until(shard)

    def loaded_until(self, shard: int) -> int:
        """For a shard that this node takes: the time up to which everything due is in the wheel."""
        return self.read_upto if shard in self.unread else _EVER

    def unseen_from(self, shard: int, due: int) -> int:
        """The time from which on messages due before `due` may wait in a shard without being known here."""
        known = shard in self.whole or (self.caught_up and shard in self._ownership.held)
        if known and not self.was_away(AWAY):
            return max(self.swept - AHEAD, due - REACH)
        return due - BEHIND

"""The far cycle: all entries of one hour that has not begun, in the order in which they came.

Nothing is sorted or searched here: add appends, cancel writes a tombstone. The work that both save is done once, when
the entries are dealt to slots, which can happen in pieces before the hour begins.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from .entries import CYCLE_MS, OFFSET, Entries
from .slots import Slots


class FarCycle(Entries):
    """The undealt entries of the cycle `number`."""

    __slots__ = ("_ascending", "_dealt", "base", "number")

    # Absolute: due // CYCLE_MS, never a count of rounds to go. `base` is its first millisecond.
    number: int
    base: int
    # Entries before this position are in the slots already; their copies here are ignored.
    _dealt: int
    # Entries before this position are known to ascend by (offset, id), so they are dealt in slices.
    _ascending: int

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.base = number * CYCLE_MS
        self._dealt = 0
        self._ascending = 0

    def __len__(self) -> int:
        return len(self.ids) - self._dealt

    def extend(self, offsets: array[int], ids: array[int], *, ascending: bool) -> None:
        """Add columns, not empty; `ascending` if they are known to ascend by (offset, id)."""
        follows = not self.ids or (self.offsets[-1], self.ids[-1]) <= (offsets[0], ids[0])
        if ascending and follows and self._ascending == len(self.ids):
            self._ascending += len(ids)
        self.ids.extend(ids)
        self.offsets.extend(offsets)

    def deal(self, slots: Slots, limit: int) -> int:
        """Move up to `limit` entries to their slots; return how many remain."""
        stop = min(len(self.ids), self._dealt + limit)
        middle = max(self._dealt, min(self._ascending, stop))
        slots.deal_ascending(*self.live(self._dealt, middle))
        slots.deal_mixed(*self.live(middle, stop))
        self._dealt = stop
        if stop == len(self.ids):
            # All dealt: the memory and the tombstones are freed, and entries that still come for this cycle begin a new
            # count.
            self.offsets, self.ids = array(OFFSET), array("q")
            self._dealt = self._ascending = 0
            self._forget_cancels()
        return len(self)

    def sweep(self) -> None:
        middle = max(self._dealt, self._ascending)
        offsets, ids = self.live(self._dealt, middle)
        more_offsets, more_ids = self.live(middle)
        self.offsets, self.ids = offsets + more_offsets, ids + more_ids
        self._dealt, self._ascending = 0, len(ids)
        self._forget_cancels()

    def _retain(self, retained: Sequence[int]) -> None:
        self._ascending = sum(retained[: self._ascending])
        super()._retain(retained)

    def held(self, wanted: AbstractSet[tuple[int, int]]) -> set[tuple[int, int]]:
        return set(wanted).intersection(zip(*self.live(self._dealt), strict=True))

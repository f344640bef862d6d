"""Entries: the base of far cycles and slots: two columns of entries, and tombstones for the cancelled.

An entry is (offset, id): the milliseconds since its cycle began, and the id of the timer. It is kept as two array items
of 4 + 8 = 12 bytes instead of a Python tuple of more than 100. Nothing here knows which cycle it is.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import compress

from .shards import outside

CYCLE_MS = 3_600_000
SLOT_MS = 1_000
SLOTS = CYCLE_MS // SLOT_MS

# The type of a column of offsets: 4 bytes. Unsigned, because array converts "I" twice as fast as "i".
OFFSET = "I"

# A sweep costs one pass over the entries, so it must be earned by about as many cancels; with fewer than this it is not
# worth it.
_SWEEP_AT_LEAST = 64


def in_order(keys: array[int], ids: array[int]) -> tuple[array[int], array[int]]:
    """The columns in order of (key, id)."""
    pairs = sorted(zip(keys, ids, strict=True))
    return array(keys.typecode, [key for key, _ in pairs]), array("q", [entry_id for _, entry_id in pairs])


class Entries:
    """Entries in the order in which they were added, the cancelled ones among them until a sweep."""

    __slots__ = ("_cancels", "ids", "offsets", "tombstones")

    # Same length always; item n of both is one entry.
    offsets: array[int]
    ids: array[int]
    # (offset, id) -> how many entries there were at its cancel. The entry at `position` is dead if and only if
    # position < tombstones.get((offset, id), 0), so what is added after a cancel lives, and a cancel of what was
    # never added kills nothing, now or later.
    tombstones: dict[tuple[int, int], int]
    # Cancels since the last sweep. More than the tombstones when one pair is added and cancelled again and again.
    _cancels: int

    def __init__(self, offsets: array[int] | None = None, ids: array[int] | None = None) -> None:
        self.offsets = array(OFFSET) if offsets is None else offsets
        self.ids = array("q") if ids is None else ids
        self.tombstones = {}
        self._cancels = 0

    def __len__(self) -> int:
        """Entries held, the dead ones that no sweep has removed yet included."""
        return len(self.ids)

    def bury(self, offset: int, entry_id: int) -> None:
        """Cancel in O(1): every entry of this pair added so far is dead."""
        self.tombstones[offset, entry_id] = len(self.ids)
        self._cancels += 1
        # A tombstone is some twenty times as large as an entry, and a message rescheduled all day leaves one each time.
        # Sweeping when half of the entries may be dead keeps both in proportion to the live entries, at O(1) a cancel.
        if self._cancels >= _SWEEP_AT_LEAST and 2 * self._cancels > len(self.ids):
            self.sweep()

    def sweep(self) -> None:
        """Remove the dead entries and the tombstones."""
        self.offsets, self.ids = self.live()
        self._forget_cancels()

    def live(self, start: int = 0, stop: int | None = None) -> tuple[array[int], array[int]]:
        """Copies of the columns from `start` to `stop`, without the dead."""
        offsets, ids = self.offsets[start:stop], self.ids[start:stop]
        if self.tombstones:
            buried = self.tombstones.get
            alive = [position >= buried(pair, 0) for position, pair in enumerate(zip(offsets, ids, strict=True), start)]
            offsets, ids = array(OFFSET, compress(offsets, alive)), array("q", compress(ids, alive))
        return offsets, ids

    def forget(self, shards: AbstractSet[int], since: int) -> int:
        """Remove the dead, and entries of these shards at the offset `since` or later; return how many are left."""
        self.sweep()
        self._retain(self._outside(shards, since))
        return len(self)

    def held(self, wanted: AbstractSet[tuple[int, int]]) -> set[tuple[int, int]]:
        """The wanted (offset, id) that are live here."""
        return set(wanted).intersection(zip(*self.live(), strict=True))

    def _outside(self, shards: AbstractSet[int], since: int) -> Sequence[int]:
        others = outside(self.ids, shards)
        if since <= 0:
            return others
        return [other or offset < since for other, offset in zip(others, self.offsets, strict=True)]

    def _retain(self, retained: Sequence[int]) -> None:
        self.offsets = array(OFFSET, compress(self.offsets, retained))
        self.ids = array("q", compress(self.ids, retained))

    def _forget_cancels(self) -> None:
        self.tombstones = {}
        self._cancels = 0

"""The 3600 slots of one cycle: the wheel proper.

A slot is one second. Its entries lie in the order in which they came and are sorted once, when the slot opens. Sorting
a million takes seconds, so a large slot is sorted by its milliseconds, ahead of time and in pieces. Slots exist only
where there are entries; a flag for each slot tells where, so that empty seconds are skipped at the speed of memchr.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import islice

from .entries import CYCLE_MS, OFFSET, SLOT_MS, SLOTS, Entries, in_order

# Up to this size a cancel looks the entry up and removes it (20 us at most), so that `first` and the count stay exact.
# In a larger slot, such as a full hour that a million timers name, it leaves a tombstone as in a far cycle.
_LOOK_UP_AT_MOST = 1_000

# A larger slot is parted by its milliseconds: that is twice as fast as a sort of pairs, and can be done in pieces. Not
# less than _LOOK_UP_AT_MOST: in what is parted, entries are cancelled as in a large slot.
_LARGE = 2_000


class Slot(Entries):
    """The entries of one second; never empty while it is in its `Slots`."""

    __slots__ = ("_lengths", "_parted", "_parts", "_sorted", "ascending", "first")

    # Whether the entries are known to ascend by (offset, id).
    ascending: bool
    # The lowest offset. Too low only where it belongs to an entry with a tombstone.
    first: int
    # By millisecond: the live ids of the entries before position _parted. None until the slot is prepared.
    _parts: list[list[int] | array[int]] | None
    _parted: int
    # For each of the first _sorted parts, how many of its ids are in order. Those parts are arrays, so that joining a
    # million ids is a copy. Ids that came later stand behind the ordered ones.
    _lengths: list[int]
    _sorted: int

    def __init__(self, offsets: array[int], ids: array[int], first: int, *, ascending: bool) -> None:
        # Entries.__init__ written out, to save its call: there are 3600 of these an hour, made in one go.
        self.offsets = offsets
        self.ids = ids
        self.tombstones = {}
        self._cancels = 0
        self.first = first
        self.ascending = ascending
        self._parts = None

    def cancel(self, offset: int, entry_id: int) -> None:
        if len(self.ids) > _LOOK_UP_AT_MOST:
            if self._parts is not None:  # all of these came before the cancel
                self._remove(offset % SLOT_MS, entry_id)
            self.bury(offset, entry_id)
            return
        # There are no tombstones here whose positions a removal would upset: only a larger slot has them, and only a
        # sweep, which ends them, makes it smaller.
        removed, position = 0, 0
        try:
            while True:
                position = self.ids.index(entry_id, position)
                if self.offsets[position] == offset:
                    del self.ids[position], self.offsets[position]
                    removed += 1
                else:
                    position += 1
        except ValueError:
            pass  # no further entry of this id
        if removed and offset == self.first and self.ids:
            self.first = min(self.offsets)

    def _remove(self, ms: int, entry_id: int) -> None:
        """Remove an id from its part; those in order stay so."""
        assert self._parts is not None  # noqa: S101 - whoever calls has looked
        part, ordered = self._parts[ms], self._lengths[ms] if ms < self._sorted else 0
        low = bisect_left(part, entry_id, 0, ordered)
        high = bisect_right(part, entry_id, low, ordered)
        del part[low:high]
        if ms < self._sorted:
            self._lengths[ms] = ordered = ordered - (high - low)
        if entry_id in islice(part, ordered, None):
            rest = [one for one in islice(part, ordered, None) if one != entry_id]
            del part[ordered:]
            part.extend(rest)

    def prepare(self, limit: int) -> int:
        """Bring so many entries nearer to their order; return how much is left. Entries that come later add to it."""
        if self.ascending or len(self.ids) <= _LARGE:
            return 0
        if self._parts is None:
            self._parts = self._no_parts()
        limit -= self._part(limit)
        while limit > 0 and self._sorted < SLOT_MS:
            part = self._parts[self._sorted] = array("q", sorted(self._parts[self._sorted]))
            self._lengths.append(len(part))
            self._sorted += 1
            limit -= len(part)
        return len(self.ids) - self._parted + SLOT_MS - self._sorted

    def _no_parts(self) -> list[list[int] | array[int]]:
        self._parted = self._sorted = 0
        self._lengths = []
        return [[] for _ in range(SLOT_MS)]

    def _part(self, limit: int) -> int:
        """Part up to `limit` entries by their milliseconds; return how many there were."""
        assert self._parts is not None  # noqa: S101 - whoever calls has made them
        start, stop = self._parted, min(len(self.ids), self._parted + limit)
        appends = [part.append for part in self._parts]
        for offset, entry_id in zip(*self.live(start, stop), strict=True):
            appends[offset % SLOT_MS](entry_id)
        self._parted = stop
        return stop - start

    def held(self, wanted: AbstractSet[tuple[int, int]]) -> set[tuple[int, int]]:
        if len(self.ids) <= _LARGE:
            return super().held(wanted)
        if self.ascending:
            return {pair for pair in wanted if self._holds(*pair)}
        parts, found = self._all_parts(), set[tuple[int, int]]()
        by_offset: dict[int, set[int]] = {}
        for offset, entry_id in wanted:
            by_offset.setdefault(offset, set()).add(entry_id)
        for offset, ids in by_offset.items():
            ms = offset % SLOT_MS
            part, ordered = parts[ms], self._lengths[ms] if ms < self._sorted else 0
            here = {entry_id for entry_id in ids if _among(part, ordered, entry_id)}
            if ordered < len(part):
                here |= ids.intersection(islice(part, ordered, None))
            found.update((offset, entry_id) for entry_id in here)
        return found

    def _holds(self, offset: int, entry_id: int) -> bool:
        """Whether an entry lives in a slot that ascends, by halving."""
        low = bisect_left(self.offsets, offset)
        high = bisect_right(self.offsets, offset, low)
        stop = bisect_right(self.ids, entry_id, bisect_left(self.ids, entry_id, low, high), high)
        # The last of equal entries: a cancel takes all that came before it.
        found = stop > low and self.ids[stop - 1] == entry_id
        return found and stop > self.tombstones.get((offset, entry_id), 0)

    def put_in_order(self) -> None:
        if not self.ascending and len(self.ids) > _LARGE:
            self._put_parts_in_order()
            return
        if self.tombstones:
            self.sweep()
        if not self.ascending:
            self.offsets, self.ids = in_order(self.offsets, self.ids)

    def _put_parts_in_order(self) -> None:
        parts, self._parts = self._all_parts(), None
        start = self.first // SLOT_MS * SLOT_MS
        offsets, ids = array(OFFSET), array("q")
        for ms, part in enumerate(parts):
            if part:
                ascends = ms < self._sorted and len(part) == self._lengths[ms]
                ids.extend(part if ascends else sorted(part))
                offsets.extend(array(OFFSET, (start + ms,)) * len(part))
        self.offsets, self.ids = offsets, ids
        self._forget_cancels()
        if ids:
            self.first = offsets[0]

    def _all_parts(self) -> list[list[int] | array[int]]:
        if self._parts is None:
            self._parts = self._no_parts()
        self._part(len(self.ids))
        return self._parts

    def sweep(self) -> None:
        super().sweep()
        self._parts = None
        self._look_for_first()

    def _retain(self, retained: Sequence[int]) -> None:
        super()._retain(retained)
        self._parts = None
        self._look_for_first()

    def _look_for_first(self) -> None:
        if self.ids:
            self.first = min(self.offsets)


def _among(part: Sequence[int], ordered: int, entry_id: int) -> bool:
    """Whether the id is among the first `ordered` of a part, which are in order."""
    place = bisect_left(part, entry_id, 0, ordered)
    return place < ordered and part[place] == entry_id


class Slots:
    """One turn of the wheel: the slots of the absolute cycle `number`."""

    __slots__ = ("_occupied", "_slots", "base", "number")

    number: int
    base: int
    _slots: list[Slot | None]
    # 1 where _slots has a slot.
    _occupied: bytearray

    def __init__(self, number: int) -> None:
        self.number = number
        self.base = number * CYCLE_MS
        self._slots = [None] * SLOTS
        self._occupied = bytearray(SLOTS)

    def __len__(self) -> int:
        return sum(len(slot.ids) for slot in self._slots if slot is not None)

    def add(self, offset: int, entry_id: int) -> None:
        index = offset // SLOT_MS
        slot = self._slots[index]
        if slot is None:
            self._slots[index] = Slot(array(OFFSET, (offset,)), array("q", (entry_id,)), offset, ascending=True)
            self._occupied[index] = 1
            return
        slot.ids.append(entry_id)
        slot.offsets.append(offset)
        slot.ascending = False
        if offset < slot.first:
            slot.first = offset

    def deal_mixed(self, offsets: array[int], ids: array[int]) -> None:
        """Put entries in any order into their slots, one by one."""
        slots, add = self._slots, self.add
        for offset, entry_id in zip(offsets, ids, strict=True):
            # The middle of add() again, to save its call: this loop is what a random publish pays at its deal.
            slot = slots[offset // SLOT_MS]
            if slot is None:
                add(offset, entry_id)
                continue
            slot.ids.append(entry_id)
            slot.offsets.append(offset)
            slot.ascending = False
            if offset < slot.first:
                slot.first = offset

    def deal_ascending(self, offsets: array[int], ids: array[int]) -> None:
        """Put entries that ascend by (offset, id) into their slots, a slice each: ten times as fast as one by one."""
        slots, start, stop = self._slots, 0, len(offsets)
        # The end of a slice is most often within twice the mean; there the search takes a third of the steps.
        reach = 2 * stop // SLOTS + 1
        while start < stop:
            first = offsets[start]
            index = first // SLOT_MS
            bound, near = (index + 1) * SLOT_MS, start + reach
            end = bisect_left(offsets, bound, start, near if near < stop and offsets[near] >= bound else stop)
            slot = slots[index]
            if slot is None:
                slots[index] = Slot(offsets[start:end], ids[start:end], first, ascending=True)
                self._occupied[index] = 1
            else:
                slot.ascending = slot.ascending and (slot.offsets[-1], slot.ids[-1]) <= (first, ids[start])
                slot.ids.extend(ids[start:end])
                slot.offsets.extend(offsets[start:end])
                slot.first = min(slot.first, first)
            start = end

    def cancel(self, offset: int, entry_id: int) -> None:
        index = offset // SLOT_MS
        slot = self._slots[index]
        if slot is not None:
            slot.cancel(offset, entry_id)
            if not slot.ids:
                self._remove(index)

    def forget(self, shards: AbstractSet[int], start: int, stop: int) -> None:
        """Remove the entries of these shards from the slots in [start, stop)."""
        while (index := self.find(start, stop)) is not None:
            slot = self._slots[index]
            assert slot is not None  # noqa: S101 - the flag says so
            if not slot.forget(shards, 0):
                self._remove(index)
            start = index + 1

    def prepare(self, start: int, stop: int, limit: int) -> int:
        """Bring entries of the large slots in [start, stop) nearer to their order; return how much is left to do."""
        for slot in self._slots[start:stop]:
            # The length is asked again, to save the call: few slots are large.
            if slot is not None and len(slot.ids) > _LARGE and (left := slot.prepare(limit)):
                return left
        return 0

    def load(self, index: int) -> int:
        """How many entries lie in a slot."""
        slot = self._slots[index]
        return 0 if slot is None else len(slot.ids)

    def find(self, start: int, stop: int = SLOTS) -> int | None:
        """The first slot in [start, stop) that has entries."""
        index = self._occupied.find(1, start, stop)
        return None if index < 0 else index

    def first(self, start: int = 0) -> int | None:
        """The lowest offset from slot `start` on."""
        index = self.find(start)
        return None if index is None else self.first_in(index)

    def first_in(self, index: int) -> int:
        """The lowest offset in an occupied slot."""
        slot = self._slots[index]
        assert slot is not None  # noqa: S101 - the flag says so
        return slot.first

    def open(self, index: int) -> Slot:
        """Take an occupied slot out; its entries are in order and alive."""
        slot = self._slots[index]
        assert slot is not None  # noqa: S101 - the flag says so
        self._remove(index)
        slot.put_in_order()
        return slot

    def held(self, wanted: AbstractSet[tuple[int, int]]) -> set[tuple[int, int]]:
        """The wanted (offset, id) that are live here."""
        by_slot: dict[int, set[tuple[int, int]]] = {}
        for pair in wanted:
            by_slot.setdefault(pair[0] // SLOT_MS, set()).add(pair)
        found: set[tuple[int, int]] = set()
        for index, pairs in by_slot.items():
            slot = self._slots[index]
            if slot is not None:
                found |= slot.held(pairs)
        return found

    def _remove(self, index: int) -> None:
        self._slots[index] = None
        self._occupied[index] = 0

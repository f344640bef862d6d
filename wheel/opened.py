"""The opened part of the wheel: entries behind the front, in order, waiting for their millisecond or for their turn.

Three kinds of entries meet here: those of the slot that is open now, those that were overdue when they came, and those
that came for the open second. Each kind comes as a run, sorted once; entries are taken from the heads of the runs. Runs
are merged when they are of like size, so there are at most log2(n) of them and each entry is merged log2(n) times at
the most: an arrival does not cause the others to be sorted anew.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import compress

from .columns import Columns, alike
from .entries import in_order

# From so many entries of one millisecond on, it is quicker to look where they end than to look at each.
_MANY = 16


class Run:
    """Entries in order of (due, id), taken from the head. An entry is due at base + offset."""

    __slots__ = ("_taken", "base", "ids", "offsets")

    # The start of the cycle for an opened slot, 0 (and offsets of 8 bytes) for all others.
    base: int
    offsets: array[int]
    ids: array[int]
    # Entries before this position have been handed out.
    _taken: int

    def __init__(self, base: int, offsets: array[int], ids: array[int]) -> None:
        self.base = base
        self.offsets = offsets
        self.ids = ids
        self._taken = 0

    def __len__(self) -> int:
        return len(self.ids) - self._taken

    def first(self) -> int:
        return self.base + self.offsets[self._taken]

    def due(self, until: int) -> int:
        """How many are due at `until` or before."""
        offsets = self.offsets
        until -= self.base
        if offsets[-1] <= until:  # the usual case: the second is over
            return len(offsets) - self._taken
        return bisect_right(offsets, until, self._taken) - self._taken

    def take(self, count: int) -> list[int]:
        stop = self._taken + count
        ids = self.ids[self._taken : stop].tolist()
        self._taken = stop
        return ids

    def skip(self, count: int) -> None:
        self._taken += count

    def columns(self, count: int) -> Columns:
        stop = self._taken + count
        offsets, ids = self.offsets[self._taken : stop], self.ids[self._taken : stop]
        if offsets.typecode != "q":
            offsets = _dues(self.base, offsets)
        return Columns(offsets, ids)

    def head(self, count: int) -> list[tuple[int, int]]:
        stop = self._taken + count
        offsets, ids = self.offsets[self._taken : stop], self.ids[self._taken : stop]
        return [(self.base + offset, entry_id) for offset, entry_id in zip(offsets, ids, strict=True)]

    def find(self, due: int, entry_id: int) -> tuple[int, int]:
        """The positions [low, high) of the entries of this pair."""
        offset = due - self.base
        low = bisect_left(self.offsets, offset, self._taken)
        high = bisect_right(self.offsets, offset, low)
        return bisect_left(self.ids, entry_id, low, high), bisect_right(self.ids, entry_id, low, high)

    def remove(self, due: int, entry_id: int) -> None:
        low, high = self.find(due, entry_id)
        del self.offsets[low:high], self.ids[low:high]

    def goes_on_with(self, other: Run) -> bool:
        """Whether all of the other comes after all of this one, and both have the same base and type."""
        alike = self.base == other.base and self.offsets.typecode == other.offsets.typecode
        last = len(self.ids) - 1
        return alike and (self.offsets[last], self.ids[last]) <= (other.offsets[other._taken], other.ids[other._taken])

    def append(self, other: Run) -> None:
        if self._taken > len(self):  # or a run that is appended to for ever would grow for ever
            del self.offsets[: self._taken], self.ids[: self._taken]
            self._taken = 0
        self.offsets.extend(other.offsets[other._taken :])
        self.ids.extend(other.left())

    def left(self) -> array[int]:
        return self.ids[self._taken :]

    def keep(self, wanted: Callable[[array[int], array[int]], Sequence[int]]) -> None:
        dues, ids = array("q", [due for due, _ in self.head(len(self))]), self.left()
        kept = wanted(dues, ids)
        self.offsets = array("q", compress(dues, kept))
        self.ids = array("q", compress(ids, kept))
        self.base = self._taken = 0

    def merged(self, other: Run) -> Run:
        # Two ascending lists one after the other: the sort recognizes and merges them in one pass.
        pairs = self.head(len(self)) + other.head(len(other))
        pairs.sort()
        return Run(0, array("q", [due for due, _ in pairs]), array("q", [entry_id for _, entry_id in pairs]))


def _dues(base: int, offsets: array[int]) -> array[int]:
    """The due times of offsets that ascend."""
    if not offsets or (offsets[-1] - offsets[0]) * _MANY > len(offsets):
        return array("q", map(base.__add__, offsets))
    dues = array("q")
    for offset, start, stop in alike(offsets):
        dues.extend(array("q", (base + offset,)) * (stop - start))
    return dues


class Opened:
    """A sorted multiset of (due, id), added to in bulk and taken from at the low end."""

    __slots__ = ("_fresh_dues", "_fresh_ids", "_runs")

    # None is empty. Each was at least twice as long as the next when that came, and runs only shrink: log2(n) at most.
    _runs: list[Run]
    # Entries that came since the last look, in any order.
    _fresh_dues: array[int]
    _fresh_ids: array[int]

    def __init__(self) -> None:
        self._runs = []
        self._fresh_dues = array("q")
        self._fresh_ids = array("q")

    def __len__(self) -> int:
        return len(self._fresh_ids) + sum(map(len, self._runs))

    def add(self, due: int, entry_id: int) -> None:
        self._fresh_ids.append(entry_id)
        self._fresh_dues.append(due)

    def add_many(self, dues: array[int], ids: array[int]) -> None:
        """Add entries that are in order of (due, id)."""
        self._push(Run(0, dues, ids))

    def open_slot(self, base: int, offsets: array[int], ids: array[int]) -> None:
        """Add a slot's entries, which are in order."""
        if ids:
            self._push(Run(base, offsets, ids))

    def take_columns(self, until: int, limit: int) -> Columns:
        """As `take`, but with the due time of each entry."""
        self._settle()
        if len(self._runs) == 1:
            (run,) = self._runs
            columns = run.columns(min(run.due(until), limit))
            run.skip(len(columns))
            if not len(run):
                self._runs.clear()
            return columns
        heads = self._heads(until, limit)
        self._skip([index for _, _, index in heads])
        return Columns.of((due, entry_id) for due, entry_id, _ in heads)

    def take(self, until: int, limit: int) -> list[int]:
        """The ids of up to `limit` entries due at `until` or before, in order of (due, id)."""
        self._settle()
        runs = self._runs
        if not runs:
            return []
        if len(runs) == 1:
            run = runs[0]
            ids = run.take(min(run.due(until), limit))
            if not len(run):
                runs.clear()
            return ids
        heads = self._heads(until, limit)
        self._skip([index for _, _, index in heads])
        return [entry_id for _, entry_id, _ in heads]

    def first(self) -> int | None:
        """The lowest due time."""
        self._settle()
        return min((run.first() for run in self._runs), default=None)

    def cancel(self, due: int, entry_id: int) -> None:
        # Moves the entries behind it in the array: 1 ms in a run of a million. Such a run is being handed out already.
        self._settle()
        for run in self._runs:
            run.remove(due, entry_id)
        self._runs = [run for run in self._runs if len(run)]

    def holds(self, due: int, entry_id: int) -> bool:
        self._settle()
        return any(low < high for low, high in (run.find(due, entry_id) for run in self._runs))

    def keep(self, wanted: Callable[[array[int], array[int]], Sequence[int]]) -> None:
        """Forget all entries but the wanted: `wanted` is given dues and ids, and returns 1 or 0 for each."""
        self._settle()
        for run in self._runs:
            run.keep(wanted)
        self._runs = [run for run in self._runs if len(run)]

    def columns(self) -> Iterator[array[int]]:
        """All ids, some at a time and in no order."""
        self._settle()
        for run in self._runs:
            yield run.left()

    def _heads(self, until: int, limit: int) -> list[tuple[int, int, int]]:
        """The first (due, id) of all runs, each with the index of its run."""
        # No run gives more than `limit`, so that is all there is to merge, however long the runs are.
        return sorted(
            (due, entry_id, index)
            for index, run in enumerate(self._runs)
            for due, entry_id in run.head(min(run.due(until), limit))
        )[:limit]

    def _skip(self, indexes: Sequence[int]) -> None:
        """Take an entry from the head of each of these runs; a run may be named more than once."""
        for index, count in Counter(indexes).items():
            self._runs[index].skip(count)
        self._runs = [run for run in self._runs if len(run)]

    def _settle(self) -> None:
        """Make a run of the entries that came since the last look."""
        if self._fresh_ids:
            run = Run(0, *in_order(self._fresh_dues, self._fresh_ids))
            self._fresh_dues, self._fresh_ids = array("q"), array("q")
            self._push(run)

    def _push(self, run: Run) -> None:
        runs = self._runs
        if runs and runs[0].goes_on_with(run):
            runs[0].append(run)  # stretches that follow one another need no merge
            return
        while runs and len(runs[-1]) < 2 * len(run):
            run = runs.pop().merged(run)
        runs.append(run)

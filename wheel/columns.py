"""Columns: entries as two arrays in order of (due, id), as they lie in the wheel.

Two arrays take 16 bytes an entry, where a list of pairs takes more than 100. Cutting and joining them costs a copy.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress


class Columns:
    """Pairs (due, id): Unix milliseconds and the id of the timer. The caller gives them in order."""

    __slots__ = ("dues", "ids")

    # Same length always; item n of both is one entry.
    dues: array[int]
    ids: array[int]

    def __init__(self, dues: array[int], ids: array[int]) -> None:
        self.dues = dues
        self.ids = ids

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]]) -> Columns:
        """The columns of pairs that are in order."""
        pairs = list(pairs)
        return cls(array("q", [due for due, _ in pairs]), array("q", [entry_id for _, entry_id in pairs]))

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.dues, self.ids, strict=True)

    def extend(self, other: Columns) -> None:
        """Append columns whose entries come after all of these."""
        self.dues.extend(other.dues)
        self.ids.extend(other.ids)

    def chosen(self, wanted: Sequence[object]) -> Columns:
        """The entries at whose places `wanted` has something true."""
        return Columns(array("q", compress(self.dues, wanted)), array("q", compress(self.ids, wanted)))

    def by(self, milliseconds: int) -> Iterator[tuple[int, Columns]]:
        """For each stretch of so many milliseconds in which entries are due: its number, and those entries."""
        start = 0
        while start < len(self):
            number = self.dues[start] // milliseconds
            stop = bisect_left(self.dues, (number + 1) * milliseconds, start)
            whole = start == 0 and stop == len(self)
            yield number, self if whole else Columns(self.dues[start:stop], self.ids[start:stop])
            start = stop


def alike(values: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """(value, start, stop) of each stretch of equal values, for values that ascend. O(stretches log values)."""
    start = 0
    while start < len(values):
        stop = bisect_right(values, values[start], start)
        yield values[start], start, stop
        start = stop

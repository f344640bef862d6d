"""Known seconds: crowded seconds whose messages have their topics known before they begin.

The `lookahead` finds them out. Entries that come for a second while it is looked at, or later, are not known.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

from attrs import define, field

from ....store.ids import SEQUENCE_BITS, due_of, first_id
from ....wheel.columns import Columns, alike

FEW = 200
"""Messages of other topics in a second: between more of them there are no gaps worth looking for."""
_SECOND = 1_000
_FRESH = 20_000
"""Entries that may have come since the look: with more, the second is looked at anew."""


@define(eq=False)
class KnownSecond:
    """A crowded second that was looked at, or is being looked at."""

    burst: int = 0
    """The topic of nearly all its messages; 0 while it is being looked at, and where nothing is known of it."""
    others: Mapping[int, int] = field(factory=dict[int, int])
    """The topics of the others, by their entries."""
    entries: Sequence[int] = ()
    """The entries of the others, in order."""
    fresh: set[int] = field(factory=set[int])
    """Entries that have come since the look began."""

    def found(self, burst: int, others: Mapping[int, int]) -> None:
        self.burst, self.others, self.entries = burst, others, array("q", sorted(others))

    def tells(self, due: int, entry: int) -> bool:
        return self.burst != 0 and entry >= 0 and due_of(entry) == due and entry not in self.fresh

    def tells_all(self, timers: Columns) -> bool:
        """Whether it tells of each of these. Entries are not looked at one by one, for the service's loop stands still
        meanwhile: those with one due time are in order, so the first and the last tell of all of them."""
        ids = timers.ids
        plain = self.burst != 0 and all(
            ids[start] >> SEQUENCE_BITS == due == ids[stop - 1] >> SEQUENCE_BITS
            for due, start, stop in alike(timers.dues)
        )
        return plain and (not self.fresh or self.fresh.isdisjoint(ids))

    def others_among(self, ids: Sequence[int]) -> dict[int, int]:
        """The topics of those entries that are not of the burst. `ids` are in order, and it tells of all of them."""
        if not ids:
            return {}
        start = bisect_left(self.entries, ids[0])
        near = self.entries[start : bisect_right(self.entries, ids[-1], start)]
        here = (bisect_left(ids, entry) for entry in near)
        return {entry: self.others[entry] for entry, at in zip(near, here, strict=True) if ids[at] == entry}


_UNKNOWN = KnownSecond()


@define(eq=False)
class KnownSeconds:
    """Call `note` or `note_many` as soon as something is added to the wheel."""

    _seconds: dict[int, KnownSecond] = field(factory=dict[int, KnownSecond], init=False)

    def __bool__(self) -> bool:
        return bool(self._seconds)

    def __contains__(self, second: int) -> bool:
        return second in self._seconds

    def of(self, second: int) -> KnownSecond:
        return self._seconds.get(second, _UNKNOWN)

    def begin(self, second: int) -> KnownSecond:
        known = self._seconds[second] = KnownSecond()
        return known

    def forget(self, second: int) -> None:
        """Drops a second whose look has failed."""
        self._seconds.pop(second, None)

    def forget_before(self, second: int) -> None:
        for over in [one for one in self._seconds if one < second]:
            del self._seconds[over]

    def note(self, due: int, entry: int) -> None:
        """Notes an entry that was added to the wheel."""
        if self._seconds and (known := self._seconds.get(due // _SECOND)) is not None:
            known.fresh.add(entry)
            if len(known.fresh) > _FRESH:
                del self._seconds[due // _SECOND]

    def note_many(self, dues: Sequence[int]) -> None:
        """Notes many entries that were added at once: of their seconds nothing is known any more."""
        if self._seconds and dues:
            first, last = min(dues) // _SECOND, max(dues) // _SECOND
            for second in [second for second in self._seconds if first <= second <= last]:
                del self._seconds[second]

    def knows(self, now: int) -> bool:
        """Whether something is known of what falls due now."""
        return self.of(now // _SECOND).burst != 0

    def next_other(self, now: int) -> int | None:
        """When the next entry of this second falls due that is known not to be of its burst; None when there is none,
        or when there are many. O(log others)."""
        entries = self.of(now // _SECOND).entries
        at = bisect_left(entries, first_id(now))
        return due_of(entries[at]) if at < len(entries) <= FEW else None

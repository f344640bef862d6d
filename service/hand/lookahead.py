"""The lookahead: of a second in which very many fall due it is known before it begins of which topics they are.

When a second is crowded, and nearly all of it is of one topic, those few are looked for ahead of time that are not; so
the crowd needs no look into the store for what it lays in lanes, and a neighbour's message that is due in the midst of
a million does not wait until they have been looked up. What comes for the second while it is looked at, or later, is
not known, and is looked up in its turn.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable, Mapping, Sequence

import trio
from attrs import define, field

from ...store.ids import SEQUENCE_BITS, due_of, first_id
from ...wheel.columns import Columns, alike
from .crowd import Timer, TopicsOf
from .gaps import FEW

_SECOND = 1_000
_AHEAD = 20
"""Seconds that are looked at before they begin."""
_CROWDED = 50_000
"""Entries from which on a second is looked at: more than are promoted in one."""
_FRESH = 20_000
"""Entries that may have come since: for more it is looked at anew."""

Strangers = Callable[[int], Awaitable[tuple[int, Mapping[int, int]] | None]]
"""Of a second since 1970: the topic of nearly all messages due in it, and the topics of the others by their entries.
None where nearly all are of several topics. May raise `StoreError`."""


async def nobody_known(_second: int) -> None:
    """Who looks at no second."""


@define(eq=False)
class _Known:
    """A second that was looked at, or is."""

    crowd: int = 0
    """0 while it is being looked at, and where nothing is known of it."""
    others: Mapping[int, int] = field(factory=dict[int, int])
    entries: Sequence[int] = ()
    """Of the others, in order."""
    fresh: set[int] = field(factory=set[int])
    """What has come since the look began."""

    def tells(self, due: int, entry: int) -> bool:
        return self.crowd != 0 and entry >= 0 and due_of(entry) == due and entry not in self.fresh

    def tells_all(self, timers: Columns) -> bool:
        """Whether it tells of each of these. Without a look at each: the service's loop stands still meanwhile. Those
        of one time are in order, so their ends tell of all of them."""
        ids = timers.ids
        plain = self.crowd != 0 and all(
            ids[start] >> SEQUENCE_BITS == due == ids[stop - 1] >> SEQUENCE_BITS
            for due, start, stop in alike(timers.dues)
        )
        return plain and (not self.fresh or self.fresh.isdisjoint(ids))

    def others_among(self, ids: Sequence[int]) -> dict[int, int]:
        """The topics of those that are not of the crowd, by their entries; of such as it tells of, in order."""
        if not ids:
            return {}
        start = bisect_left(self.entries, ids[0])
        near = self.entries[start : bisect_right(self.entries, ids[-1], start)]
        here = (bisect_left(ids, entry) for entry in near)
        return {entry: self.others[entry] for entry, at in zip(near, here, strict=True) if ids[at] == entry}


_UNKNOWN = _Known()


@define(eq=False)
class Lookahead:
    """`look` now and then, with the wheel's `load`; `note` and `note_many` as soon as something is added to it."""

    _ask: TopicsOf
    _strangers: Strangers
    _seconds: dict[int, _Known] = field(factory=dict[int, _Known], init=False)

    def note(self, due: int, entry: int) -> None:
        """An entry comes."""
        if self._seconds and (known := self._seconds.get(due // _SECOND)) is not None:
            known.fresh.add(entry)
            if len(known.fresh) > _FRESH:
                del self._seconds[due // _SECOND]

    def note_many(self, dues: Sequence[int]) -> None:
        """Many come at once: of their seconds nothing is known any more."""
        if self._seconds and dues:
            first, last = min(dues) // _SECOND, max(dues) // _SECOND
            for second in [second for second in self._seconds if first <= second <= last]:
                del self._seconds[second]

    def knows(self, now: int) -> bool:
        """Whether something is known of what falls due now."""
        return self._seconds.get(now // _SECOND, _UNKNOWN).crowd != 0

    def next_stranger(self, now: int) -> int | None:
        """When next in this second something falls due that is known not to be of its crowd; None when nothing does,
        or when many do. O(log strangers)."""
        entries = self._seconds.get(now // _SECOND, _UNKNOWN).entries
        at = bisect_left(entries, first_id(now))
        return due_of(entries[at]) if at < len(entries) <= FEW else None

    async def look(self, now: int, load: Callable[[int], int | None]) -> None:
        """Looks at the crowded seconds that come soon. Raises `StoreError`."""
        second = now // _SECOND
        for over in [one for one in self._seconds if one < second - _AHEAD]:
            del self._seconds[over]
        for one in range(second + 1, second + _AHEAD + 1):
            if one not in self._seconds and (load(one) or 0) > _CROWDED:
                await self._look_at(one)

    async def _look_at(self, second: int) -> None:
        known = self._seconds[second] = _Known()
        try:
            found = await self._strangers(second)
        except BaseException:
            self._seconds.pop(second, None)
            raise
        if found is not None:
            known.crowd, known.others = found
            known.entries = array("q", sorted(known.others))

    async def topics_of(self, timers: Columns, crowd: int) -> Mapping[int, int]:
        """By entry the topic of each of these; it need not tell of those that are of topic `crowd`. Raises
        `StoreError`."""
        if not self._seconds:
            return await self._ask(timers, crowd)
        await trio.lowlevel.checkpoint()  # the lanes fill without a look into the store: others go on in between
        topics: dict[int, int] = {}
        unknown: list[Timer] = []
        for second, some in timers.by(_SECOND):
            known = self._seconds.get(second, _UNKNOWN)
            if known.tells_all(some):
                told = some.ids
            else:
                tells = [known.tells(due, entry) for due, entry in some]
                unknown += some.chosen([not one for one in tells])
                told = some.chosen(tells).ids
            if known.crowd != crowd:
                topics |= dict.fromkeys(told, known.crowd)
            topics |= known.others_among(told)
        return topics | dict(await self._ask(Columns.of(unknown), crowd)) if unknown else topics

"""The timing wheel: finds the ids that are due, at a cost in proportion to those, not to all that are pending.

The algorithm is the hashed timing wheel of G. Varghese and T. Lauck ("Hashed and hierarchical timing wheels", SOSP
1987, scheme 6), changed so that a turn never touches timers that are not due. Theirs hashes every timer to one of n
slots and keeps the number of rounds to go with it; each tick visits all timers of one slot, decrements them, and fires
those at zero. With 10 million timers that is 2800 visits for 58 that fire. Here

- time is cut into cycles of an hour with absolute numbers, cycle = due // 3_600_000, and a cycle into 3600 slots of
  one second;
- an entry of a cycle that has not begun is appended to that cycle's columns (far_cycle.py), and nothing visits it;
- when a cycle begins, its entries are dealt to the slots (slots.py), once. `deal` does so in pieces, ahead of time,
  into a second set of slots that is swapped in;
- when a second begins, its slot is opened: sorted, once (opened.py). From there entries come out at their own
  millisecond. `prepare` sorts a large slot in pieces, in the minute before.

Cycle numbers are absolute and are compared, never counted down: the published formula, rounds = delay // 3600 with
advance-then-visit, fires exact multiples of an hour one lap late, because the hand has yet to pass the slot that it
stands on. Nothing can be a lap late here, since no number of laps is kept.

    past                         front
    ───── opened, in order ───────┤── slots of the cycle ──┤── next cycle, being dealt ── far cycles ──────▶

The `front` is the first second that is not opened, and only `advance` moves it. It follows the hand from one slot that
has something due to the next. When `advance` has a limit, the front waits until the entries behind it have been taken
out, and later ones stay where they were, as compact as before.

Cost: add and cancel O(1), a slot's sort O(k log k) once for its k entries, a step O(entries that come out + cycles and
slots passed that have entries). Memory: 12 bytes an entry in far cycles and in slots, and what arrays keep in reserve
(1/16 or less); a slot in use costs 250 bytes, and there are 7200 at the most. A tombstone costs some 250 bytes, and
there are never more than half as many as entries (or 64) in a cycle.

Times and ids are int64; times are milliseconds. The wheel has no clock and does no I/O.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from heapq import heappop, heappush
from itertools import islice
from operator import le

from .columns import Columns
from .entries import CYCLE_MS, OFFSET, SLOT_MS, SLOTS, in_order
from .far_cycle import FarCycle
from .opened import Opened
from .slots import Slots

# Slots.
_FORGOTTEN_AT_ONCE = 300
# Slots from the front on that are sorted ahead of time if they are large.
_PREPARED = 60
# Entries of the next cycle that are dealt to tell how full a second of it is: less than a millisecond.
_DEALT_TO_TELL = 1_000


class TimingWheel:
    """A multiset of (due, id) that hands out what is due.

    An id has one live due time at a time as far as callers are concerned; the wheel does not rely on it. The same pair
    added twice comes out twice.
    """

    __slots__ = ("_ahead", "_far", "_far_numbers", "_front", "_hand", "_opened", "_slots")

    # Everything due here or before is ready. Never goes back.
    _hand: int
    # Entries due before it are in _opened, all others are not. It is the start of one of _slots, or the end of the
    # last. It lies behind the hand's second only while nothing in between is due, or a limit holds entries back.
    _front: int
    _opened: Opened
    # The cycle of the front.
    _slots: Slots
    # By number; all after _slots.number. While a cycle is being dealt, it has the rest here, and what was dealt is in
    # _ahead.
    _far: dict[int, FarCycle]
    # The keys of _far, as a heap.
    _far_numbers: list[int]
    # The slots of cycle _slots.number + 1, once `deal` has begun with it.
    _ahead: Slots | None

    def __init__(self, now: int) -> None:
        self._hand = now
        self._front = now // SLOT_MS * SLOT_MS
        self._opened = Opened()
        self._slots = Slots(now // CYCLE_MS)
        self._far = {}
        self._far_numbers = []
        self._ahead = None

    def add(self, due: int, entry_id: int) -> None:
        """Add an entry. One that is due at the hand or before is ready at once."""
        number = due // CYCLE_MS
        cycle = self._far.get(number)
        if cycle is None:
            self._add_elsewhere(due, entry_id, number)
            return
        # The id first: it may be too large for its column, and then nothing has changed.
        cycle.ids.append(entry_id)
        cycle.offsets.append(due - cycle.base)

    def add_many(self, dues: Sequence[int], ids: Sequence[int]) -> None:
        """Add entries in bulk; fastest as `array("q")` in order of (due, id), as pages come from a store."""
        dues, ids = _column(dues), _column(ids)
        if len(dues) != len(ids):
            raise ValueError(f"{len(dues)} due times for {len(ids)} ids")
        if not _ascend(dues):
            self._add_mixed(dues, ids)
            return
        if not _ascend(ids):
            # Messages that were rescheduled kept their ids. The ids are nearly sorted, so sorting is little more than a
            # pass.
            dues, ids = in_order(dues, ids)
        start = bisect_left(dues, self._front)
        if start:
            self._opened.add_many(dues[:start], ids[:start])
        while start < len(dues):
            number = dues[start] // CYCLE_MS
            base = number * CYCLE_MS
            stop = bisect_left(dues, base + CYCLE_MS, start)
            offsets = array(OFFSET, [due - base for due in dues[start:stop]])
            if number == self._slots.number:
                self._slots.deal_ascending(offsets, ids[start:stop])
            else:
                self._far_cycle(number).extend(offsets, ids[start:stop], ascending=True)
            start = stop

    def cancel(self, due: int, entry_id: int) -> None:
        """Forget every entry (due, id) added so far. If there is none, nothing happens."""
        number = due // CYCLE_MS
        cycle = self._far.get(number)
        if cycle is not None:
            cycle.bury(due - cycle.base, entry_id)
            if self._ahead is not None and self._ahead.number == number:
                self._ahead.cancel(due - cycle.base, entry_id)
        elif due < self._front:
            self._opened.cancel(due, entry_id)
        elif number == self._slots.number:
            self._slots.cancel(due - self._slots.base, entry_id)

    def forget(self, shards: AbstractSet[int], since: int) -> Iterator[None]:
        """Forget the entries of these shards that are due after the second of `since`, and after the hand's second.

        Each step of the iterator forgets a piece. Anything may be called between two steps; whether entries added
        meanwhile are forgotten, too, is open.
        """
        since = (max(since, self._hand) // SLOT_MS + 1) * SLOT_MS
        # The far cycles first: what is dealt between two steps comes without these shards, or before its slots are
        # searched.
        for number in list(self._far):
            if (cycle := self._far.get(number)) is not None and since < cycle.base + CYCLE_MS:
                cycle.forget(shards, since - cycle.base)
                yield
        for slots in [one for one in (self._ahead, self._slots) if one is not None]:
            for start in range(0, SLOTS, _FORGOTTEN_AT_ONCE):
                first = max(start, (since - slots.base) // SLOT_MS)
                slots.forget(shards, first, start + _FORGOTTEN_AT_ONCE)
                yield

    def advance(self, now: int, limit: int | None = None) -> list[int]:
        """Move the hand to `now` and take out what is due: at most `limit` ids, in order of (due, id).

        Ids that the limit holds back stay ready and come out at the next calls, in one order with those that fall due
        meanwhile. The hand never goes back: an earlier `now` takes out what is due at the hand.
        """
        if limit is not None and limit < 0:
            raise ValueError(f"limit {limit} is negative")
        hand = self._hand = max(self._hand, now)
        room = sys.maxsize if limit is None else limit
        ids = self._opened.take(hand, room)
        # While there is room, no opened entry is due any more: so slots are opened one at a time, and never while an
        # earlier entry waits.
        while len(ids) < room and (index := self._next_slot(hand)) is not None:
            slot = self._slots.open(index)
            self._front = self._slots.base + (index + 1) * SLOT_MS
            if self._front <= hand and len(slot) <= room - len(ids):
                # The second is over and all of it comes out: the usual case when the hand is moved by seconds.
                ids += slot.ids.tolist()
            else:
                self._opened.open_slot(self._slots.base, slot.offsets, slot.ids)
                ids += self._opened.take(hand, room - len(ids))
        return ids

    def advance_columns(self, now: int, limit: int) -> Columns:
        """As `advance`, but with the time at which each id was due."""
        hand = self._hand = max(self._hand, now)
        columns = self._opened.take_columns(hand, limit)
        while len(columns) < limit and (index := self._next_slot(hand)) is not None:
            slot = self._slots.open(index)
            self._front = self._slots.base + (index + 1) * SLOT_MS
            self._opened.open_slot(self._slots.base, slot.offsets, slot.ids)
            columns.extend(self._opened.take_columns(hand, limit - len(columns)))
        return columns

    def deal(self, limit: int) -> int:
        """Deal up to `limit` entries of the next cycle to its slots; return how many remain.

        Optional: the rest is dealt when the cycle begins. Entries that are added to the next cycle later count as
        remaining.
        """
        cycle = self._far.get(self._slots.number + 1)
        if cycle is None:
            return 0
        return cycle.deal(self._slots_ahead(), max(0, limit))

    def prepare(self, limit: int) -> int:
        """Sort about `limit` entries of near seconds whose slots are so large that sorting at once takes long; return
        how many remain.

        Optional: the rest is sorted when its second begins.
        """
        slots, ahead = self._slots, self._ahead
        # From the hand on: where seconds are empty, the front stays behind it.
        start = (max(self._front, self._hand) - slots.base) // SLOT_MS
        left = slots.prepare(min(start, SLOTS), min(start + _PREPARED, SLOTS), limit)
        if not left and ahead is not None and ahead.number == slots.number + 1 and start + _PREPARED > SLOTS:
            left = ahead.prepare(0, min(start + _PREPARED - SLOTS, SLOTS), limit)
        return left

    def load(self, second: int) -> int | None:
        """How many entries fall due in a second since 1970 of this hour or the next, cancelled ones of a large slot
        included. None for a second behind the front or in a later hour, and while many entries are still to be dealt.
        O(1), apart from dealing the entries that came since the last call."""
        number, index = divmod(second, SLOTS)
        if second * SLOT_MS < self._front or number > self._slots.number + 1:
            return None
        if number == self._slots.number:
            return self._slots.load(index)
        if self._far.get(number) and self.deal(_DEALT_TO_TELL):
            return None
        return 0 if self._ahead is None or self._ahead.number != number else self._ahead.load(index)

    @property
    def opened(self) -> int:
        """How many entries lie behind the front: those due that were not taken out, and the rest of the second that is
        under way. O(log entries)."""
        return len(self._opened)

    def next_due(self) -> int | None:
        """When to advance next: nothing falls due before then; None when the wheel is empty.

        Exact if that entry is opened or dealt (in a slot of more than a thousand it may be one cancelled meanwhile),
        otherwise the start of its cycle. After an advance without a limit it is later than the hand.
        """
        first = self._opened.first()
        if first is None:
            first = self._first_dealt(self._slots, (self._front - self._slots.base) // SLOT_MS)
        while first is None and self._far_numbers:
            cycle = self._far[self._far_numbers[0]]
            if len(cycle):
                return cycle.base
            if self._ahead is not None and self._ahead.number == cycle.number:
                first = self._first_dealt(self._ahead, 0)
            if first is None:
                # All of it was cancelled.
                del self._far[heappop(self._far_numbers)]
        return first

    def missing(self, dues: Sequence[int], ids: Sequence[int]) -> list[tuple[int, int]]:
        """The given (due, id) that the wheel does not hold, in the order given.

        Costs O(pairs + entries of the slots and far cycles that the pairs fall in); for a prepared slot of thousands,
        O(pairs log entries).
        """
        found: set[tuple[int, int]] = set()
        by_cycle: dict[int, set[tuple[int, int]]] = {}
        pairs = list(zip(dues, ids, strict=True))
        for due, entry_id in pairs:
            if due >= self._front:
                number = due // CYCLE_MS
                by_cycle.setdefault(number, set()).add((due - number * CYCLE_MS, entry_id))
            elif self._opened.holds(due, entry_id):
                found.add((due, entry_id))
        for number, wanted in by_cycle.items():
            base = number * CYCLE_MS
            for place in self._places(number):
                found.update((base + offset, entry_id) for offset, entry_id in place.held(wanted))
        return [pair for pair in pairs if pair not in found]

    def __len__(self) -> int:
        """Entries held; in far cycles, cancelled ones count until a deal or a sweep meets them.

        A cancel does not look up whether a far cycle holds its entry, so this is not known before. Costs a pass over
        the slots. To see whether there is anything at all, ask next_due(), which is quick.
        """
        ahead = 0 if self._ahead is None else len(self._ahead)
        return len(self._opened) + len(self._slots) + ahead + sum(map(len, self._far.values()))

    def __repr__(self) -> str:
        return f"<TimingWheel hand={self._hand} entries={len(self)} far_cycles={len(self._far)}>"

    def _add_elsewhere(self, due: int, entry_id: int, number: int) -> None:
        if due < self._front:
            self._opened.add(due, entry_id)
        elif number == self._slots.number:
            self._slots.add(due - self._slots.base, entry_id)
        else:
            # A cycle is made with its first entry, after the id has proved to fit.
            ids = array("q", (entry_id,))
            self._far_cycle(number).extend(array(OFFSET, (due - number * CYCLE_MS,)), ids, ascending=True)

    def _add_mixed(self, dues: array[int], ids: array[int]) -> None:
        # By way of lists, to which an item is appended five times as fast as to an array.
        groups: defaultdict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for due, entry_id in zip(dues, ids, strict=True):
            group_dues, group_ids = groups[due // CYCLE_MS]
            group_dues.append(due)
            group_ids.append(entry_id)
        for number, (group_dues, group_ids) in groups.items():
            if number <= self._slots.number:
                for due, entry_id in zip(group_dues, group_ids, strict=True):
                    self._add_elsewhere(due, entry_id, number)
                continue
            base = number * CYCLE_MS
            offsets = array(OFFSET, [due - base for due in group_dues])
            self._far_cycle(number).extend(offsets, array("q", group_ids), ascending=False)

    def _far_cycle(self, number: int) -> FarCycle:
        cycle = self._far.get(number)
        if cycle is None:
            cycle = self._far[number] = FarCycle(number)
            heappush(self._far_numbers, number)
        return cycle

    def _slots_ahead(self) -> Slots:
        number = self._slots.number + 1
        if self._ahead is None or self._ahead.number != number:
            self._ahead = Slots(number)
        return self._ahead

    def _next_slot(self, hand: int) -> int | None:
        """The first slot in which something is due; begins the cycles up to the hand's on the way."""
        while self._front <= hand:
            slots = self._slots
            start, last = (self._front - slots.base) // SLOT_MS, (hand - slots.base) // SLOT_MS
            index = slots.find(start, last + 1)
            if index is not None:
                # A slot stays closed until its first entry is due: entries added to it until then cost no merge.
                return index if index < last or slots.base + slots.first_in(index) <= hand else None
            if last < SLOTS:
                return None
            # On to the next cycle that has entries; empty ones in between are not visited one by one.
            hands = hand // CYCLE_MS
            self._begin(min(self._far_numbers[0], hands) if self._far_numbers else hands)
        return None

    def _begin(self, number: int) -> None:
        ahead = self._ahead
        self._slots = ahead if ahead is not None and ahead.number == number else Slots(number)
        self._ahead = None
        self._front = self._slots.base
        cycle = self._far.pop(number, None)
        if cycle is not None:
            heappop(self._far_numbers)
            cycle.deal(self._slots, len(cycle))

    def _first_dealt(self, slots: Slots, start: int) -> int | None:
        offset = slots.first(start)
        return None if offset is None else slots.base + offset

    def _places(self, number: int) -> Iterable[Slots | FarCycle]:
        """Where entries of this cycle can be."""
        if number in self._far:
            yield self._far[number]
        for slots in (self._slots, self._ahead):
            if slots is not None and slots.number == number:
                yield slots


def _ascend(numbers: array[int]) -> bool:
    return all(map(le, numbers, islice(numbers, 1, None)))


def _column(numbers: Sequence[int]) -> array[int]:
    if isinstance(numbers, array) and numbers.typecode == "q":
        return numbers
    return array("q", numbers)

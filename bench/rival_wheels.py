"""Two other ways to keep timers, for bench/wheel.py to compare with.

textbook    the hashed timing wheel as it is published (Varghese and Lauck 1987, scheme 6): 3600 slots of a second;
            a timer carries its rounds to go; a tick visits every timer of one slot and decrements it. Its rounds
            are (delay - 1) // 3600, not delay // 3600: the slot that the hand stands on is met again after a whole
            turn, so the shorter formula is a lap late for exact hours
heapq       a binary heap at its best. Its entries are single integers, the ids themselves: an id has its due
            millisecond above its low 21 bits, so ids order by due time. (A rescheduled message keeps its id, so a
            real one would need a pair, twice as large and slower.)
"""

from __future__ import annotations

from array import array
from heapq import heapify, heappop, heappush

from ..store.ids import SEQUENCE_BITS

SLOTS = 3_600
SLOT_MS = 1_000


class Timer:
    __slots__ = ("entry_id", "rounds")

    def __init__(self, entry_id: int, rounds: int) -> None:
        self.entry_id = entry_id
        self.rounds = rounds


class TextbookWheel:
    def __init__(self, now: int) -> None:
        self._hand = now // SLOT_MS
        self._slots: list[list[Timer]] = [[] for _ in range(SLOTS)]

    def add(self, due: int, entry_id: int) -> None:
        second = -(-due // SLOT_MS)  # never early: a timer fires at the tick that ends its second
        self._slots[second % SLOTS].append(Timer(entry_id, (second - self._hand - 1) // SLOTS))

    def add_many(self, dues: array[int], ids: array[int]) -> None:
        slots, hand = self._slots, self._hand
        for due, entry_id in zip(dues, ids, strict=True):
            second = -(-due // SLOT_MS)
            slots[second % SLOTS].append(Timer(entry_id, (second - hand - 1) // SLOTS))

    def advance(self, now: int) -> list[int]:
        due: list[int] = []
        while self._hand < now // SLOT_MS:
            self._hand += 1
            waiting: list[Timer] = []
            for timer in self._slots[self._hand % SLOTS]:
                if timer.rounds:
                    timer.rounds -= 1
                    waiting.append(timer)
                else:
                    due.append(timer.entry_id)
            self._slots[self._hand % SLOTS] = waiting
        return due


class HeapWheel:
    def __init__(self, now: int) -> None:
        self._heap: list[int] = []

    def add(self, due: int, entry_id: int) -> None:
        heappush(self._heap, entry_id)

    def add_many(self, dues: array[int], ids: array[int]) -> None:
        heap = self._heap
        if len(ids) > len(heap) // 10:
            heap.extend(ids)
            heapify(heap)
        else:
            for entry_id in ids:
                heappush(heap, entry_id)

    def advance(self, now: int) -> list[int]:
        heap, end, due = self._heap, (now + 1) << SEQUENCE_BITS, list[int]()
        while heap and heap[0] < end:
            due.append(heappop(heap))
        return due

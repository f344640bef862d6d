"""A binary heap of timers, for bench/wheel.py to compare with: `heapq` at its best.

Its entries are single integers, the ids themselves: an id has its due millisecond above its low 21 bits, so ids order
by due time. (A rescheduled message keeps its id, so a real one would need a pair, twice as large and slower.)
"""

from __future__ import annotations

from array import array
from heapq import heapify, heappop, heappush

SEQUENCE_BITS = 21


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

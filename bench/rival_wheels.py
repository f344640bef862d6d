"""The hashed timing wheel as published (Varghese and Lauck 1987, scheme 6), for bench/wheel.py to compare with.

It has 3600 slots of a second. A timer carries the number of rounds left; a tick visits every timer of one slot and
decrements it. The rounds are (delay - 1) // 3600, not delay // 3600: the hand comes back to its current slot after a
whole turn, so the shorter formula would fire a turn late for exact hours.
"""

from __future__ import annotations

from array import array

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

    def add_many(self, dues: array[int], ids: array[int]) -> None:
        slots, hand = self._slots, self._hand
        for due, entry_id in zip(dues, ids, strict=True):
            second = -(-due // SLOT_MS)  # never early: a timer fires at the tick that ends its second
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
